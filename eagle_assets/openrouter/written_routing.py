"""The routing that calibration leads to, in a file that a person can read and overrule."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import ValidationError

from eagle_assets.configuration import (
    Configuration,
    ConfigurationError,
    Routing,
    load_configuration,
    problems_in_words,
)
from eagle_assets.durability import write_atomically

FILE_NAME = "routing.yaml"
_MARK = "# written by provider_calibration: "


@dataclass(frozen=True, slots=True)
class Advice:
    """A provider, what is said of it in a few words, and why it is better not asked, or None."""

    slug: str
    said: str
    refused: str | None


def routing_path(home_folder: Path) -> Path:
    return home_folder / FILE_NAME


def routing_text(advice: Sequence[Advice]) -> str:
    """The file for these providers, the best first."""
    refused = [a for a in advice if a.refused is not None]
    lines = [
        "# Who may answer, as the providers' answers to probes suggest. It counts on top of `routing` in the datasets",
        "# file. Change it and it is yours: it is then used as it is, and not written again until you delete it.",
        "#",
        "# The providers, the best first, by what their evidence can prove and then by price:",
        *(f"#   {place}. {a.slug}: {a.said}" for place, a in enumerate(advice, start=1) if a.refused is None),
        "",
        "ignore:" if refused else "ignore: []",
        *(f"  - {a.slug}  # {a.refused}" for a in refused),
        "",
        "# To try the best ones first:",
        f"# order: [{', '.join(a.slug for a in advice if a.refused is None)}]",
    ]
    return "\n".join(lines) + "\n"


def write_routing(home_folder: Path, text: str) -> bool:
    """Write the file, unless a person has changed it: then it is left alone, and False is returned."""
    path = routing_path(home_folder)
    if path.exists():
        first, _, rest = path.read_text(encoding="utf-8").partition("\n")
        if first != _MARK + _digest(rest):
            return False
    write_atomically(path, f"{_MARK}{_digest(text)}\n{text}".encode())
    return True


def load_with_written_routing(datasets_file: Path, home_folder: Path) -> Configuration:
    """The datasets file with the home's routing file laid over it. Raises ConfigurationError."""
    return with_written_routing(load_configuration(datasets_file), home_folder)


def with_written_routing(configuration: Configuration, home_folder: Path) -> Configuration:
    """The configuration with the home's routing file laid over its own: what either ignores is ignored.

    Raises ConfigurationError where the file cannot be used.
    """
    path = routing_path(home_folder)
    if not path.exists():
        return configuration
    try:
        written = Routing.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        said = problems_in_words(error) if isinstance(error, ValidationError) else " ".join(str(error).split())
        raise ConfigurationError(f"{path} cannot be used, mend it or delete it: {said}") from None
    own = configuration.routing
    ignore = tuple(dict.fromkeys((*own.ignore, *written.ignore)))
    chosen = {name: getattr(written, name) for name in written.model_fields_set}
    routing = own.model_copy(update={**chosen, "ignore": ignore})
    return configuration.model_copy(update={"routing": routing})


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
