"""What is said of a provider's habits follows from its responses."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from eagle_assets.cli import main
from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.reconstruction.console.habits_in_words import habits_in_words
from eagle_assets.reconstruction.reconstruct import calibrate
from eagle_assets.serving.conventions import VERBATIM
from eagle_assets.serving.served import Situation
from eagle_assets_tests.reconstruction.served_exchanges import (
    K2_5,
    Truth,
    document,
    exchanges,
    output_of,
    some_outputs,
    spelt_out,
)


def test_ids_off_the_canonical_path_were_generated_and_canonical_ones_may_be_an_encoders() -> None:
    on_path = some_outputs(12, seed=5, calls=False)
    off_path = [Truth(spelt_out("So we add them up.", " add"), Situation(K2_5, thinking=True))]
    (said,) = [s for s in of(exchanges(on_path, VERBATIM, gives_token_ids=True)) if s.startswith("gives ids")]
    assert said.startswith("gives ids: 12 canonical")
    assert said.endswith("an encoder on the way may have made them")
    (said,) = [s for s in of(exchanges(on_path + off_path, VERBATIM, gives_token_ids=True)) if "gives ids" in s]
    assert "1 off the canonical path" in said
    assert said.endswith("they were generated")


def test_a_character_that_always_ends_the_texts_is_named_with_its_place() -> None:
    made = [Truth(output_of("So.", f"Answer {n}\n"), Situation(K2_5, thinking=True)) for n in range(12)]
    assert [s for s in of(exchanges(made, VERBATIM)) if "at the end of the message" in s]
    plain = [Truth(output_of("So.", f"Answer {n}"), Situation(K2_5, thinking=True)) for n in range(12)]
    assert not [s for s in of(exchanges(plain, VERBATIM)) if "at the end of the message" in s]


def test_the_command_says_them_for_people_and_for_programs(tmp_path: Path) -> None:
    file = tmp_path / "exchanges.jsonl"
    lines = [document(truth, VERBATIM, f"x{n}") for n, truth in enumerate(some_outputs(12, seed=5, calls=False))]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    asked = ["calibrate", str(file), "--explain", "Lakeside"]
    assert "reasoning_tokens counts the reasoning" in CliRunner().invoke(main, asked).output
    (row,) = json.loads(CliRunner().invoke(main, [*asked, "--json"]).stdout)
    assert any(habit.startswith("reasoning_tokens counts") for habit in row["habits"])


def of(made: list[Exchange]) -> list[str]:
    return list(habits_in_words(calibrate(made).groups["", "Lakeside", False]))
