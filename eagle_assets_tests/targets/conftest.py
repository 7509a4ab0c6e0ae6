"""Model folders as a user has them beside the weights, made from the embedded vocabulary."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eagle_assets.targets.encoders import SPLIT_PATTERN
from eagle_assets.targets.vocabulary import kimi_vocabulary

CHAT_TEMPLATE = (
    "{%- for m in messages -%}<|im_{{ m.role }}|>{{ m.role }}<|im_middle|>{{ m.content }}<|im_end|>{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|im_assistant|>assistant<|im_middle|><think>{%- endif -%}"
)
REMOTE = {
    "tokenizer_class": "TikTokenTokenizer",
    "auto_map": {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]},
}


def decoder_of(special: dict[str, int]) -> dict[str, dict[str, Any]]:
    return {str(token): {"content": text, "special": True} for text, token in special.items() if "reserved" not in text}


@pytest.fixture
def tiktoken_folder(tmp_path: Path) -> Callable[..., Path]:
    """A folder like Moonshot's: ranks, configuration, code that leaves a trace where it runs, a chat template."""

    def make(special: dict[str, int] | None = None, code: str = "") -> Path:
        vocabulary = kimi_vocabulary()
        folder = tmp_path / "kimi"
        folder.mkdir()
        lines = (base64.b64encode(b) + b" %d\n" % i for i, b in enumerate(vocabulary.token_bytes))
        (folder / "tiktoken.model").write_bytes(b"".join(lines))
        config = REMOTE | {"added_tokens_decoder": decoder_of(vocabulary.special | (special or {}))}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        (folder / "tokenization_kimi.py").write_text(f"open({str(tmp_path / 'code_ran')!r}, 'w').close()\n{code}")
        (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
        return folder

    return make


@pytest.fixture(scope="session")
def fast_tokenizer_json(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tokenizer.json with the vocabulary's tokens, the merges that follow from their order, and its markers."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    vocabulary = kimi_vocabulary()
    letters = bytes_to_unicode()
    ids = vocabulary.id_of_bytes
    names = ["".join(map(letters.__getitem__, piece)) for piece in vocabulary.token_bytes]
    merges = []
    for piece in vocabulary.token_bytes:
        halves = ((ids.get(piece[:k]), ids.get(piece[k:])) for k in range(1, len(piece)))
        merges += [(names[a], names[b]) for a, b in sorted(pair for pair in halves if None not in pair)]
    tokenizer = Tokenizer(BPE({name: i for i, name in enumerate(names)}, merges, ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    markers = sorted(vocabulary.special, key=vocabulary.special.__getitem__)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in markers])
    path = tmp_path_factory.mktemp("fast") / "tokenizer.json"
    tokenizer.save(str(path), pretty=False)
    return path.read_text(encoding="utf-8")
