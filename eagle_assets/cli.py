"""The command line. Each command imports what it needs when it runs, so that `--help` answers at once."""

from __future__ import annotations

from typing import NoReturn

import click

from eagle_assets import __version__


class Mistake(click.ClickException):
    """Something that the user can mend: one sentence, status 1, no traceback."""


def fail(sentence: str) -> NoReturn:
    raise Mistake(sentence)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__)
def main() -> None:
    """Turn OpenRouter text responses into the exact token ids that trained drafters need, and prove it.

    \b
    First steps:
      make demo                          the whole graph on a loopback server, without a key
      eagle-assets reconstruct IN -o OUT your own recorded exchanges, with a verdict for each
      eagle-assets preflight             is this machine ready, is the vocabulary the official one?
    """


if __name__ == "__main__":
    main()
