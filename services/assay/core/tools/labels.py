"""What trainers hand over, in the platform's words: labels, responses, groups.

Trainers hold a response as text or as chat messages, and what it is judged by as a label: a text, a
number, an object, or JSON.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from assay.core.errors import InvalidRequest

ROW_LABELS: Final = ("reference", "verifier_metadata", "expected_answer", "answer", "label")
"""Fields of a NeMo-Gym row that hold what to judge by, in this order."""


def reference_of(label: object) -> Mapping[str, Any]:
    """Return what to judge by, in the pipeline's form.

    An object, or the JSON text of one, is taken as it is (`{"tests": [...]}`). Anything else is a
    gold answer, a list or an array several: `{"answers": [...]}`, as `math` and `exact` read it.
    No label is an empty object, which the platform refuses by name: the sample is unscored, the
    others are not.
    """
    found = _plain(label)
    if isinstance(found, dict):
        return found
    if isinstance(found, str) and found.lstrip().startswith("{"):
        try:
            parsed = json.loads(found)
        except ValueError:
            parsed = None
        if isinstance(parsed, dict):
            return parsed
    several = found if isinstance(found, list) else [found]
    answers = [str(answer) for answer in several if not _is_missing(answer)]
    return {"answers": answers} if answers else {}


def _plain(value: object) -> object:
    """Arrays, tensors and their scalars as Python's own, at any depth; bytes as text."""
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(member) for member in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    to_list = getattr(value, "tolist", None)
    return _plain(to_list()) if callable(to_list) else value


def _is_missing(value: object) -> bool:
    """Whether a data frame has no value there: None, or what does not equal itself, as NaN."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA, which compares to nothing
        return True


def response_text(completion: object) -> str:
    """Return the text of a response: it is one, or it is chat messages with the last one to judge.

    Raises:
        InvalidRequest: it is neither.
    """
    if isinstance(completion, str):
        return completion
    if isinstance(completion, Sequence) and completion and isinstance(completion[-1], Mapping):
        return _content(completion[-1].get("content"))
    message = f"response: {type(completion).__name__} is neither text nor a list of chat messages"
    raise InvalidRequest(message, field="response")


def _content(content: object) -> str:
    """The text of a message, whose content may be a list of typed parts, or absent (tool calls)."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        texts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "".join(text for text in texts if isinstance(text, str))
    raise InvalidRequest(f"response: content is {type(content).__name__}", field="response")


def row_label(row: Mapping[str, Any]) -> object:
    """Return the first of `ROW_LABELS` that a row has; `None` if it has none."""
    return next((row[name] for name in ROW_LABELS if not _is_missing(row.get(name))), None)


def output_text(output: object) -> str:
    """Return the text of the assistant's last message in a response's output items.

    Raises:
        InvalidRequest: it is not a list of items.
    """
    if not isinstance(output, Sequence) or isinstance(output, str | bytes):
        raise InvalidRequest("response.output: a list of items", field="response.output")
    messages = [
        item
        for item in output
        if isinstance(item, Mapping)
        and item.get("type", "message") == "message"
        and item.get("role", "assistant") == "assistant"
    ]
    return response_text([messages[-1]]) if messages else ""


def group_of(prompt: object) -> str:
    """Return a name for the group of a prompt: equal prompts have the same."""
    text = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
