"""What all commands share: where the home is, and mistakes that are said in a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from errno import EACCES, EEXIST, EISDIR, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from eagle_assets.configuration import Configuration
    from eagle_assets.lake.home import Home


class Mistake(click.ClickException):
    """Something that the user can mend: one sentence, status 1, no traceback."""


def fail(sentence: str) -> NoReturn:
    raise Mistake(sentence)


class Interrupted(click.ClickException):
    """The user ended a command: no traceback, and the status that shells expect."""

    exit_code = 130


class Commands(click.Group):
    """Commands that say in a sentence which file or folder they cannot use, and what an interruption leaves."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ValueError as error:
            if type(error).__module__ != "pyarrow.lib":
                raise
            _fail_for_damage(error)
        except KeyboardInterrupt:
            raise Interrupted("interrupted; run the same command again to go on: nothing is bought twice") from None
        except OSError as error:
            if error.errno is None:  # Arrow's, of a file that it cannot read
                _fail_for_damage(error)
            if error.errno not in _OF_A_PATH or error.filename is None:
                raise
            reason = (error.strerror or "no reason was given").lower()
            fail(f"{error.filename} cannot be used: {reason}; choose another place, or look at its permissions")


_OF_A_PATH = {EACCES, EEXIST, EISDIR, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS}


def _fail_for_damage(error: Exception) -> NoReturn:
    said = " ".join(str(error).split())
    fail(f"a file of {home().root} is damaged ({said}); `eagle-assets run` says which, and makes it again")


def require_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuses, before any work, outputs that would overwrite an input or each other, that are no files, or whose folder
    is not there."""
    taken = {file.resolve(): "an input" for file in inputs if file is not None}
    for output in filter(None, outputs):
        if str(output) == "-":
            fail("results do not go to standard output, as they appear whole or not at all; name a file with -o")
        place = output.resolve()
        if place in taken:
            fail(f"{output} is {taken[place]} too; choose another name for the output")
        if not place.parent.is_dir():
            fail(f"the folder {output.parent} does not exist; make it first, or choose another")
        if place.exists() and not place.is_file():
            fail(f"{output} is no file; what is written is put in its place as a whole, so name a file")
        taken[place] = "another output"


def configuration() -> Configuration:
    """The datasets file of the user's settings with the home's routing laid over it. Raises ConfigurationError."""
    from eagle_assets.configuration import Settings
    from eagle_assets.openrouter.written_routing import load_with_written_routing

    return load_with_written_routing(Settings().datasets_file, home().root)


def home() -> Home:
    """The home of the user's settings."""
    from eagle_assets.configuration import ConfigurationError, Settings
    from eagle_assets.lake.home import Home

    try:
        return Home(Settings().home)
    except ConfigurationError as error:
        fail(str(error))
