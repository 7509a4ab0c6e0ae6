"""What all commands share: where the home is, and mistakes that are said in a sentence."""

from __future__ import annotations

from errno import EACCES, EEXIST, EISDIR, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from eagle_assets.lake.home import Home


class Mistake(click.ClickException):
    """Something that the user can mend: one sentence, status 1, no traceback."""


def fail(sentence: str) -> NoReturn:
    raise Mistake(sentence)


class Commands(click.Group):
    """Commands that say in a sentence which file or folder they cannot use."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.errno not in _OF_A_PATH or error.filename is None:
                raise
            reason = (error.strerror or "no reason was given").lower()
            fail(f"{error.filename} cannot be used: {reason}; choose another place, or look at its permissions")


_OF_A_PATH = {EACCES, EEXIST, EISDIR, ENOENT, ENOSPC, ENOTDIR, EPERM, EROFS}


def home() -> Home:
    """The home of the user's settings."""
    from eagle_assets.configuration import Settings
    from eagle_assets.lake.home import Home

    return Home(Settings().home)
