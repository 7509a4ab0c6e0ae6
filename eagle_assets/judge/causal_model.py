"""A transformers causal model from a folder as a judge, on the CPU or the GPU: for small targets, without a server.

torch is not among this package's own requirements.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np

from eagle_assets.judge.questions import JudgeError, Question, Scores

TORCH_MISSING = (
    "torch is not installed, and a model from a folder needs it: python -m pip install torch "
    "(or name a server: judge: {kind: sglang, base_url: …})"
)


class CausalModelScorer:
    """A Scorer: the model of `folder` (config.json and its weights), loaded once; questions are answered one by one.

    Raises JudgeError where torch is missing, or the folder holds no causal model.
    """

    def __init__(self, folder: Path) -> None:
        try:
            import torch
        except ImportError:
            raise JudgeError(TORCH_MISSING) from None
        from transformers import AutoModelForCausalLM

        try:
            model: Any = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype="auto")
        except (OSError, ValueError) as error:
            raise JudgeError(f"{folder} holds no causal model of transformers: {error}") from None
        self.name = f"transformers {folder.resolve()}"
        self._torch: Any = torch
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model = model.to(self._device).eval()
        self._lock = asyncio.Lock()

    async def score(self, question: Question) -> Scores:
        async with self._lock:
            return await asyncio.to_thread(self._score, question)

    def _score(self, question: Question) -> Scores:
        torch, wanted = self._torch, len(question.output_ids)
        with torch.inference_mode():
            ids = torch.tensor([[*question.prompt_ids, *question.output_ids]], device=self._device)
            # The logits of a place are those of the next token: none is needed of the last.
            logits = self._model(ids, logits_to_keep=min(wanted + 1, ids.shape[1])).logits[0, :-1]
            logprobs = torch.log_softmax(logits.float(), dim=-1)
            found = logprobs.gather(1, ids[0, -len(logprobs) :, None])[:, 0].cpu().numpy()
            top = logprobs.topk(question.top).values.cpu().numpy() if question.top else np.empty((len(found), 0))
        missing = wanted - len(found)  # the first token of all where there is no prompt
        tokens = np.concatenate([np.full(missing, np.nan), found]).astype(np.float32)
        rows = np.concatenate([np.full((missing, question.top), -np.inf), top]).astype(np.float32)
        return Scores(tokens, rows)
