"""The tokenizer report: what it finds on the real vocabulary, and that its gates close on a wrong one."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from eagle_assets.targets import gates
from eagle_assets.targets.article import encode_marked
from eagle_assets.targets.findings import Section
from eagle_assets.targets.page import print_report
from eagle_assets.targets.report import GATES, TokenizerReport, tokenizer_report
from eagle_assets.targets.vocabulary import Vocabulary, kimi_vocabulary


@pytest.fixture(scope="module")
def report() -> TokenizerReport:
    return tokenizer_report()


def trials_of(report: TokenizerReport, title: str) -> dict[str, str]:
    section = next(section for section in report.sections if title in section.title)
    return {trial.tried: trial.result for trial in section.trials}


def test_every_gate_passes_on_the_official_vocabulary(report: TokenizerReport) -> None:
    assert tuple(gate.name for gate in report.gates) == GATES
    assert [gate.sentence for gate in report.gates if not gate.passed] == []
    assert all(section.passed for section in report.sections)
    assert report.passed


def test_gates_carry_the_numbers_that_they_rest_on(report: TokenizerReport) -> None:
    official, special, outputs, encoders = (gate.numbers for gate in report.gates)
    assert official["ordinary_tokens"] == 163_584
    assert str(official["sha256"]).startswith("b6c497a7469b33ce")
    assert (special["special_tokens"], special["wrong"]) == (256, 0)
    assert (outputs["outputs"], outputs["failed"]) == (8, 0)
    assert encoders["texts"] == 4081
    assert encoders["differences_tiktoken"] == encoders["differences_splintr_packed"] == 0


def test_the_article_s_wrong_id_is_shown_as_wrong(report: TokenizerReport) -> None:
    trials = trials_of(report, "1. Special token roundtrip")
    assert trials["'<|im_end|>' as 163533 (the article's)"] == (
        "163533 is 'chas', roundtrip holds; WRONG: <|im_end|> is 163586"
    )
    assert trials["' thinking' as 163606 (the article's)"].startswith("163606 is '<think>'")
    assert trials["' response' as 163607 (the article's)"].startswith("163607 is '</think>'")
    assert "not the same ids" in trials_of(report, "2. Full output")["the article's sequence, ending in 163533"]
    typed = trials_of(report, "Assumption 4")["'<|im_end|>', typed as 163533"]
    assert typed == "the vocabulary says 163586; <|im_end|> is 163586: WRONG"


def test_both_pages_name_the_article_before_they_speak_of_it(report: TokenizerReport) -> None:
    output = io.StringIO()
    print_report(report, Console(file=output, width=120))
    for page in (output.getvalue(), report.to_markdown()):
        title = page.index("The Tokenization Investigation That Failed")
        assert title < page.index("the article's")


def test_boundaries_merge_in_text_and_never_across_a_marker(report: TokenizerReport) -> None:
    trials = trials_of(report, "3. BPE boundary effects")
    assert trials["'The answer is 42' + '.'"] == "the same: 1008 7574 387 220 5512 13"
    assert trials["'think' + 'ing' (added)"] == "apart 39964 288, together 130400"
    assert "never merge" in trials["the same pairs on the two sides of </think>"]


def test_reencoding_is_shown_not_to_be_always_valid(report: TokenizerReport) -> None:
    trials = trials_of(report, "Assumption 2")
    assert "740 11531 decodes to 'answer' and comes back as 26921" in trials["'answer' written as 'ans' + 'wer'"]
    assert "the same count" in trials["'tokenizers' written as 'tokenizer' + 's'"]


def test_all_four_risks_and_assumptions_are_there(report: TokenizerReport) -> None:
    titles = [section.title for section in report.sections]
    assert len([t for t in titles if t.startswith("Risk: ")]) == 4
    assert [t[:12] for t in titles if t.startswith("Assumption")] == [f"Assumption {n}" for n in (1, 2, 3, 4)]
    assert "the count does not show it" in trials_of(report, "blank normalisation")["' The' stripped"]
    long = trials_of(report, "very long sequences")
    assert long["60,000 blanks"].startswith("238 tokens in 3 pieces, as tiktoken gives them")


def tampered(**special: int) -> Vocabulary:
    real = kimi_vocabulary()
    vocabulary = Vocabulary(real.name, real.ordinary_size, real.size, real.sha256)
    vocabulary.special |= {f"<|{name}|>": token for name, token in special.items()}
    return vocabulary


def test_the_article_s_id_would_close_two_gates() -> None:
    wrong = tampered(im_end=163533)
    special = gates.special_tokens_roundtrip(wrong, None)
    assert not special.passed
    assert "<|im_end|>" in special.sentence
    assert special.numbers["wrong"] == 1
    assert not gates.full_output_roundtrips(wrong).passed


def test_another_digest_closes_the_first_gate() -> None:
    real = kimi_vocabulary()
    gate = gates.vocabulary_is_official(Vocabulary(real.name, real.ordinary_size, real.size, "0" * 64), None)
    assert not gate.passed
    assert "is not the official" in gate.sentence


def test_an_encoder_that_differs_closes_the_fourth_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    real = kimi_vocabulary()
    monkeypatch.setattr(real, "encode", lambda text: Vocabulary.encode(real, text.replace("\r\n", "\n")))
    gate = gates.encoders_agree(real, None, None)
    assert not gate.passed
    assert "have other ids" in gate.sentence


def test_segments_between_markers_are_encoded_one_by_one() -> None:
    vocabulary = kimi_vocabulary()
    ids = encode_marked(vocabulary, "think</think>ing<|im_end|>")
    assert ids == [39964, 163607, 288, 163586]


def test_a_model_folder_with_a_wrong_id_fails_the_report(tiktoken_folder: Callable[..., Path]) -> None:
    path = tiktoken_folder(special={"</think>": 163608})
    report = tokenizer_report(path)
    assert not report.passed
    assert [gate.name for gate in report.gates if not gate.passed] == ["special_tokens_roundtrip"]
    section = report.sections[-1]
    assert section.title == f"Model folder {path}"
    assert section.answer == "Not as it should be. special tokens: </think> is 163608, not 163607."
    assert not (path.parent / "code_ran").exists()


def test_the_report_reads_as_json_markdown_and_tables(report: TokenizerReport) -> None:
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["passed"] is True
    assert [gate["name"] for gate in plain["gates"]] == list(GATES)
    assert {section["title"] for section in plain["sections"]} == {section.title for section in report.sections}
    markdown, out = report.to_markdown(), io.StringIO()
    print_report(report, Console(file=out, width=200))
    for page in (markdown, out.getvalue()):
        assert "163533 is 'chas'" in page
        assert all(gate in page for gate in GATES)
        assert all(_answered(section, page) for section in report.sections)
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {4}


def _answered(section: Section, page: str) -> bool:
    return section.title in page and section.answer[:40] in page
