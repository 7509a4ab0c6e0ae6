"""Judging what is stored again: only what may have changed is touched, and the result is that of a judgement anew."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from eagle_assets.defs.judging import write_sequences
from eagle_assets.lake.audit import Audit, Check, GateClosed, require
from eagle_assets.lake.home import Home
from eagle_assets.lake.kept import parts_of
from eagle_assets.lake.schemas import RAW_RESPONSES, TOKEN_SEQUENCES
from eagle_assets.lake.version import new_version
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.calibrating.calibration import Calibration
from eagle_assets.reconstruction.parts import findings as part_findings
from eagle_assets.reconstruction.parts import observations as part_observations
from eagle_assets.reconstruction.parts.findings import BoughtFinder, find_in_parts
from eagle_assets.reconstruction.parts.observations import calibrate_parts
from eagle_assets.reconstruction.parts.weights import weigh_parts
from eagle_assets.reconstruction.sequences import calibrate_rows, sequence_rows
from eagle_assets.serving.convention import Convention
from eagle_assets.serving.conventions import BLANKS_ROUND_ADDED_TOKENS, VERBATIM
from eagle_assets.training.shard_parts import write_shards
from eagle_assets_tests.reconstruction.served_exchanges import K2_5, exchanges, some_outputs

LIMIT, CODE = 0.05, "some code"
TRUTHS = some_outputs(130, seed=4)


def rows(convention: Convention, provider: str, start: int, stop: int) -> list[dict[str, Any]]:
    """Rows of RAW_RESPONSES: what a provider made of these outputs."""
    served = exchanges(TRUTHS[:stop], convention, provider)[start:]
    return [_row(exchange, place) for place, exchange in enumerate(served, start)]


def _row(exchange: Exchange, place: int) -> dict[str, Any]:
    return {
        "exchange_id": exchange.exchange_id,
        "prompt_id": f"q{place}",
        "dataset": "B3",
        "model": exchange.model,
        "provider": exchange.provider,
        "status": exchange.status,
        "outcome": "answered",
        "request": msgspec.json.encode(exchange.request).decode(),
        "body": exchange.body,
        "arrivals": "[]",
        "other": "{}",
        "attempt": 1,
        "ended_at": float(place),
    }


def add(home: Home, new: Iterable[dict[str, Any]]) -> None:
    """Publish these rows beside what was published."""
    with new_version(home, "raw_responses", "B3") as version:
        for file in version.last_good.files if version.last_good is not None else ():
            assert version.keep(file)
        version.write_parts(RAW_RESPONSES, new)
        assert version.audit([Check("nothing_lost", True, "nothing is")]).passed


def learnt(home: Home, code: str = CODE) -> Calibration:
    return calibrate_parts(parts_of(require(home, "raw_responses", "B3"), "observations", code))


def judge(home: Home, code: str = CODE, limit: float = LIMIT) -> tuple[Audit, int]:
    """What the asset does: a new version of the sequences, and how many responses were judged for it."""
    with new_version(home, "token_sequences", "B3") as version:
        responses = require(home, "raw_responses", "B3")
        parts, calibration = parts_of(responses, "findings", code), learnt(home, code)
        judged = sum(find_in_parts(parts, BoughtFinder(K2_5.name, calibration)))
        examination, _ = write_sequences(version, weigh_parts(parts, calibration, limit))
        return version.audit(examination.checks(limit), [responses]), judged


def shards(home: Home) -> Audit:
    with new_version(home, "training_shards", "B3") as version:
        sequences = require(home, "token_sequences", "B3")
        made = write_shards(version, sequences, "B3", K2_5.vocabulary.size)
        lengths = [pc.list_value_length(batch["input_ids"]).to_pylist() for batch in version.batches()]
        assert made.row_tokens == [length for batch in lengths for length in batch]
        return version.audit(made.checks, [sequences], made.counts)


def anew(home: Home, folder: Path) -> Home:
    """A home with the same responses, of which nothing was judged yet."""
    shutil.copytree(home.folder("raw_responses", "B3"), Home(folder).folder("raw_responses", "B3"))
    return Home(folder)


def published(home: Home, stage: str = "token_sequences") -> list[dict[str, Any]]:
    return list(require(home, stage, "B3").rows())


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two providers that are settled, judged."""
    home = Home(tmp_path_factory.mktemp("settled"))
    add(home, [*rows(VERBATIM, "Lakeside", 0, 100), *rows(BLANKS_ROUND_ADDED_TOKENS, "Harbour", 0, 100)])
    audit, judged = judge(home)
    assert (audit.passed, judged) == (True, 200)
    assert shards(home).passed
    return home.root


@pytest.fixture
def home(settled: Path, tmp_path: Path) -> Home:
    return Home(shutil.copytree(settled, tmp_path / "home"))


def test_parts_are_judged_as_all_responses_together_are(home: Home) -> None:
    raw = published(home, "raw_responses")
    together = list(sequence_rows(raw, calibrate_rows(raw)))
    judged = published(home)
    assert [row["output_ids"] for row in judged] == [row["output_ids"] for row in together]
    held = [row["reasons"][-1] == "residual_error_above_limit" for row in judged]
    assert [("consistent" if h else row["verdict"]) for row, h in zip(judged, held, strict=True)] == [
        row["verdict"] for row in together
    ]
    errors = [msgspec.json.decode(row["evidence"]).get("residual_error") for row in judged]
    assert errors == [msgspec.json.decode(row["evidence"]).get("residual_error") for row in together]
    assert Counter(row["verdict"] for row in judged)["consistent"] > 100


def test_only_new_responses_are_judged_and_the_files_are_those_of_a_judgement_anew(home: Home, tmp_path: Path) -> None:
    add(home, rows(VERBATIM, "Lakeside", 100, 102))
    audit, judged = judge(home)
    assert (audit.passed, judged) == (True, 2)
    fresh = anew(home, tmp_path / "fresh")
    again, all_judged = judge(fresh)
    assert all_judged == 202
    assert [file.sha256 for file in audit.files] == [file.sha256 for file in again.files]
    assert audit.checks == again.checks
    assert (shards(home).files, shards(home).counts) == (shards(fresh).files, shards(fresh).counts)


def test_nothing_new_leaves_every_file_as_it_is(home: Home) -> None:
    before = require(home, "token_sequences", "B3").audit
    modified = [path.stat().st_mtime_ns for path in require(home, "token_sequences", "B3").paths]
    after, judged = judge(home)
    assert judged == 0
    assert (after.files, after.checks, after.identity) == (before.files, before.checks, before.identity)
    assert [path.stat().st_mtime_ns for path in require(home, "token_sequences", "B3").paths] == modified


def test_a_provider_that_shows_another_convention_is_judged_again_and_the_others_are_not(
    home: Home, tmp_path: Path
) -> None:
    add(home, rows(BLANKS_ROUND_ADDED_TOKENS, "Lakeside", 100, 130))
    audit, judged = judge(home)
    assert 130 <= judged <= 131  # a response of Harbour's shows nothing new
    fresh = anew(home, tmp_path / "fresh")
    again, _ = judge(fresh)
    assert [file.sha256 for file in audit.files] == [file.sha256 for file in again.files]


def test_shards_are_made_again_where_verdicts_changed_and_not_where_only_errors_did(home: Home) -> None:
    first, _ = judge(home, limit=0.5)  # none is held back
    before = shards(home)
    add(home, rows(VERBATIM, "Lakeside", 100, 102))
    grown, _ = judge(home, limit=0.5)
    assert grown.files[0] == first.files[0]  # rates stand still while little comes
    add(home, rows(VERBATIM, "Lakeside", 102, 130))
    sequences, judged = judge(home, limit=0.5)
    assert judged == 28
    assert sequences.files[0].sha256 != first.files[0].sha256
    assert sequences.files[0].passes_on == first.files[0].passes_on != ""
    after = shards(home)
    assert before.files[0] == after.files[0]
    with new_version(home, "token_sequences", "B3") as version:
        table = pq.read_table(require(home, "token_sequences", "B3").paths[0])
        doubtful = pa.array(["unverified", *table["verdict"].to_pylist()[1:]])
        place = TOKEN_SEQUENCES.get_field_index("verdict")
        version.write_batches(
            "part-00000.parquet", TOKEN_SEQUENCES, [table.set_column(place, table.field(place), doubtful)]
        )
        assert all(version.keep(file) for file in sequences.files[1:])
        version.audit([])
    last = shards(home)
    assert last.passed
    assert last.files[0].rows == after.files[0].rows - 1
    assert last.files[1:] == after.files[1:]
    assert last.counts["left_out_verdict_unverified"] == after.counts["left_out_verdict_unverified"] + 1


def test_parts_are_judged_on_all_cores_as_on_one(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = require(home, "token_sequences", "B3").audit
    monkeypatch.setattr("eagle_assets.lake.version.PART_ROWS", 70)
    together = Home(tmp_path / "together")
    add(together, published(home, "raw_responses"))
    for module in (part_findings, part_observations):
        monkeypatch.setattr(module, "WORTH_WORKERS", 0)
    audit, judged = judge(together)
    assert (len(audit.files), judged) == (3, 200)
    assert published(together) == published(home)
    assert audit.checks == alone.checks


def test_other_code_judges_everything_again(home: Home) -> None:
    assert judge(home, "other code")[1] == 200


def test_what_is_kept_may_be_damaged_or_gone(home: Home) -> None:
    before = require(home, "token_sequences", "B3").audit
    (kept,) = home.kept("findings", "B3").iterdir()
    data = bytearray(kept.read_bytes())
    data[-20:] = bytes(20)
    kept.write_bytes(data)
    assert judge(home)[1] == 200
    (kept,) = home.kept("findings", "B3").iterdir()
    data = bytearray(kept.read_bytes())
    data[200] ^= 1
    kept.write_bytes(data)
    with pytest.raises(GateClosed, match=r"is damaged .* remove it, and materialise token_sequences again"):
        judge(home)
    shutil.rmtree(home.root / ".kept")
    after, judged = judge(home)
    assert (judged, after.files) == (200, before.files)


def test_samples_of_large_groups_do_not_depend_on_when_parts_came(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_observations, "MOST_OF_A_GROUP", 30)
    monkeypatch.setattr(part_observations, "MOST_PROMPTS_OF_A_GROUP", 8)
    whole = learnt(home, "small samples")
    add(home, rows(VERBATIM, "Lakeside", 100, 130))
    grown = learnt(home, "small samples")
    assert grown == learnt(anew(home, tmp_path / "fresh"), "small samples") != whole
    (group,) = [g for (model, provider, _), g in grown.groups.items() if model and provider == "Lakeside"]
    assert sum(group.counted) < 70


def sample(size: int, most: int) -> Sequence[int]:
    return [place for place in range(1_000) if place % part_observations._stride(size, most) == 0]


def test_a_larger_group_has_a_part_of_the_smaller_ones_sample() -> None:
    for size in range(1, 400):
        assert set(sample(size + 1, 7)) <= set(sample(size, 7))
        assert size / part_observations._stride(size, 7) <= 7


def test_a_provider_all_of_whose_answers_are_cut_and_give_their_ids_is_weighed_too(tmp_path: Path) -> None:
    """Cut answers say nothing of a convention, so that no calibration has a group for them."""
    cut = []
    for place, exchange in enumerate(exchanges(TRUTHS, VERBATIM, "Lakeside")):
        ids, body = TRUTHS[place].ids[:-1], msgspec.json.decode(exchange.body)
        if body["choices"][0]["finish_reason"] == "stop":
            body["choices"][0] |= {"finish_reason": "length", "native_finish_reason": "length", "token_ids": ids}
            body["usage"]["completion_tokens"] = len(ids)
            cut.append({**_row(exchange, place), "body": msgspec.json.encode(body)})
    home = Home(tmp_path / "home")
    add(home, cut)
    audit, judged = judge(home)
    assert (audit.passed, judged) == (True, len(cut))
    assert not learnt(home).groups
    raw = published(home, "raw_responses")
    together = {row["exchange_id"]: row["evidence"] for row in sequence_rows(raw, calibrate_rows(raw))}
    for row in published(home):
        assert row["verdict"] == "consistent"
        assert "given_ids_as_encoded" in row["reasons"]
        assert row["evidence"] == together[row["exchange_id"]]
        assert 0 < msgspec.json.decode(row["evidence"])["residual_error"] < LIMIT
