"""Raw answers of SGLang and vLLM that come with ids: taken as they are, and doubted where they disagree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eagle_assets.reconstruction.console.reasons_in_words import reason_in_words
from eagle_assets.reconstruction.own.local import raw_row, sequence_row
from eagle_assets.reconstruction.own.local_file import LocalResponsesError, read_local_responses
from eagle_assets.targets.kimi import target_named

TARGET = target_named("moonshotai/kimi-k2.5")
VOCABULARY, MARKERS = TARGET.vocabulary, TARGET.markers
PROMPT = [*VOCABULARY.encode("Say hello"), MARKERS.think_begin]
OUTPUT = [*VOCABULARY.encode("They want hello."), MARKERS.think_end, *VOCABULARY.encode("Hello!\n"), MARKERS.stop]
TRUTH = Path(__file__).parents[4] / "shared" / "truth"


def generated(finish: Any = None, **changes: Any) -> dict[str, Any]:
    """What SGLang's /generate returned."""
    meta = {
        "id": "rid-1",
        "finish_reason": finish or {"type": "stop", "matched": MARKERS.stop},
        "prompt_tokens": len(PROMPT),
        "completion_tokens": len(OUTPUT),
        "cached_tokens": 0,
        "weight_version": "default",
    }
    text = "They want hello.</think>Hello!\n"
    return {"text": text, "output_ids": OUTPUT, "meta_info": meta | changes.pop("meta", {}), **changes}


def chat(**changes: Any) -> dict[str, Any]:
    """A chat completion that was asked with return_token_ids."""
    message = {"role": "assistant", "content": "Hello!\n", "reasoning_content": "They want hello."}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "token_ids": OUTPUT} | changes.pop("choice", {})
    usage = {"prompt_tokens": len(PROMPT), "completion_tokens": len(OUTPUT), "total_tokens": len(PROMPT) + len(OUTPUT)}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "/models/kimi",
        "choices": [choice],
        "prompt_token_ids": PROMPT,
        "usage": usage,
        **changes,
    }


def sglang_chat() -> dict[str, Any]:
    """The same of SGLang 0.5.23, which has names of its own, each in the choice."""
    choice = {"prompt_token_ids": PROMPT, "response_token_ids": OUTPUT, "matched_stop": MARKERS.stop}
    answer = chat(choice=choice, metadata={"weight_version": "default"})
    del answer["prompt_token_ids"], answer["choices"][0]["token_ids"]
    return answer


def sequence_of(folder: Path, row: dict[str, Any]) -> dict[str, Any]:
    path = folder / "B1.jsonl"
    path.write_text(json.dumps(row) + "\n")
    ((response, line),) = read_local_responses(path, VOCABULARY)
    return sequence_row(raw_row(response, line, "B1", TARGET), TARGET)


@pytest.mark.parametrize(
    ("row", "prompt_id"),
    [
        (generated(input_ids=PROMPT), "rid-1"),
        (generated(input_ids=PROMPT, prompt_id="p1"), "p1"),
        (generated(meta={"prompt_token_ids": PROMPT}), "rid-1"),
        (generated(prompt_token_ids=PROMPT), "rid-1"),
        (generated(text=None, prompt_ids=PROMPT), "rid-1"),
        ({"prompt_id": "p1", "prompt_ids": PROMPT, "response": generated()}, "p1"),
        ({"request": {"input_ids": PROMPT, "sampling_params": {}}, "response": generated()}, "rid-1"),
        (chat(), "chatcmpl-1"),
        ({"prompt_id": "p1", "request": {"messages": [], "tools": []}, "response": chat()}, "p1"),
        (chat(prompt_token_ids=None, choice={"prompt_token_ids": PROMPT}), "chatcmpl-1"),
        (sglang_chat(), "chatcmpl-1"),
        # No reasoning parser: all in one text.
        (chat(choice={"message": {"content": "They want hello.</think>Hello!\n"}}), "chatcmpl-1"),
    ],
)
def test_ids_are_taken_as_the_server_gave_them(tmp_path: Path, row: dict[str, Any], prompt_id: str) -> None:
    sequence = sequence_of(tmp_path, row)
    assert (sequence["verdict"], sequence["reasons"]) == ("exact", [])
    assert (sequence["output_ids"], sequence["prompt_ids"], sequence["prompt_id"]) == (OUTPUT, PROMPT, prompt_id)
    assert sequence["count_difference"] == 0


@pytest.mark.parametrize(
    ("row", "verdict", "reason"),
    [
        (generated(input_ids=PROMPT, meta={"completion_tokens": 3}), "contradicted", "given_ids_differ_from_count"),
        (generated(input_ids=PROMPT, meta={"prompt_tokens": 99}), "contradicted", "given_prompt_ids_differ_from_count"),
        (
            generated(input_ids=PROMPT, text="They want hello.</think>Hi!\n"),
            "contradicted",
            "given_ids_differ_from_text",
        ),
        (generated({"type": "length", "length": 9}, input_ids=PROMPT), "contradicted", "stop_token_in_cut_output"),
        (generated({"type": "abort", "message": "x"}, input_ids=PROMPT), "unusable", "aborted"),
        (chat(choice={"message": {"content": "Hi!"}}), "contradicted", "given_ids_differ_from_text"),
        (
            chat(usage={"prompt_tokens": len(PROMPT), "completion_tokens": 2}),
            "contradicted",
            "given_ids_differ_from_count",
        ),
    ],
)
def test_an_answer_that_disagrees_with_itself_is_not_trusted(
    tmp_path: Path, row: dict[str, Any], verdict: str, reason: str
) -> None:
    sequence = sequence_of(tmp_path, row)
    assert (sequence["verdict"], sequence["reasons"]) == (verdict, [reason])
    assert reason_in_words(reason) != reason


def test_an_output_that_a_stop_string_ended_has_no_stop_token(tmp_path: Path) -> None:
    row = generated(
        {"type": "stop", "matched": "Hello"}, input_ids=PROMPT, output_ids=OUTPUT[:-2], text="They want hello."
    )
    row["meta_info"]["completion_tokens"] = len(OUTPUT) - 2
    assert sequence_of(tmp_path, row)["verdict"] == "exact"
    assert sequence_of(tmp_path, row | {"text": "They want bread."})["reasons"] == ["given_ids_differ_from_text"]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (generated(), "line 1: the ids of the prompt are missing; keep what was sent as `input_ids`"),
        (generated(input_ids=PROMPT, meta={"id": None}), "line 1: it has neither a prompt_id nor an id of its own"),
        (generated(input_ids=PROMPT, output_ids=[]), "line 1: output_ids is empty"),
        (generated(input_ids=PROMPT, output_ids=[VOCABULARY.size]), "line 1: output_ids holds an id outside"),
        (
            chat(choice={"token_ids": None}),
            "line 1: the completion has no ids; ask the server with return_token_ids",
        ),
        (chat(choices=[]), "line 1: it holds 0 choices; write each to a line of its own"),
        (chat(choices=[{}, {}]), "line 1: it holds 2 choices"),
    ],
)
def test_what_is_missing_is_missed_and_never_encoded(tmp_path: Path, row: dict[str, Any], complaint: str) -> None:
    with pytest.raises(LocalResponsesError) as refusal:
        sequence_of(tmp_path, row)
    assert complaint in str(refusal.value)


if TRUTH.is_dir():

    def test_known_answers_with_ids_are_exact_with_the_ids_they_are_known_to_have(tmp_path: Path) -> None:
        exchanges = list(map(json.loads, (TRUTH / "exchanges_servertokenids.jsonl").read_text().splitlines()))
        truth = {
            exchange_id: row["true_ids"]
            for row in map(json.loads, (TRUTH / "truth.jsonl").read_text().splitlines())
            for exchange_id in row["exchanges"]
        }
        verdicts = []
        for exchange in exchanges:
            body = json.loads(exchange["body"])
            sequence = sequence_of(tmp_path, {"request": exchange["request"], "response": body})
            verdicts.append(sequence["verdict"])
            assert sequence["verdict"] != "exact" or sequence["output_ids"] == truth[exchange["exchange_id"]]
        assert verdicts.count("exact") > 0.9 * len(exchanges)
