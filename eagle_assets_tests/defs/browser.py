"""A headless Chromium: the one that is installed, or else the one from the npm registry."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

INSTALLED = ("chromium", "chromium-browser", "google-chrome", "chrome")
FROM_NPM = "@sparticuz/chromium@147"
SECONDS = 180
SECONDS_OF_A_TRIAL = 60  # on some machines Chromium runs a page's scripts, and never ends


class Browser:
    """Opens pages, runs their scripts, and gives what they show."""

    def __init__(self, program: str, profile: Path) -> None:
        self._program, self._profile = program, profile

    def works(self, folder: Path) -> bool:
        """Whether it opens an empty page, and ends."""
        try:
            self.page("data:text/html,<p>here</p>", folder / "trial.png", seconds=SECONDS_OF_A_TRIAL)
        except subprocess.TimeoutExpired:
            return False
        return True

    def page(self, url: str, screenshot: Path, height: int = 950, seconds: int = SECONDS) -> str:
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
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds)
        assert done.returncode == 0, done.stderr[-2_000:]
        return done.stdout


def find_browser(folder: Path) -> Browser | None:
    """A browser with its profile in `folder`; None where there is none that works and none can be had."""
    program = next(filter(None, map(shutil.which, INSTALLED)), None) or _from_npm(folder)
    browser = Browser(program, folder / "profile") if program else None
    return browser if browser is not None and browser.works(folder) else None


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
