"""Responses in OpenAI's form: text of tokens, choices, chunks, usage, errors.

The server and the gateway for agents write their answers with these.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from assay.core.errors import AssayError, InvalidRequest
from assay.edge.status import detail_of
from assay.rollout.layout import Stop
from assay.rollout.models.tokenizer import StopStrings, TextStream
from assay.rollout.server.bodies import finish_reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.edge.status import ErrorDetail
    from assay.rollout.interface.rollouts import Completed, Progress
    from assay.rollout.models.tokenizer import Tokenizer
    from assay.rollout.server.bodies import SamplingBody

KINDS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    409: "failed_precondition",
    413: "invalid_request_error",
    429: "saturated",
    503: "unavailable",
    504: "timeout",
}
"""OpenAI's `type` per HTTP status."""
END: Final = "data: [DONE]\n\n"


class Text:
    """The text of one response while it is generated, up to its stop string.

    Without a tokenizer it is empty.
    """

    def __init__(self, tokenizer: Tokenizer | None, body: SamplingBody) -> None:
        self._stream = None if tokenizer is None else TextStream(tokenizer)
        trimmed = not body.include_stop_str_in_output
        self._stops = StopStrings(body.stop_strings() if trimmed else ())
        self._stop_ids = frozenset(body.stop_token_ids or ()) if trimmed else frozenset()

    def push(self, tokens: Sequence[int]) -> str:
        """The text that is certain after these tokens."""
        if self._stream is None:
            return ""
        shown = [token for token in tokens if token not in self._stop_ids]
        return self._stops.push(self._stream.push(*shown))

    def flush(self) -> str:
        """The response is complete: the text that was held back."""
        if self._stream is None:
            return ""
        return self._stops.push(self._stream.flush()) + self._stops.flush()


def extras(body: SamplingBody, part: Progress) -> dict[str, Any]:
    """The fields of a choice for `return_token_ids`."""
    if not body.return_token_ids:
        return {}
    return {"token_ids": list(part.tokens), "policy_versions": list(part.policy_versions)}


def text_choice(
    body: SamplingBody, part: Progress, text: str, *, logprobs: bool, index: int = 0
) -> dict[str, Any]:
    """The entry of `choices` of a completion, or of one chunk of it."""
    choice: dict[str, Any] = {"index": index, "text": text, "finish_reason": None}
    choice["stop_reason"] = None
    if logprobs:
        names = [f"token_id:{token}" for token in part.tokens]
        choice["logprobs"] = {"token_logprobs": list(part.logps), "tokens": names}
    return choice | extras(body, part)


def ended(choice: dict[str, Any], whole: Completed) -> dict[str, Any]:
    """The choice with the reason of its end."""
    choice["finish_reason"] = finish_reason(whole.outcome, whole.stop)
    if whole.stop is Stop.ID and whole.tokens:
        choice["stop_reason"] = whole.tokens[-1]
    return choice


def usage(prompt: int, *responses: int) -> dict[str, int]:
    """Counts of tokens."""
    made = sum(responses)
    return {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}


def event(content: object) -> str:
    """One server-sent event."""
    return f"data: {json.dumps(content)}\n\n"


def error_of(error: AssayError) -> dict[str, Any]:
    """An error in OpenAI's form."""
    return error_body(detail_of(error))


def error_body(detail: ErrorDetail) -> dict[str, Any]:
    """An error in OpenAI's form; `code` is ours: `invalid_request`, `saturated` ..."""
    return {
        "error": {
            "message": detail.message,
            "type": KINDS.get(detail.status.http, "internal_error"),
            "param": detail.field or None,
            "code": detail.reason,
        }
    }


def malformed(errors: Sequence[Any]) -> InvalidRequest:
    """The first error of a body that did not validate; names the field."""
    first = errors[0]
    steps = [str(step) for step in first["loc"] if step not in {"body", "query", "path"}]
    field = ".".join(steps) or "body"
    return InvalidRequest(f"{field}: {first['msg']}", field=field)
