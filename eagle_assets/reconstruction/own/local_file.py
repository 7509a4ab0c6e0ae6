"""A file of answers of the team's own server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from eagle_assets.openrouter.wrong_rows import WrongRows, in_other_form, in_plain_words
from eagle_assets.reconstruction.own.local import what_is_wrong
from eagle_assets.reconstruction.own.local_forms import LocalResponse, local_response
from eagle_assets.targets.vocabulary import Vocabulary


class LocalResponsesError(WrongRows):
    """A file of local responses cannot be used; the message names the file and the lines, and says what is wrong."""


def read_local_responses(path: Path, vocabulary: Vocabulary) -> Iterator[tuple[LocalResponse, bytes]]:
    """Rows of a JSONL file in the forms of `local_forms`, each with the bytes of its line; blank lines are skipped.

    Raises LocalResponsesError at the end where rows cannot be used: of no such form, ids missing or outside the
    vocabulary, a `prompt_id` that came before.
    """
    seen: set[str] = set()
    problems: list[str] = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if number == 1 and (other := in_other_form(line)) is not None:
                    raise LocalResponsesError(f"{path} cannot be read: {other}")
                if not line.strip():
                    continue
                try:
                    row = local_response(line)
                except ValueError as error:
                    problems.append(f"line {number}: {in_plain_words(error)}")
                    continue
                if wrong := what_is_wrong(row, vocabulary, seen):
                    problems.append(f"line {number}: {wrong}")
                    continue
                seen.add(row.prompt_id)
                yield row, line.rstrip(b"\r\n")
    except FileNotFoundError:
        raise LocalResponsesError(f"{path} does not exist; mend `responses` in the datasets file") from None
    except OSError as error:
        raise LocalResponsesError(f"{path} cannot be read: {error.strerror}") from None
    if problems:
        raise LocalResponsesError.of(path, problems)
    if not seen:
        raise LocalResponsesError(f"{path} holds no response; it needs a JSON object on each line")
