"""A headless Chromium: the one that is installed, or else the one from the npm registry."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

INSTALLED = ("chromium", "chromium-browser", "google-chrome", "chrome")
FROM_NPM = "@sparticuz/chromium@147"
SECONDS = 120
ATTEMPTS = 3  # a Chromium without a graphics card hangs now and then


class Browser:
    """Opens pages, runs their scripts, and gives what they show."""

    def __init__(self, program: str, profile: Path) -> None:
        self._program, self._profile = program, profile

    def page(self, url: str, screenshot: Path, height: int = 950) -> str:
        """The elements of a page once it has settled; its picture goes to `screenshot`."""
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
            "--virtual-time-budget=30000",
            f"--screenshot={screenshot}",
            "--dump-dom",
            url,
        ]
        environment = {**os.environ, "LANG": "en_US.UTF-8", "LANGUAGE": "en_US", "TZ": "UTC"}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
            except subprocess.TimeoutExpired:
                if attempt == ATTEMPTS:
                    raise
                shutil.rmtree(self._profile, ignore_errors=True)  # it says that the one that hung still runs
            else:
                break
        assert done.returncode == 0, done.stderr[-2_000:]
        return done.stdout


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
