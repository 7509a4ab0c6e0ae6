"""SGLang's native `/generate` as a judge.

Run on the CPU against its server of release 0.5.23 (`make test-servers`), and read in the sources of that and of
earlier ones (`srt/managers/io_struct.py`: GenerateReqInput; `_process_input_token_logprobs`, now in
`scheduler_components/logprob_result_processor.py`; its endpoint tests) and in pull requests 2083 and 3157:

- `input_ids` takes the place of `text`. `logprob_start_len` is the first place of the prompt whose entry is wanted; the
  entry of that place itself has no value (`null`: its logits belong to a pass that was not made), so the last token of
  the prompt is asked for and thrown away. The default, −1, gives nothing of the input.
- What lies before `logprob_start_len` may come from the radix cache and costs nothing; what lies behind is computed
  again. Chunked prefill gives the same list: the server puts the chunks together.
- `max_new_tokens: 0` is allowed and makes no token; it is what SGLang's own `score_request` sends.
- `meta_info.input_token_logprobs` is a list of `[logprob, token id, text or null]`, `input_top_logprobs` one such list
  for each place (null for the first). JSON has no −inf: the server writes `null`.
- Ids of the vocabulary's last place are shown as 0 there (they are taken for padding of pictures), and releases differ
  in whether the first entry is there; so entries are matched from the end and by id.
- Logprobs are those of the raw logits unless the server was told otherwise; temperature 1 is sent all the same.
- A prompt fits that has seven tokens less than the context, or fewer; else it answers 400. Started with
  `--allow-auto-truncate` it cuts the prompt instead, which only `meta_info.prompt_tokens` tells.
- An id outside of the model's vocabulary ends the server: it is not looked at before the embedding.
"""

from __future__ import annotations

from typing import Any

from eagle_assets.judge.questions import JudgeError, Question, QuestionRefused, Scores
from eagle_assets.openrouter.values import as_count, as_dict, as_list

PATH = "generate"


def request_of(question: Question) -> dict[str, Any]:
    """The body of the request."""
    return {
        "input_ids": [*question.prompt_ids, *question.output_ids],
        "sampling_params": {"max_new_tokens": 0, "temperature": 1.0},
        "return_logprob": True,
        "logprob_start_len": max(0, len(question.prompt_ids) - 1),
        "top_logprobs_num": question.top,
        "return_text_in_logprobs": False,
        "stream": False,
    }


def scores_in(answer: Any, question: Question) -> Scores:
    """The scores in the server's answer. Raises JudgeError where it is not about these ids, QuestionRefused where it is
    about the first of them alone."""
    wanted = len(question.output_ids)
    meta = as_dict(as_dict(answer).get("meta_info"))
    read = as_count(meta.get("prompt_tokens"))
    if read is not None and read < question.tokens:
        raise QuestionRefused(f"the server read {read} of {question.tokens} tokens and cut the rest off")
    entries = _last(wanted, [as_list(entry) for entry in as_list(meta.get("input_token_logprobs"))])
    seen = [entry[1] if len(entry) > 1 else None for entry in entries]
    if len(seen) != wanted or any(
        there not in (token, 0) for there, token in zip(seen, question.output_ids, strict=True)
    ):
        raise JudgeError(
            "the judge's answer holds no logprobs of the ids that were asked; is it an SGLang server? "
            "(kind: vllm is for vLLM)"
        )
    tops = _last(wanted, as_list(meta.get("input_top_logprobs"))) if question.top else []
    rows = [[entry[0] for entry in as_list(place) if entry[0] is not None] for place in tops]
    rows = [[]] * (wanted - len(rows)) + rows
    return Scores.of([entry[0] for entry in entries], rows, question.top)


def _last(wanted: int, entries: list[Any]) -> list[Any]:
    """So many of the last; none where an output has no tokens, as where a variant takes an output's end away."""
    return entries[max(0, len(entries) - wanted) :]
