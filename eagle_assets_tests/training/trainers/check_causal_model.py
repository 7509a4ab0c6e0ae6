"""`judge: {kind: transformers}` on a tiny model, held against the model's own logits."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

sys.path.insert(0, str(Path(__file__).parents[3]))

from eagle_assets.judge.causal_model import CausalModelScorer
from eagle_assets.judge.questions import JudgeError, Question

IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = LlamaConfig(
        vocab_size=40, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2
    )
    path = tmp_path_factory.mktemp("model")
    AutoModelForCausalLM.from_config(config).save_pretrained(path)
    return path


@pytest.mark.parametrize(("prompt", "top"), [(4, 0), (4, 3), (1, 2), (0, 2)])
def test_the_scores_are_the_models_own(folder: Path, prompt: int, top: int) -> None:
    scores = asyncio.run(CausalModelScorer(folder).score(Question(IDS[:prompt], IDS[prompt:], top)))
    with torch.inference_mode():
        logits = AutoModelForCausalLM.from_pretrained(folder)(torch.tensor([IDS])).logits[0].float()
    logprobs = torch.log_softmax(logits, -1).numpy()
    expected = [logprobs[place - 1, IDS[place]] if place else np.nan for place in range(prompt, len(IDS))]
    np.testing.assert_allclose(scores.tokens, expected, rtol=1e-4)
    assert scores.top.shape == (len(IDS) - prompt, top)
    for place in range(max(prompt, 1), len(IDS)):
        np.testing.assert_allclose(scores.top[place - prompt], np.sort(logprobs[place - 1])[::-1][:top], rtol=1e-4)


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="holds no causal model"):
        CausalModelScorer(tmp_path)
