"""A headless Chromium: the one that is installed, or else the one from the npm registry."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

from websockets.sync.client import ClientConnection, connect

from eagle_assets_tests.defs.dagster_dev import wait_for

INSTALLED = ("chromium", "chromium-browser", "google-chrome", "chrome")
FROM_NPM = "@sparticuz/chromium@147"
SECONDS = 180
_SHOWN = "document.documentElement ? document.documentElement.outerHTML : ''"


class Browser:
    """Opens pages, runs their scripts, and gives what they show.

    It is told what to do over the DevTools protocol: on some machines what the command line asks for (`--dump-dom`)
    never ends.
    """

    def __init__(self, program: str, profile: Path) -> None:
        self._program, self._profile = program, profile

    def page(self, url: str, shows: Collection[str], screenshot: Path, height: int = 950) -> str:
        """The elements of a page once it shows all of that, or those that are there when the time is over; its picture
        goes to `screenshot`."""
        with self._tab(height) as tab:
            _call(tab, "Page.navigate", url=url)
            over = time.monotonic() + SECONDS
            while not all(text in (shown := _shown(tab)) for text in shows) and time.monotonic() < over:
                time.sleep(0.2)
            picture = _call(tab, "Page.captureScreenshot")["data"]
            screenshot.write_bytes(base64.b64decode(picture))
        return shown

    @contextmanager
    def _tab(self, height: int) -> Iterator[ClientConnection]:
        """The only tab of a browser that ends with it."""
        port = self._profile / "DevToolsActivePort"  # Chromium writes its port and its address into it
        port.unlink(missing_ok=True)
        command = [
            self._program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--no-first-run",
            "--lang=en-US",  # without a language the pages of Dagster stay blank
            f"--user-data-dir={self._profile}",
            f"--window-size=1500,{height}",
            "--remote-debugging-port=0",
            "about:blank",
        ]
        environment = {**os.environ, "LANG": "en_US.UTF-8", "LANGUAGE": "en_US", "TZ": "UTC"}
        with subprocess.Popen(command, env=environment, stdout=DEVNULL, stderr=DEVNULL) as chromium:
            try:
                told = wait_for(lambda: port.read_text() if port.is_file() else None, "the port of Chromium")
                number, path = told.split()
                with connect(f"ws://127.0.0.1:{number}{path}", proxy=None) as browser:
                    targets = _call(browser, "Target.getTargets")["targetInfos"]
                (page,) = [target["targetId"] for target in targets if target["type"] == "page"]
                with connect(f"ws://127.0.0.1:{number}/devtools/page/{page}", proxy=None, max_size=None) as tab:
                    yield tab
            finally:
                chromium.kill()


def _shown(tab: ClientConnection) -> str:
    shown: str = _call(tab, "Runtime.evaluate", expression=_SHOWN)["result"].get("value", "")
    return shown


def _call(connection: ClientConnection, method: str, **parameters: Any) -> dict[str, Any]:
    """The result of a method of the protocol. Raises TimeoutError."""
    connection.send(json.dumps({"id": 1, "method": method, "params": parameters}))
    while (answer := json.loads(connection.recv(timeout=SECONDS))).get("id") != 1:
        pass  # an event
    assert "result" in answer, answer
    result: dict[str, Any] = answer["result"]
    return result


def find_browser(folder: Path) -> Browser | None:
    """A browser with its profile in `folder`; None where there is none and none can be had."""
    program = next(filter(None, map(shutil.which, INSTALLED)), None) or _from_npm(folder)
    return Browser(program, folder / "profile") if program else None


def _from_npm(folder: Path) -> str | None:
    if shutil.which("npm") is None or shutil.which("node") is None:
        return None
    path = "import chromium from '@sparticuz/chromium'; console.log(await chromium.executablePath())"
    install = ["npm", "install", "--silent", "--prefix", str(folder), FROM_NPM]
    try:
        for command in (install, ["node", "--input-type=module", "-e", path]):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (subprocess.SubprocessError, OSError):
        return None
    return done.stdout.strip()
