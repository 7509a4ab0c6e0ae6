"""The files of `prompts`: rows of a prompts file are rendered once, and stay as long as what they were made from does.

A part is made from so many lines of the prompts file, one after the other. What comes after them leaves it as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eagle_assets.configuration import Configuration, OpenRouterDataset, ServerDataset
from eagle_assets.lake.audit import GateClosed, Published
from eagle_assets.lake.code import digest_of_code
from eagle_assets.lake.parquet import batches_of, rows_at
from eagle_assets.lake.schemas import PROMPTS
from eagle_assets.lake.version import PART_ROWS, NewVersion
from eagle_assets.openrouter.endpoints import Price, worst_case_usd
from eagle_assets.openrouter.requests import (
    Prompt,
    PromptsError,
    build_request,
    prompt_lines,
    prompts_in,
    read_prompts,
    request_key,
)
from eagle_assets.openrouter.wanted import Places, Wanted, WantedRequest
from eagle_assets.targets.kimi import target_named
from eagle_assets.targets.prompt import PromptError, prompt_ids
from eagle_assets.targets.target import Target
from eagle_assets.training.ragged import Ragged

_CODE = ("targets", "openrouter/requests.py", "openrouter/endpoints.py", "defs/prompt_parts.py", "lake/columns.py")
_PACKAGES = ("splintr-rs", "renderers")
_SENT = ["prompt_id", "request_key", "request", "prompt_tokens"]
_IDENTIFYING = ["prompt_id", "request", "prompt_ids"]


@dataclass(frozen=True, slots=True)
class PromptsFile:
    """A prompts file as the datasets file says that it is asked."""

    name: str
    dataset: OpenRouterDataset | ServerDataset
    configuration: Configuration

    def parts(self) -> Iterator[tuple[str, list[tuple[int, bytes]]]]:
        """What is asked by each part, as a digest, and its lines. Raises PromptsError where the file cannot be read."""
        target = target_named(self.configuration.target)
        of_request = msgspec.json.encode(build_request(Prompt("", ()), self.dataset, self.configuration))
        made_by = (target.vocabulary.sha256, digest_of_code(_CODE, _PACKAGES))
        of_all = repr((self.name, of_request, made_by)).encode()
        lines = prompt_lines(self.dataset.prompts)
        while part := list(islice(lines, PART_ROWS)):
            digest = hashlib.sha256(of_all)
            for _, line in part:
                digest.update(len(line).to_bytes(8) + line)
            yield digest.hexdigest(), part

    def row(self, prompt: Prompt, target: Target, price: Price | None) -> dict[str, Any]:
        """The row of PROMPTS; without a price it costs nothing. Raises PromptError."""
        request = build_request(prompt, self.dataset, self.configuration)
        ids = prompt_ids(target, request)
        return {
            "prompt_id": prompt.prompt_id,
            "dataset": self.name,
            "request": msgspec.json.encode(request).decode(),
            "request_key": request_key(request),
            "prompt_ids": ids,
            "prompt_tokens": len(ids),
            "max_tokens": request["max_tokens"],
            "worst_case_usd": worst_case_usd(len(ids), request["max_tokens"], price) if price is not None else 0.0,
        }


def write_prompts(version: NewVersion, file: PromptsFile, price: Price | None, problems: list[dict[str, Any]]) -> None:
    """Write the parts that are not there yet at this price, and keep the others; what cannot be rendered goes to
    `problems`, as prompt and reason. Raises PromptsError where rows cannot be used."""
    target = target_named(file.configuration.target)
    for asked, lines in file.parts():
        recipe = f"{asked} at {price}"
        if version.keep_made_from(recipe) is None:
            try:
                prompts = prompts_in(file.dataset.prompts, lines)
            except PromptsError:
                read_prompts(file.dataset.prompts)  # names what is wrong with the others too
                raise
            write_part(version, _rows(file, prompts, target, price, problems), recipe)
    prompt_ids = pa.Table.from_batches(version.batches(columns=["prompt_id"]), _schema("prompt_id"))["prompt_id"]
    if pc.count_distinct(prompt_ids).as_py() < len(prompt_ids) or not (len(prompt_ids) or problems):
        read_prompts(file.dataset.prompts)


def write_part(version: NewVersion, rows: Iterable[dict[str, Any]], recipe: str = "") -> None:
    """Write the rows of a part, and read them back for the digest of what answers depend on: prices may change without
    making them stale."""
    name = version.next_part()
    version.write_rows(name, PROMPTS, rows)
    digests = {column: hashlib.sha256() for column in _IDENTIFYING}
    for batch in version.batches(name, _IDENTIFYING):
        for column in ("prompt_id", "request"):
            digests[column].update(msgspec.json.encode(batch[column].to_pylist()))
        ids = Ragged.from_arrow(batch["prompt_ids"])
        digests["prompt_ids"].update(ids.lengths.tobytes() + ids.values.tobytes())
    content = "".join(digest.hexdigest() for digest in digests.values())
    version.tell(name, recipe, passes_on=hashlib.sha256(content.encode()).hexdigest())


def wanted_as_published(published: Published, file: PromptsFile) -> Wanted:
    """The requests of a dataset, as they were published, at whatever price. Raises GateClosed where the prompts file or
    the datasets file says something else by now."""
    try:
        asked = [asked for asked, _ in file.parts()]
    except PromptsError as error:
        raise GateClosed(str(error)) from None
    if asked != [part.recipe.partition(" ")[0] for part in published.audit.files]:
        raise GateClosed(
            f"{file.dataset.prompts}, the datasets file or this program changed since prompts of {file.name} was "
            "materialised; materialise it again"
        )
    names = ["prompt_id", "request_key"]
    table = pa.Table.from_batches(published.batches(names), _schema(*names))
    return Wanted(table["prompt_id"], table["request_key"], lambda places: _read(published, places))


def _rows(
    file: PromptsFile,
    prompts: Sequence[Prompt],
    target: Target,
    price: Price | None,
    problems: list[dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    for prompt in prompts:
        try:
            yield file.row(prompt, target, price)
        except PromptError as error:
            problems.append({"prompt_id": prompt.prompt_id, "problem": f"line {prompt.line}: {error}"})


def _read(published: Published, places: Places) -> Iterator[WantedRequest]:
    first = 0
    with ExitStack() as stack:
        # At once, because another run may supersede them while answers are waited for.
        opened = [stack.enter_context(path.open("rb")) for path in published.paths]
        for source in opened:
            rows = pq.read_metadata(source).num_rows
            here = places[(places >= first) & (places < first + rows)] - first
            for row in rows_at(batches_of(source, _SENT), here) if here.size else ():
                yield WantedRequest(**{**row, "request": msgspec.json.decode(row["request"])})
            first += rows


def _schema(*columns: str) -> pa.Schema:
    return pa.schema([PROMPTS.field(name) for name in columns])
