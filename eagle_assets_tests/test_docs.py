"""What the README and its pages tell people to type is there, and so is what they link to."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from eagle_assets.cli import main

REPOSITORY = Path(__file__).parents[1]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@each_page
def test_make_knows_its_targets(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    told = set(re.findall(r"(?:^ {4}|`|=\S+ )make ([a-z-]+)", page.read_text(), re.MULTILINE))
    assert told <= targets


@each_page
def test_commands_and_their_options_are_known(page: Path) -> None:
    told = re.findall(r"(?:^ {4}|`|/)[^`\n]*?eagle-assets ([a-z]+)([^`\n#]*)", page.read_text(), re.MULTILINE)
    for name, rest in told:
        command = main.get_command(click.Context(main), name)
        assert command is not None, name
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest.partition("|")[0])) <= known, (name, rest)


def test_the_commands_of_the_readme_are_found() -> None:
    told = set(re.findall(r"eagle-assets ([a-z]+)", PAGES[0].read_text()))
    assert {"preflight", "budget", "reconstruct", "judge", "export", "query", "report"} <= told
