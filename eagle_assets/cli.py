"""The command line. Each command imports what it needs when it runs, so that `--help` answers at once."""

from __future__ import annotations

import click

from eagle_assets import __version__
from eagle_assets.commands import on_files, on_home, on_machine
from eagle_assets.commands.group import Commands


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__)
def main() -> None:
    """Turn OpenRouter text responses into the exact token ids that trained drafters need, and prove it.

    \b
    First steps:
      make demo                          the whole graph on a loopback server, without a key
      eagle-assets reconstruct IN -o OUT your own recorded exchanges, with a verdict for each
      eagle-assets preflight             is this machine ready, is the vocabulary the official one?
    """


for command in (
    *(on_files.reconstruct, on_files.calibrate, on_files.judge, on_files.show),
    *(on_home.run, on_home.budget, on_home.query, on_home.report, on_home.export),
    *(on_machine.preflight, on_machine.sandbox),
):
    main.add_command(command)


if __name__ == "__main__":
    main()
