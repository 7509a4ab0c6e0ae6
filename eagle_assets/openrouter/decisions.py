"""What to do about an answer, and what it cost: decided from what came, by the list in FACTS 3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from eagle_assets.openrouter.outcome import ErrorDetails
from eagle_assets.openrouter.response import Response

Outcome = Literal["answered", "retry", "refused", "fatal"]

RETRY_STATUSES = frozenset({408, 429, 500, 502, 503, 504, 524, 529})
FATAL_STATUSES = {
    401: "the key is not accepted: set OPENROUTER_API_KEY to a valid one",
    402: "the credit is used up: buy credit for this key, or raise its limit",
    403: "the key may not do this: look at its permissions and at the account's privacy settings",
    404: "no endpoint answers: mend `target` or `routing` in the datasets file, or OPENROUTER_BASE_URL",
}
# Codes that come as words. Any other word is a passing trouble of the upstream server until shown otherwise.
REFUSED_CODES = frozenset({"invalid_request_error", "invalid_request", "context_length_exceeded", "bad_request"})
NEVER_BILLED = frozenset({400, 401, 402, 403, 404, 413, 422, 429})


@dataclass(frozen=True, slots=True)
class Decision:
    """`answered`: keep it. `retry`: ask again. `refused`: this request is wrong and stays so. `fatal`: ask no one.

    `reason` is None only where there is an answer.
    """

    outcome: Outcome
    reason: str | None = None


def retry_decision(status: int | None, response: Response, details: ErrorDetails | None = None) -> Decision:
    """The decision about one attempt; `status` is the HTTP status, None where no HTTP answer came.

    An error's own code inside the body counts before the status line, which is often 200 all the same. A 403 that
    flags the prompt concerns no other.
    """
    if response.error is None and response.complete:
        return Decision("answered")
    reason = response.error or "the answer was cut before its end"
    code = error_code(status, response)
    if isinstance(code, str):
        return Decision("refused" if code in REFUSED_CODES else "retry", reason)
    if code is None or code in RETRY_STATUSES or code >= 500:
        return Decision("retry", reason)
    if code == 403 and details is not None and details.moderated:
        return Decision("refused", f"the prompt was flagged by moderation ({code}: {reason})")
    if code in FATAL_STATUSES:
        return Decision("fatal", f"{FATAL_STATUSES[code]} ({code}: {reason})")
    if code >= 400:
        return Decision("refused", f"{code}: {reason}")
    if code >= 300:
        return Decision("fatal", f"the server answers {code}, a redirect: mend OPENROUTER_BASE_URL")
    return Decision("retry", reason)


def known_cost_usd(status: int | None, response: Response) -> float | None:
    """What the attempt cost, where that is known; None means unknown, which is not zero.

    A cost of 0 next to 0 tokens is no statement: answers that were paid for have been reported so (FACTS 3).
    """
    cost = response.cost_usd
    if cost is not None and (cost > 0 or response.completion_tokens):
        return cost
    nothing_came = not (response.content or response.reasoning or response.tool_calls or response.usage)
    if nothing_came and response.error is not None and error_code(status, response) in NEVER_BILLED:
        return 0.0
    return None


def error_code(status: int | None, response: Response) -> int | str | None:
    """The body's code where it is an HTTP one, else a status that is none of success, else the body's word."""
    code = response.error_code
    if isinstance(code, str) and code.isascii() and code.isdigit():
        code = int(code)
    if isinstance(code, int) and 300 <= code < 600:
        return code
    if status is not None and status >= 300:
        return status
    return code if isinstance(code, str) else None
