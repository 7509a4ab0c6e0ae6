"""vLLM's `/v1/completions` as a judge.

Checked in vLLM's sources: `entrypoints/openai/completion/protocol.py` (2026), `v1/engine/logprobs.py` (its first form),
`clamp_prompt_logprobs` of the serving base, `v1/request.py`; issues 3251 and 8268, pull request 23399:

- `prompt` takes a list of ids as it is, without adding `[BOS]`. `prompt_logprobs: n` asks for the n likeliest tokens of
  each place of the prompt and for the token that stands there, whatever its rank; 0 for that one alone.
- `choices[0].prompt_logprobs` has an entry for each id of the prompt: null for the first, else an object whose keys are
  ids as strings and whose values are `{"logprob", "rank", "decoded_token"}`; n + 1 of them where the token is not among
  the n likeliest. −inf is written as −9999.0.
- `max_tokens: 0` is understood by the newest releases only, and with `echo`; so one token is made and thrown away:
  prompt, output and one more must fit into `max_model_len`.
- n may not exceed the server's `max_logprobs` (20 by default), else it answers 400.
- A request for prompt logprobs does not read the prefix cache (`skip_reading_prefix_cache`), so every prompt is read
  whole; old releases failed where both were on. Chunked prefill gives the same list. `stream` is not allowed with it.
- A server may have other sampling defaults (`generation_config`), so temperature 1 is always sent.
"""

from __future__ import annotations

from typing import Any

from eagle_assets.judge.questions import JudgeError, Question, Scores
from eagle_assets.openrouter.values import as_dict, as_list

PATH = "v1/completions"
MOST_TOP = 20
_NEGATIVE_INFINITY = -9999.0


def request_of(question: Question, model: str) -> dict[str, Any]:
    """The body of the request."""
    return {
        "model": model,
        "prompt": [*question.prompt_ids, *question.output_ids],
        "max_tokens": 1,
        "temperature": 1.0,
        "prompt_logprobs": min(question.top, MOST_TOP),
    }


def scores_in(answer: Any, question: Question) -> Scores:
    """The scores in the server's answer. Raises JudgeError where it is not about these ids."""
    choices = as_list(as_dict(answer).get("choices"))
    places = as_list(as_dict(choices[0] if choices else None).get("prompt_logprobs"))
    if len(places) != question.tokens:
        raise JudgeError(
            "the judge's answer holds no prompt_logprobs of the ids that were asked; is it a vLLM server? "
            "(kind: sglang is for SGLang)"
        )
    tokens: list[float | None] = []
    tops: list[list[float]] = []
    for token, place in zip(question.output_ids, places[len(question.prompt_ids) :], strict=True):
        found = {int(key): _logprob(value) for key, value in as_dict(place).items()}
        if place is not None and token not in found:
            raise JudgeError(f"the judge's answer is about other ids: there is no logprob of token {token}")
        tokens.append(found.get(token))
        tops.append(sorted((v for v in found.values() if v is not None), reverse=True)[: question.top])
    return Scores.of(tokens, tops, question.top)


def _logprob(value: Any) -> float | None:
    """None for what is no number."""
    logprob = as_dict(value).get("logprob")
    if not isinstance(logprob, int | float):
        return None
    return float("-inf") if logprob <= _NEGATIVE_INFINITY else float(logprob)
