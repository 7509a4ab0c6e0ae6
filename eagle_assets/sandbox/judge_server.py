"""The small target behind the interfaces of inference servers, field by field: SGLang's `/generate`, vLLM's
`/v1/completions`. It answers what a judge asks, and generates nothing but a stop token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from eagle_assets.sandbox.small_target import SmallTarget
from eagle_assets.targets.target import Target

MAX_LOGPROBS = 20  # vLLM's default
CLAMPED = -9999.0
SET_ASIDE = 6  # tokens of the context that SGLang lets no prompt have, and one more


class JudgeServer:
    """The application. `asked` counts the requests, `tokens_read` what the model had to read for them."""

    def __init__(self, model: SmallTarget, target: Target, context_length: int = 262_144) -> None:
        self._model, self._target, self._context_length = model, target, context_length
        self.asked = self.tokens_read = 0
        self.app = Starlette(
            routes=[
                Route("/generate", self.generate, methods=["POST"]),
                Route("/v1/completions", self.complete, methods=["POST"]),
                Route("/v1/models", self.models),
            ]
        )

    async def generate(self, http: Request) -> Response:
        """As SGLang."""
        request = await http.json()
        ids, start = request["input_ids"], request.get("logprob_start_len", -1)
        if len(ids) >= self._context_length:
            message = (
                f"The input ({len(ids)} tokens) is longer than the model's context length "
                f"({self._context_length} tokens)."
            )
            return JSONResponse({"error": {"message": message}}, 400)
        if len(ids) >= (most := self._context_length - SET_ASIDE):
            message = (
                f"Input length ({len(ids)} tokens) exceeds the maximum allowed length ({most} tokens). "
                "Use a shorter input or enable --allow-auto-truncate."
            )
            return JSONResponse({"error": {"message": message}}, 400)
        self._note(ids)
        meta: dict[str, Any] = {
            "id": f"{self.asked:032x}",
            "finish_reason": {"type": "length", "length": request["sampling_params"].get("max_new_tokens", 128)},
            "prompt_tokens": len(ids),
            "weight_version": "default",
            "num_retractions": 0,
            "reasoning_tokens": 0,
            "completion_tokens": 0,
            "cached_tokens": 0,
            "weight_versions": [{"version": "default", "start": 0, "end": 0}],
            "cached_tokens_details": None,
            "dp_rank": None,
            "e2e_latency": 0.001,
            "response_sent_to_client_ts": 0.0,
        }
        if request.get("return_logprob") and start >= 0:
            found, top_ids, top = self._model.logprobs(ids, start + 1, request.get("top_logprobs_num", 0))
            shown = [0 if token == self._target.vocabulary.size - 1 else token for token in ids[start:]]
            values = [None, *found.tolist()]
            meta["input_token_logprobs"] = [[v, i, None] for v, i in zip(values, shown, strict=True)]
            meta |= {"output_token_logprobs": [], "output_token_logprobs_length": 0}
            if request.get("top_logprobs_num"):
                meta["input_top_logprobs"] = [
                    None,
                    *(
                        [[v, i, None] for v, i in zip(values, places, strict=True) if i >= 0]
                        for values, places in zip(top.tolist(), top_ids.tolist(), strict=True)
                    ),
                ]
                meta["output_top_logprobs"] = []
        return JSONResponse({"text": "", "output_ids": [], "meta_info": meta})

    async def complete(self, http: Request) -> Response:
        """As vLLM."""
        request = await http.json()
        ids, wanted = request["prompt"], request.get("prompt_logprobs")
        if wanted is not None and wanted > MAX_LOGPROBS:
            return _bad_request(
                f"Requested prompt logprobs of {wanted}, which is greater than max allowed: {MAX_LOGPROBS}",
                "prompt_logprobs",
            )
        if len(ids) + request["max_tokens"] > self._context_length:
            return _bad_request(
                f"This model's maximum context length is {self._context_length} tokens. However, you requested "
                f"{request['max_tokens']} output tokens and your prompt contains {len(ids)} input tokens.",
                "input_tokens",
            )
        self._note(ids)
        choice = {
            "index": 0,
            "text": "",
            "logprobs": None,
            "finish_reason": "stop",
            "stop_reason": None,
            "token_ids": None,
            "prompt_logprobs": None if wanted is None else self._prompt_logprobs(ids, wanted),
            "prompt_token_ids": None,
        }
        usage = {"prompt_tokens": len(ids), "total_tokens": len(ids) + 1, "completion_tokens": 1}
        answer = {"id": f"cmpl-{self.asked:032x}", "object": "text_completion", "created": 0, "model": request["model"]}
        return JSONResponse({**answer, "choices": [choice], "usage": usage})

    async def models(self, http: Request) -> Response:
        entry = {"id": self._target.name, "object": "model", "owned_by": "vllm", "max_model_len": self._context_length}
        return JSONResponse({"object": "list", "data": [entry]})

    def _prompt_logprobs(self, ids: Sequence[int], wanted: int) -> list[dict[str, Any] | None]:
        found, top_ids, top = self._model.logprobs(ids, 1, wanted)
        places: list[dict[str, Any] | None] = [None]
        rows = zip(ids[1:], found.tolist(), top_ids.tolist(), top.tolist(), strict=True)
        for token, logprob, others, others_logprobs in rows:
            entries = [(token, logprob)]
            entries += [(i, v) for i, v in zip(others, others_logprobs, strict=True) if i >= 0 and i != token]
            places.append({str(i): self._entry(i, v, rank) for rank, (i, v) in enumerate(entries, 1)})
        return places

    def _entry(self, token: int, logprob: float, rank: int) -> dict[str, Any]:
        shown = self._target.vocabulary.bytes_of(token).decode(errors="replace")
        return {"logprob": max(logprob, CLAMPED), "rank": rank, "decoded_token": shown}

    def _note(self, ids: Sequence[int]) -> None:
        self.asked += 1
        self.tokens_read += len(ids)


def _bad_request(message: str, parameter: str) -> Response:
    error = {"message": message, "type": "BadRequestError", "param": parameter, "code": 400}
    return JSONResponse({"error": error}, 400)
