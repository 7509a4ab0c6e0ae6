"""Model folders: what is read, what is run, and that a folder which differs is found out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from eagle_assets.targets import gates
from eagle_assets.targets.findings import ModelFolderError
from eagle_assets.targets.hard_texts import hard_texts
from eagle_assets.targets.model_folder import (
    ModelFolder,
    agreement_with,
    folder_section,
    read_model_folder,
    wrong_special_ids,
)
from eagle_assets.targets.vocabulary import kimi_vocabulary

KIMI = kimi_vocabulary()
OLD_IMPORT = "from transformers.models.gpt2.tokenization_gpt2 import bytes_to_unicode\n"
OWN_CLASS = "from transformers import PreTrainedTokenizerFast\nclass TikTokenTokenizer(PreTrainedTokenizerFast): pass\n"


def findings(folder: ModelFolder) -> dict[str, str]:
    section = folder_section(folder, KIMI, agreement_with(folder, KIMI, hard_texts()))
    return {trial.tried: trial.result for trial in section.trials}


def test_without_trust_the_code_is_not_run_and_the_files_are_read(tiktoken_folder: Callable[..., Path]) -> None:
    path = tiktoken_folder()
    folder = read_model_folder(path)
    assert not (path.parent / "code_ran").exists()
    assert not folder.ran_code
    assert folder.tokenizer is None
    assert folder.special["<|im_end|>"] == 163586
    assert "was NOT run (--trust-remote-code runs it)" in folder.how
    found = findings(folder)
    assert found["tiktoken.model"] == "the official file"
    assert found["special tokens"] == "23 listed in its files, all with the right ids"
    assert found["chat template"].endswith("prompts as for moonshotai/kimi-k2.5")
    assert gates.vocabulary_is_official(KIMI, folder).passed
    assert gates.special_tokens_roundtrip(KIMI, folder).passed
    assert gates.encoders_agree(KIMI, folder, None).passed


def test_a_wrong_special_id_closes_the_gate(tiktoken_folder: Callable[..., Path]) -> None:
    folder = read_model_folder(tiktoken_folder(special={"<|im_end|>": 163533}))
    gate = gates.special_tokens_roundtrip(KIMI, folder)
    assert not gate.passed
    assert gate.sentence == "The model folder gives <|im_end|> the id 163533; in the vocabulary it is 163586."
    assert findings(folder)["special tokens"] == "<|im_end|> is 163533, not 163586"


def test_another_tiktoken_model_closes_the_gate(tiktoken_folder: Callable[..., Path]) -> None:
    path = tiktoken_folder()
    ranks = (path / "tiktoken.model").read_bytes().splitlines(keepends=True)
    (path / "tiktoken.model").write_bytes(b"".join(ranks[:-1]))
    folder = read_model_folder(path)
    gate = gates.vocabulary_is_official(KIMI, folder)
    assert not gate.passed
    assert "is not the official file" in gate.sentence
    assert findings(folder)["tiktoken.model"] == "NOT the official file"


def test_a_template_that_prompts_otherwise_is_shown(tiktoken_folder: Callable[..., Path]) -> None:
    path = tiktoken_folder()
    (path / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    assert (
        findings(read_model_folder(path))["chat template"] == "gives a prompt that no known target has: 'Be brief.Hi'"
    )
    (path / "chat_template.jinja").write_text("{{ messages[0].__class__.__mro__ }}")
    assert "does not render a plain conversation" in findings(read_model_folder(path))["chat template"]


def fast_folder(tmp_path: Path, tokenizer_json: str, config: dict[str, object]) -> Path:
    (tmp_path / "tokenizer.json").write_text(tokenizer_json, encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


def test_tokenizer_json_loads_through_transformers_and_agrees(tmp_path: Path, fast_tokenizer_json: str) -> None:
    config = {"auto_map": {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]}}
    path = fast_folder(tmp_path, fast_tokenizer_json, config)
    (path / "tokenization_kimi.py").write_text(f"open({str(tmp_path / 'code_ran')!r}, 'w').close()\n{OWN_CLASS}")
    folder = read_model_folder(path)
    assert folder.load_error is None
    assert not (tmp_path / "code_ran").exists()
    agreement = agreement_with(folder, KIMI, hard_texts())
    assert agreement is not None
    assert agreement.first_difference is None
    assert agreement.texts > 4000
    assert wrong_special_ids(folder, KIMI) == {}
    assert gates.encoders_agree(KIMI, folder, agreement).numbers["differences_transformers"] == 0


def test_a_tokenizer_json_that_differs_closes_both_gates(tmp_path: Path, fast_tokenizer_json: str) -> None:
    tokenizer = json.loads(fast_tokenizer_json)
    tokenizer["normalizer"] = {"type": "NFC"}
    for entry in tokenizer["added_tokens"]:
        entry["content"] = {"<think>": "</think>", "</think>": "<think>"}.get(entry["content"], entry["content"])
    folder = read_model_folder(fast_folder(tmp_path, json.dumps(tokenizer), {}))
    assert wrong_special_ids(folder, KIMI) == {"</think>": 163606, "<think>": 163607}
    assert not gates.special_tokens_roundtrip(KIMI, folder).passed
    agreement = agreement_with(folder, KIMI, hard_texts()[:300])
    gate = gates.encoders_agree(KIMI, folder, agreement)
    assert not gate.passed
    assert "in transformers" in gate.sentence


def test_with_trust_the_folder_s_own_code_runs(
    tmp_path: Path, fast_tokenizer_json: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    config = {"auto_map": {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]}}
    (tmp_path / "model").mkdir()
    path = fast_folder(tmp_path / "model", fast_tokenizer_json, config)
    (path / "tokenization_kimi.py").write_text(f"open({str(tmp_path / 'code_ran')!r}, 'w').close()\n{OWN_CLASS}")
    folder = read_model_folder(path, trust_remote_code=True)
    assert folder.load_error is None
    assert (tmp_path / "code_ran").exists()
    assert folder.ran_code
    assert type(folder.tokenizer).__name__ == "TikTokenTokenizer"
    assert wrong_special_ids(folder, KIMI) == {}


def test_an_older_tokenization_kimi_is_explained(
    tiktoken_folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = read_model_folder(tiktoken_folder(code=OLD_IMPORT + OWN_CLASS), trust_remote_code=True)
    assert folder.load_error is not None
    assert "does not import under transformers 5" in folder.load_error
    gate = gates.encoders_agree(KIMI, folder, None)
    assert not gate.passed
    assert "The model folder cannot be compared" in gate.sentence


def test_a_folder_that_holds_no_tokenizer_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="is no folder"):
        read_model_folder(tmp_path / "nowhere")
    with pytest.raises(ModelFolderError, match="holds no tokenizer"):
        read_model_folder(tmp_path)
    (tmp_path / "tiktoken.model").write_text("")
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(ModelFolderError, match="is no JSON"):
        read_model_folder(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"added_tokens_decoder": {"first": {"content": "x"}}}')
    with pytest.raises(ModelFolderError, match="gives 'x' the id 'first'"):
        read_model_folder(tmp_path)
