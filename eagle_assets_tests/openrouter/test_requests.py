import gzip
import json
from pathlib import Path

import pytest

from eagle_assets.configuration import Configuration, OpenRouterDataset
from eagle_assets.openrouter.requests import Prompt, PromptsError, build_request, read_prompts, request_key

USER = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
DATASET = OpenRouterDataset(source="openrouter", prompts=Path("p.jsonl"), max_tokens=500)
CONFIGURATION = Configuration.model_validate(
    {"datasets": {}, "routing": {"ignore": ["novita"], "allow_fallbacks": True}}
)


def write(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in rows), encoding="utf-8")
    return path


def test_rows_are_read_in_order_and_blank_lines_do_not_count(tmp_path: Path) -> None:
    path = write(
        tmp_path / "p.jsonl",
        {"prompt_id": "a", "messages": USER},
        "",
        {"prompt_id": "b", "messages": USER, "tools": [TOOL], "params": {"temperature": 0.6, "xyzzy": 1}},
    )
    first, second = read_prompts(path)
    assert (first.prompt_id, first.line, first.tools) == ("a", 1, ())
    assert (second.prompt_id, second.line, second.params) == ("b", 3, {"temperature": 0.6, "xyzzy": 1})
    assert second.tools == (TOOL,)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "no JSON object"),
        ({"messages": USER}, "prompt_id"),
        ({"prompt_id": 3, "messages": USER}, "prompt_id"),
        ({"prompt_id": "x"}, "messages"),
        ({"prompt_id": "x", "messages": []}, "messages"),
        ({"prompt_id": "x", "messages": [{"role": "wizard", "content": "hi"}]}, "role 'wizard'"),
        ({"prompt_id": "x", "messages": [{"role": "user"}]}, "no content"),
        ({"prompt_id": "x", "messages": [{"role": "tool", "content": "3"}]}, "tool_call_id"),
        ({"prompt_id": "x", "messages": USER, "tools": [{"name": "weather"}]}, "tool 1"),
        ({"prompt_id": "x", "messages": USER, "params": {"model": "other"}}, "'model'"),
        ({"prompt_id": "x", "messages": USER, "params": {"max_tokens": 0}}, "max_tokens"),
        ({"prompt_id": "x", "messages": USER, "params": {"max_tokens": 1_000_001}}, "from 1 to 1,000,000"),
        ({"prompt_id": "x", "messages": USER, "params": {"n": 2}}, "'n'"),
        ({"prompt_id": "x", "messages": USER, "params": {"reasoning": {"exclude": True}}}, "cannot be turned back"),
        ({"prompt_id": "x", "messages": USER, "params": {"include_reasoning": False}}, "cannot be turned back"),
        ({"prompt_id": "x", "messages": USER, "params": {"plugins": [{"id": "web"}]}}, "plugins makes the router"),
        ({"prompt_id": "x", "messages": USER, "params": {"tool_choice": "none"}}, "tool_choice"),
        ({"prompt_id": "x", "messages": USER, "params": {"temprature": 1}}, "is 'temperature' meant?"),
        ({"prompt_id": "x", "messages": USER, "sources": 1}, "'sources'"),
        ({"prompt_id": "a", "messages": USER}, "already on line 1"),
        ('{"prompt_id": "x", "messages": [{"role": "user", "content": "\\ud800"}]}', "\\ud800 is half a character"),
        ('{"prompt_id": "x", "messages": [{"role": "user", "content": "\\ud83d\\ude00 \\uDE00"}]}', "\\uDE00 is half"),
    ],
)
def test_a_wrong_row_is_named_by_its_line(tmp_path: Path, row: object, complaint: str) -> None:
    path = write(tmp_path / "p.jsonl", {"prompt_id": "a", "messages": USER}, row)
    with pytest.raises(PromptsError, match="line 2: ") as caught:
        read_prompts(path)
    assert complaint in str(caught.value)


def test_all_wrong_rows_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", {"prompt_id": "a"}, {"prompt_id": "b", "messages": USER}, "{")
    with pytest.raises(PromptsError) as caught:
        read_prompts(path)
    assert len(caught.value.problems) == 2
    assert str(caught.value).startswith(
        f"{path}: 2 rows cannot be used: line 1: messages is missing, empty, or no list"
    )
    assert "; line 3: it is not JSON" in str(caught.value)


def test_files_that_hold_no_prompts(tmp_path: Path) -> None:
    with pytest.raises(PromptsError, match="does not exist"):
        read_prompts(tmp_path / "none.jsonl")
    with pytest.raises(PromptsError, match="holds no prompt"):
        read_prompts(write(tmp_path / "empty.jsonl", "", "  "))
    (tmp_path / "latin.jsonl").write_bytes('{"prompt_id": "é"}'.encode("latin-1"))
    with pytest.raises(PromptsError, match="line 1: it is not UTF-8 at byte 16"):
        read_prompts(tmp_path / "latin.jsonl")
    packed = tmp_path / "packed.jsonl"
    for data, told in (
        (gzip.compress(b'{"prompt_id": "a"}'), "cannot be read: it is compressed with gzip; unpack it first"),
        ('{"prompt_id": "a"}'.encode("utf-16"), "cannot be read: it is UTF-16; save it as UTF-8"),
        (b"PAR1\x15\x00", "cannot be read: it is a Parquet file"),
    ):
        packed.write_bytes(data)
        with pytest.raises(PromptsError, match=told):
            read_prompts(packed)


def test_a_request_is_streamed_bounded_and_routed() -> None:
    messages = ({"role": "user", "content": " two  blanks ", "name": "x"},)
    request = build_request(Prompt("a", messages), DATASET, CONFIGURATION)
    assert request["messages"] == list(messages)
    assert request["model"] == "moonshotai/kimi-k2.5"
    assert request["max_tokens"] == 500
    assert request["stream"] is True
    assert request["usage"] == {"include": True}
    assert request["provider"] == {"ignore": ["fireworks", "baseten", "novita"], "allow_fallbacks": True}
    assert "tools" not in request
    assert "tool_choice" not in request


def test_params_win_over_the_dataset() -> None:
    prompt = Prompt("a", tuple(USER), (TOOL,), {"max_tokens": 7, "temperature": 0.1, "tool_choice": "required"})
    request = build_request(prompt, DATASET, CONFIGURATION)
    assert (request["max_tokens"], request["temperature"], request["tool_choice"]) == (7, 0.1, "required")
    assert request["tools"] == [TOOL]


def test_the_key_is_of_what_determines_the_answer() -> None:
    request = build_request(Prompt("a", tuple(USER)), DATASET, CONFIGURATION)
    key = request_key(request)
    assert key == request_key(dict(reversed(request.items())))
    assert key == request_key({**request, "provider": {"only": ["chutes"]}, "stream": False})
    assert key != request_key({**request, "max_tokens": 501})
    assert key != request_key({**request, "messages": [{"role": "user", "content": "hi "}]})
