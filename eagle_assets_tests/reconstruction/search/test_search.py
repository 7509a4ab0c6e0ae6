"""Searches that run models of the servers that a provider may run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_assets.openrouter.exchange import Exchange
from eagle_assets.openrouter.exchange_line import exchange_of
from eagle_assets.reconstruction.evidence.reading import read
from eagle_assets.reconstruction.files.exchanges import read_calibration, write_calibration
from eagle_assets.reconstruction.reconstruct import calibrate, reconstruct
from eagle_assets.reconstruction.search.character_parts import parts_in
from eagle_assets.reconstruction.search.deployments import keeps_index
from eagle_assets.reconstruction.search.segmentations import TooManySteps, streamed_segmentation
from eagle_assets.reconstruction.search.served_by import frames_of, sends
from eagle_assets.reconstruction.search.uncoerced import spellings_before_coercion
from eagle_assets.reconstruction.verdict import Reconstruction
from eagle_assets.serving.coercion import coerced_to_schema
from eagle_assets.serving.convention import Convention
from eagle_assets.serving.conventions import BARE_TOOL_IDS, VERBATIM
from eagle_assets.serving.gateway import leaves_stop_uncounted, rewrites_calls
from eagle_assets.serving.served import Situation
from eagle_assets.serving.servers import (
    KNOWN_SERVERS,
    SGLANG_0_5_8,
    SGLANG_0_5_23,
    VLLM_0_33,
    VLLM_0_33_WITHOUT_BLANKS,
    Server,
)
from eagle_assets_tests.reconstruction.served_exchanges import (
    K2_5,
    SENTENCES,
    TOOL,
    VOCABULARY,
    Truth,
    document,
    exchanges,
    output_of,
    some_outputs,
)

K2_5_STREAM = Situation(K2_5, True, (TOOL,), 0, streamed=True)


def served(truths: Sequence[Truth], server: Server, steps: Sequence[int] | None = None) -> list[Exchange]:
    return [exchange_of(document(t, server, f"x{i}", "Lakeside", steps)) for i, t in enumerate(truths)]


def verdicts(truths: Sequence[Truth], server: Server, steps: Sequence[int] | None = None) -> list[Reconstruction]:
    exchanges = served(truths, server, steps)
    return list(reconstruct(exchanges, calibrate(exchanges)))


def cut_anew(ids: list[int], rng: Random, places: int) -> list[int]:
    """The ids with some tokens cut in two, where the vocabulary has both parts."""
    for _ in range(places):
        at = rng.randrange(len(ids))
        if ids[at] < VOCABULARY.ordinary_size:
            text = VOCABULARY.bytes_of(ids[at])
            for cut in rng.sample(range(1, len(text)), len(text) - 1):
                parts = VOCABULARY.id_of_bytes.get(text[:cut]), VOCABULARY.id_of_bytes.get(text[cut:])
                if None not in parts:
                    ids[at : at + 1] = parts
                    break
    return ids


# What a server sends


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    server=st.sampled_from(KNOWN_SERVERS),
    streamed=st.booleans(),
    steps=st.lists(st.integers(1, 4), max_size=40),
)
def test_a_server_sends_what_it_sent(seed: int, server: Server, streamed: bool, steps: list[int]) -> None:
    (truth,) = some_outputs(4, seed, streamed)[seed % 4 :][:1]
    (exchange,) = served([truth], server, steps)
    reading = read(exchange)
    assert sends(server, truth.ids, reading)
    assert not sends(server, [*truth.ids[:-1], *VOCABULARY.encode(" more"), truth.ids[-1]], reading)


# Which server it is


@pytest.mark.parametrize(
    ("server", "streamed"),
    [
        (VLLM_0_33, False),
        (VLLM_0_33_WITHOUT_BLANKS, True),
        (SGLANG_0_5_8, False),
        (SGLANG_0_5_23, True),
        (SGLANG_0_5_23.behind(leaves_stop_uncounted), False),
        (VLLM_0_33.behind(rewrites_calls), False),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_the_server_of_a_provider_is_found(server: Server, streamed: bool) -> None:
    calibration = calibrate(served(some_outputs(30, 5, streamed), server, [1, 3, 2]))
    assert server.name in calibration.groups[K2_5.name, "Lakeside", streamed].servers
    assert len(calibration.groups[K2_5.name, "Lakeside", streamed].servers) <= 4


def test_the_server_is_kept_with_the_calibration(tmp_path: Path) -> None:
    calibration = calibrate(served(some_outputs(30, 5), VLLM_0_33))
    write_calibration(calibration, tmp_path / "calibration.json")
    kept = read_calibration(tmp_path / "calibration.json")
    assert kept.groups[K2_5.name, "Lakeside", False].servers == ("vLLM 0.33",)


def test_a_server_that_is_not_known_is_not_named() -> None:
    # One that puts blanks at the starts of texts only.
    unknown = Convention("unknown", blanks=frozenset(("reasoning_start", "content_start")))
    calibration = calibrate(exchanges(some_outputs(30, 5, streamed=True), unknown))
    assert calibration.groups[K2_5.name, "Lakeside", True].servers == ()


@pytest.mark.parametrize("streamed", [False, True])
def test_of_two_servers_behind_one_name_neither_settles_anything(streamed: bool) -> None:
    truths = some_outputs(40, 5, streamed)
    mixed = [
        exchange_of(document(t, (VLLM_0_33, SGLANG_0_5_23)[i % 2], f"x{i}", "Lakeside"), i)
        for i, t in enumerate(truths)
    ]
    calibration = calibrate(mixed)
    assert calibration.groups[K2_5.name, "Lakeside", streamed].servers == ()
    results = list(reconstruct(mixed, calibration))
    assert all(list(r.output_ids or ()) == t.ids for r, t in zip(results, truths, strict=True) if r.trusted)
    assert any("rival_conventions" in r.reasons or "leading_blank_undecided" in r.reasons for r in results)


def test_what_nothing_speaks_against_no_server_settles() -> None:
    # Frame for frame what vLLM sends, blanks included, and each may as well be the model's own: as from Chutes.
    alike = [Truth(output_of(said, said), K2_5_STREAM) for said in ("The sum is five.", "Here it is.") * 6]
    for result in verdicts(alike, VLLM_0_33):
        assert result.verdict == "unverified"


# A token that ends inside a character: another server shows at once what came before it, SGLang holds it back.
ENDS_IN_A_CHARACTER = Truth(output_of("They ask of \u0645\u0627\u0630\u0627 here.", "Gladly."), K2_5_STREAM)
IN_PARTS = [
    Truth(output_of(f"Number {i} burns 🔥 and waves 🏳️.", f"ရာသီဥတု ကောင်းမွန်သည် {i}"), K2_5_STREAM) for i in range(12)
]


def test_no_server_speaks_against_ids_that_stray_less() -> None:
    served_early = exchanges([*some_outputs(30, 5, streamed=True), *IN_PARTS, ENDS_IN_A_CHARACTER], VERBATIM)
    calibration = calibrate(served_early)
    group = calibration.groups[K2_5.name, "Lakeside", True]
    assert SGLANG_0_5_23.name in group.servers
    assert "after a character" not in group.parts_seen
    *_, result = reconstruct(served_early, calibration)
    assert result.verdict == "unverified"
    assert "several_segmentations" in result.reasons
    assert ENDS_IN_A_CHARACTER.ids in [candidate.output_ids for candidate in result.candidates]


@pytest.mark.parametrize("seen", [0, 12])
def test_a_server_that_was_seen_to_send_parts_of_characters_speaks_against_them(seen: int) -> None:
    early = exchanges([*some_outputs(30, 5, streamed=True), ENDS_IN_A_CHARACTER], VERBATIM)
    *_, other = reconstruct(early, calibrate(early))
    assert other.output_ids is not None
    strayed = Truth(other.output_ids, K2_5_STREAM)  # SGLang shows of these what the other does of the canonical ids
    held = served([*some_outputs(30, 6, streamed=True), *IN_PARTS[:seen], strayed], SGLANG_0_5_23)
    calibration = calibrate(held)
    assert ("after a character" in calibration.groups[K2_5.name, "Lakeside", True].parts_seen) == (seen > 0)
    *_, result = reconstruct(held, calibration)
    assert result.output_ids == strayed.ids
    assert result.verdict == ("consistent" if seen else "unverified")


def test_parts_of_characters() -> None:
    kinds = {" \U0001f525"[:1].encode() + "\U0001f525".encode()[:2]: "after a blank"}
    kinds |= dict.fromkeys((b"\xf0\x9f", b" ", b"a", "é".encode(), "€".encode(), b"\x99"))
    for text, kind in kinds.items():
        ids = [VOCABULARY.id_of_bytes[text]]
        assert parts_in(ids, VOCABULARY) == ({kind} if kind else set())


# Streams of one token a step


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), server=st.sampled_from(KNOWN_SERVERS), places=st.integers(0, 3))
def test_what_is_unique_is_what_was_generated(seed: int, server: Server, places: int) -> None:
    rng = Random(seed)
    thought, said = rng.choice(SENTENCES), rng.choice(SENTENCES)
    canonical = output_of(thought, said, [("functions.look_up:0", '{"q": "a b"}')] if rng.random() < 0.5 else [])
    ids = cut_anew(list(canonical), rng, places)
    truth = Truth(ids, K2_5_STREAM)
    frames = frames_of(read(*served([truth], server)))
    try:
        found = streamed_segmentation(server, canonical, K2_5_STREAM, frames, len(ids), None)
    except TooManySteps:
        return
    assert found is None or not found.unique or found.ids == ids


def test_cuts_that_show_are_found() -> None:
    canonical = output_of("We add both sides.", "The answer follows.")
    at = canonical.index(VOCABULARY.encode(" answer")[0])
    ids = [*canonical[:at], *VOCABULARY.encode(" ans"), *VOCABULARY.encode("wer"), *canonical[at + 1 :]]
    (exchange,) = served([Truth(ids, K2_5_STREAM)], VLLM_0_33)
    found = streamed_segmentation(VLLM_0_33, canonical, K2_5_STREAM, frames_of(read(exchange)), len(ids), None)
    assert found is not None
    assert found.unique
    assert found.ids == ids
    assert found.strays == 2


def test_white_space_that_was_taken_away_is_no_cut_elsewhere() -> None:
    # The one token that no frame shows may be any white space at the reasoning's end, or a blank cut from its word.
    ids = [*VOCABULARY.encode("We add both sides."), *VOCABULARY.encode(" "), *output_of("", "So it is.")]
    canonical = output_of("We add both sides.", "So it is.")
    (exchange,) = served([Truth(ids, K2_5_STREAM)], VLLM_0_33)
    found = streamed_segmentation(VLLM_0_33, canonical, K2_5_STREAM, frames_of(read(exchange)), len(ids), None)
    assert found is not None
    assert not found.clear


def test_a_search_ends() -> None:
    canonical = output_of(" " * 3 + " a" * 400, "So.")
    frames = frames_of(read(*served([Truth(canonical, K2_5_STREAM)], VLLM_0_33)))
    with pytest.raises(TooManySteps):
        streamed_segmentation(VLLM_0_33, canonical, K2_5_STREAM, frames, len(canonical) + 40, None)


# What a server fills in or takes for text


@pytest.mark.parametrize(
    ("arguments", "reasons"),
    [
        ("", ("tool_index_unproven", "count_closes", "one_token_steps")),
        # What is left of the arguments is shown as a content, behind which this server takes white space away.
        ('{"q": "It ends with <|tool_call_end|>."}', ("white_space_may_be_lost: content end",)),
    ],
    ids=["none", "with a marker"],
)
def test_arguments_that_the_server_filled_in_or_cut(arguments: str, reasons: tuple[str, ...]) -> None:
    truth = Truth(output_of("Let me see.", "", [("functions.look_up:0", arguments)]), K2_5_STREAM)
    # Others keep the model's index, so that it is known how seldom that is another.
    others = exchanges(some_outputs(60, 3), BARE_TOOL_IDS, "Elsewhere")
    known = calibrate([*others, *served(some_outputs(60, 7, streamed=True), SGLANG_0_5_23)])
    (result,) = reconstruct(served([truth], SGLANG_0_5_23), known)
    assert result.output_ids == truth.ids
    assert result.reasons[0] in reasons
    assert result.evidence["servers"] == ["SGLang 0.5.23"]


# What a server writes anew


SET = {"type": "function", "function": {"name": "set", "parameters": {"type": "object", "properties": {}}}}
SET["function"]["parameters"]["properties"] = {"ratio": {"type": "number"}, "label": {"type": "string"}}  # type: ignore[index]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ('{"ratio":1.0,"label":"a b"}', '{"ratio": 1, "label": "a b"}'),
        ('{"label":"a b","ratio":"0.5"}', '{"label": "a b", "ratio": 0.5}'),
        ('{"label":7,"more":[1,{"x":null}]}', '{"label": "7", "more": [1, {"x": null}]}'),
    ],
)
def test_compact_arguments_that_disagreed_with_the_schema(written: str, shown: str) -> None:
    assert coerced_to_schema(written, "set", (SET,)) == shown
    spellings = spellings_before_coercion(shown, "set", (SET,))
    assert written in spellings
    assert {coerced_to_schema(spelling, "set", (SET,)) for spelling in spellings} == {shown}


def test_compact_arguments_that_the_count_tells_apart() -> None:
    written = '{"ratio":1.0,"label":"a b"}'
    truth = Truth(output_of("Let me see", "", [("functions.set:0", written)]), Situation(K2_5, True, (SET,)))
    known = calibrate(served(some_outputs(60, 7), VLLM_0_33))
    (result,) = reconstruct(served([truth], VLLM_0_33), known)
    assert (result.verdict, result.output_ids) == ("consistent", truth.ids)


def test_what_may_be_a_mistake_or_anything_else_is_not_trusted() -> None:
    written = '{"ratio": 1.0, "label": "a b"}'
    truth = Truth(output_of("Let me see", "", [("functions.set:0", written)]), Situation(K2_5, True, (SET,)))
    (result,) = reconstruct(served([truth], VLLM_0_33), calibrate(served(some_outputs(60, 7), VLLM_0_33)))
    assert result.verdict == "contradicted"


@pytest.mark.parametrize("arguments", ["{}", "[1]", '{"ratio":1}', '{"label": "seven"}', "{", '{"ratio": 0.5, }'])
def test_arguments_that_no_schema_changed(arguments: str) -> None:
    assert spellings_before_coercion(arguments, "set", (SET,)) == []


@pytest.mark.parametrize(
    ("text", "verdict"), [("Съешь же ещё этих мягких булок", "consistent"), ("ё", "unverified")], ids=["far", "near"]
)
def test_escapes_are_put_back_where_they_alone_make_up_for_the_count(text: str, verdict: str) -> None:
    gateway = SGLANG_0_5_23.behind(rewrites_calls)
    call = ("functions.look_up:0", json.dumps({"q": text, "n": 1}))  # a number shows its spacing
    truth = Truth(output_of("Let me see.", "I look", [call]), Situation(K2_5, True, (TOOL,)))
    known = calibrate(served(some_outputs(60, 7), gateway))
    (result,) = reconstruct(served([truth], gateway), known)
    assert (result.verdict, result.output_ids) == (verdict, truth.ids)
    assert "args_escaped" in result.reasons


def test_no_other_spelling_is_supposed_of_a_known_server_that_keeps_arguments() -> None:
    compact, spaced = (
        output_of("Let me see.", "I look", [("functions.look_up:0", arguments)])
        for arguments in ('{"q":"a","r":1}', '{"q": "a", "r": 1}')
    )
    assert len(compact) < len(spaced)
    line = document(Truth(compact, Situation(K2_5, True, (TOOL,))), SGLANG_0_5_23)
    body = json.loads(line["body"])
    body["usage"]["completion_tokens"] = len(spaced)
    exchange = exchange_of({**line, "body": json.dumps(body)})
    (result,) = reconstruct([exchange], calibrate(served(some_outputs(60, 7), SGLANG_0_5_23)))
    assert (result.verdict, result.output_ids) == ("contradicted", compact)


# Whose numbers the calls have


@pytest.mark.parametrize("server", KNOWN_SERVERS, ids=lambda server: server.name)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_whether_a_server_keeps_the_model_s_numbers(server: Server, streamed: bool) -> None:
    keeps = server.name.startswith("vLLM") or (server.name != SGLANG_0_5_23.name and not streamed)
    assert keeps_index(server, K2_5.name, streamed) == keeps


@pytest.mark.parametrize(
    ("server", "others", "proven"), [(VLLM_0_33, 160, True), (SGLANG_0_5_23, 60, False)], ids=["kept", "numbered"]
)
def test_numbers_are_the_model_s_where_its_server_keeps_them(server: Server, others: int, proven: bool) -> None:
    calls = [(f"functions.look_up:{i}", '{"q": "a"}') for i in range(4)]
    truth = Truth(output_of("Let me see", "I look", calls), K2_5_STREAM)
    known = calibrate(served(some_outputs(others, 7, streamed=True), server))
    (result,) = reconstruct(served([truth], server), known)
    assert result.output_ids == truth.ids
    assert (result.verdict == "consistent") == proven
    assert ("tool_index_unproven" in result.reasons) != proven


def test_what_the_server_would_have_sent_otherwise_is_not_trusted() -> None:
    situation = Situation(K2_5, True, (TOOL,))
    truth = Truth(output_of("Let me see.", "\n", [("functions.look_up:0", '{"q": "a b"}')]), situation)
    line = document(truth, VLLM_0_33, "x", "Lakeside")
    body = json.loads(line["body"])
    assert body["choices"][0]["message"]["content"] is None  # vLLM sends no content of white space before calls
    body["choices"][0]["message"]["content"] = " \n "
    line["body"] = json.dumps(body)
    known = calibrate(served(some_outputs(60, 7), VLLM_0_33))
    (result,) = reconstruct([exchange_of(line)], known)
    assert result.output_ids == truth.ids
    assert result.reasons == ("server_sends_otherwise",)
    assert result.verdict == "unverified"


@pytest.mark.parametrize("text", ["a word, " * 20_000, "\u4e2d" * 50_000])
def test_a_frame_of_a_whole_text_is_judged_with_the_others(text: str) -> None:
    """As a gateway sends it that collects a stream; the work of a search through its steps is bounded."""
    whole = Truth(output_of("So it is.", text), K2_5_STREAM)
    line = document(whole, VERBATIM, "whole", steps=[len(whole.ids)])
    known = calibrate([*exchanges(some_outputs(60, 5, streamed=True), VERBATIM), exchange_of(line)])
    (result,) = reconstruct([exchange_of(line)], known)
    assert result.output_ids == whole.ids
