"""Files as the catalogue found them: hard links, which cost nothing and outlive the files that they were made of.

A stage removes its superseded files at once, while somebody may be reading a catalogue that still names them. The links
of a catalogue go only when a newer one has been there for a while.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from eagle_assets.lake.home import Home

KEPT_SECONDS = 600


class Snapshot:
    """Links to the files of one catalogue, in a folder of its own under the home."""

    def __init__(self, home: Home, name: str) -> None:
        self._home = home
        self._folders = home.root / ".snapshots"
        self.folder = self._folders / name

    def keep(self, path: Path) -> Path:
        """A link to a file of the home; the file itself where the file system has no links.

        Raises FileNotFoundError where it was superseded meanwhile.
        """
        link = self.folder / path.relative_to(self._home.root)
        link.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, link)
        except FileExistsError:
            return link
        except FileNotFoundError:
            raise
        except OSError:
            return path
        return link

    def remove(self) -> None:
        """Give the links up again."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def remove_older(self) -> None:
        """Remove the links of catalogues that nobody can be reading any more; this one is now the current one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for folder in self._folders.iterdir():
            superseded = folder / "superseded"
            if folder == self.folder:
                continue
            if not superseded.exists():
                superseded.touch()
            elif time.time() - superseded.stat().st_mtime > KEPT_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
