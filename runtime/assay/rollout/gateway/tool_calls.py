"""Tool calls in the text of a response, in the forms that model families were trained on.

`tagged`: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` (Qwen, Hermes, SmolLM2, whose
calls may be a list). `bare`: the whole response is `{"name": ..., "parameters": {...}}` (Llama 3).
The chat template of a model tells which one it is. A call that cannot be parsed stays text: it is
what the policy said, and the agent's own error handling is part of what is trained.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

OPEN: Final = "<tool_call>"
CLOSE: Final = "</tool_call>"
CALLS_MAX: Final = 64
"""Calls in one response; what follows stays text."""


class Form(StrEnum):
    """How a model writes its calls."""

    TAGGED = "tagged"
    BARE = "bare"


OPENING: Final = {Form.TAGGED: OPEN, Form.BARE: '{"name": "'}
"""What a reply begins with that has to be a call."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a function."""

    name: str
    arguments: str
    """A JSON object, as text."""


def form_of(template: str) -> Form | None:
    """The form that a chat template describes to its model; `None`: it knows no tools."""
    if OPEN in template:
        return Form.TAGGED
    if '"parameters"' in template and "tools" in template:
        return Form.BARE
    return None


class Splitter:
    """Splits a response, while it is generated, into text and tool calls.

    `push` returns pieces in order. Text is held back as long as it may be the beginning of a call.
    """

    def __init__(self, form: Form | None) -> None:
        """`None`: everything is text."""
        self._form = form
        self._held = ""
        self._inside = False
        self._calls = 0
        self._begun = False

    def push(self, text: str) -> list[str | ToolCall]:
        """Add text; returns the text and the calls that are complete now."""
        if self._form is None:
            return [text] if text else []
        self._held += text
        if self._form is Form.BARE:
            return self._push_bare()
        return list(self._push_tagged())

    def flush(self) -> list[str | ToolCall]:
        """The response is complete: what was held back."""
        held, self._held = self._held, ""
        if self._form is Form.BARE and held:
            calls = calls_in(held, "parameters")
            return list(calls) if calls else [held]
        return [OPEN + held] if self._inside else [held] if held else []

    def _push_bare(self) -> list[str | ToolCall]:
        if not self._begun and self._held.lstrip()[:1] in {"", "{"}:
            return []
        self._begun = True
        text, self._held = self._held, ""
        return [text]

    def _push_tagged(self) -> Iterator[str | ToolCall]:
        while True:
            mark = CLOSE if self._inside else OPEN
            before, found, after = self._held.partition(mark)
            if not found:
                break
            self._held = after
            if self._inside:
                yield from self._called(before)
            elif before:
                yield before
            self._inside = not self._inside
        if not self._inside:
            keep = _could_begin(self._held, OPEN)
            text, self._held = (
                self._held[: len(self._held) - keep],
                self._held[len(self._held) - keep :],
            )
            if text:
                yield text

    def _called(self, text: str) -> list[str | ToolCall]:
        calls = calls_in(text, "arguments")
        if not calls or self._calls + len(calls) > CALLS_MAX:
            return [OPEN + text + CLOSE]
        self._calls += len(calls)
        return list(calls)


def calls_in(text: str, arguments: str) -> list[ToolCall]:
    """The calls that a JSON text holds; empty where it is not one call or a list of them."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return []
    calls = [_call(one, arguments) for one in (parsed if isinstance(parsed, list) else [parsed])]
    return [call for call in calls if call is not None] if None not in calls else []


def _call(parsed: Any, key: str) -> ToolCall | None:  # noqa: ANN401 - JSON
    if not isinstance(parsed, dict) or not isinstance(parsed.get("name"), str):
        return None
    arguments = parsed.get(key, {})
    if isinstance(arguments, str):
        return ToolCall(parsed["name"], arguments)
    if not isinstance(arguments, dict):
        return None
    return ToolCall(parsed["name"], json.dumps(arguments, ensure_ascii=False))


def _could_begin(text: str, mark: str) -> int:
    """Length of the longest end of `text` that begins `mark`."""
    longest = min(len(mark) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if mark.startswith(text[-n:])), 0)


def whole(text: str, form: Form | None) -> tuple[str, list[ToolCall]]:
    """The text and the calls of a complete response."""
    splitter = Splitter(form)
    pieces = [*splitter.push(text), *splitter.flush()]
    said = "".join(piece for piece in pieces if isinstance(piece, str))
    return said, [piece for piece in pieces if isinstance(piece, ToolCall)]
