"""Choices of chat completions: messages and chunks, with tool calls and log-probs.

The chunks of a streamed reply add up to the message of one that is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.rollout.gateway.history import plain
from assay.rollout.gateway.tool_calls import Splitter, ToolCall
from assay.rollout.server import answers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assay.rollout.gateway.bodies import AgentCompletionBody, ChatBody
    from assay.rollout.gateway.history import Message
    from assay.rollout.gateway.tool_calls import Form
    from assay.rollout.interface.rollouts import Completed, Progress
    from assay.rollout.models.tokenizer import Tokenizer

Chunk = dict[str, Any]


class ChatReply:
    """One choice of a chat completion, while it is generated."""

    object, prefix = "chat.completion", "chatcmpl-"

    def __init__(
        self,
        body: ChatBody,
        index: int,
        *,
        tokenizer: Tokenizer | None,
        token_bytes: Sequence[bytes],
        form: Form | None,
        opening: str,
        new_id: Callable[[], str],
    ) -> None:
        """Begin a reply.

        Args:
            body: the call.
            index: of the choice.
            tokenizer: of the model.
            token_bytes: of each id, for log-probs.
            form: how the model writes tool calls; None: they stay text.
            opening: the beginning of the reply, which is in the prompt.
            new_id: names tool calls.
        """
        self._body, self._index = body, index
        self._text = answers.Text(tokenizer, body)
        self._token_bytes = token_bytes
        self._splitter = Splitter(form if body.tools and body.tool_choice != "none" else None)
        self._new_id = new_id
        self._opening = opening
        self._begun = False
        self.said = ""
        self.calls: list[Chunk] = []

    def chunk(self, part: Progress) -> list[Chunk]:
        """New tokens, as entries of `choices`."""
        return [self._delta(self._split(self._text.push(part.tokens)), part)]

    def end(self, whole: Completed, part: Progress) -> list[Chunk]:
        """The last tokens and the reason of the end."""
        text = self._text.push(part.tokens) + self._text.flush()
        delta = self._split(text)
        for piece in self._splitter.flush():
            self._add(delta, piece)
        choice = answers.ended(self._delta(delta, part), whole)
        if self.calls and choice["finish_reason"] == "stop":
            choice["finish_reason"] = "tool_calls"
        return [choice]

    def whole(self, completed: Completed, part: Progress) -> Chunk:
        """The choice in one piece; nothing was pushed before."""
        [choice] = self.end(completed, part)
        del choice["delta"]
        message: Chunk = {"role": "assistant", "content": self.said or None}
        if not self.calls:
            message["content"] = self.said
        else:
            message["tool_calls"] = self.calls
        return {"index": choice.pop("index"), "message": message, **choice}

    def message(self) -> Message:
        """What the agent will send back of it."""
        return plain({"role": "assistant", "content": self.said, "tool_calls": self.calls})

    def _split(self, text: str) -> Chunk:
        delta: Chunk = {}
        text, self._opening = self._opening + text, ""
        for piece in self._splitter.push(text):
            self._add(delta, piece)
        return delta

    def _add(self, delta: Chunk, piece: str | ToolCall) -> None:
        if isinstance(piece, str):
            self.said += piece
            delta["content"] = delta.get("content", "") + piece
            return
        function = {"name": piece.name, "arguments": piece.arguments}
        call = {"id": f"call_{self._new_id()[:24]}", "type": "function", "function": function}
        delta.setdefault("tool_calls", []).append({"index": len(self.calls), **call})
        self.calls.append(call)

    def _delta(self, delta: Chunk, part: Progress) -> Chunk:
        if not self._begun:
            delta = {"role": "assistant", "content": "", **delta}
            self._begun = True
        choice: Chunk = {"index": self._index, "delta": delta, "finish_reason": None}
        if self._body.logprobs:
            pairs = zip(part.tokens, part.logps, strict=True)
            choice["logprobs"] = {"content": [self._logprob(*pair) for pair in pairs]}
        return choice | answers.extras(self._body, part)

    def _logprob(self, token: int, logp: float) -> Chunk:
        raw = self._token_bytes[token] if token < len(self._token_bytes) else b""
        text = raw.decode("utf-8", "replace")
        return {"token": text, "logprob": logp, "bytes": list(raw), "top_logprobs": []}


class TextReply:
    """One choice of a completion, while it is generated."""

    object, prefix = "text_completion", "cmpl-"

    def __init__(
        self, body: AgentCompletionBody, index: int, *, tokenizer: Tokenizer | None
    ) -> None:
        self._body, self._index = body, index
        self._text = answers.Text(tokenizer, body)
        self.said = ""

    def chunk(self, part: Progress) -> list[Chunk]:
        """New tokens, as entries of `choices`."""
        return [self._choice(part, self._text.push(part.tokens))]

    def end(self, whole: Completed, part: Progress) -> list[Chunk]:
        """The last tokens and the reason of the end."""
        text = self._text.push(part.tokens) + self._text.flush()
        return [answers.ended(self._choice(part, text), whole)]

    def whole(self, completed: Completed, part: Progress) -> Chunk:
        """The choice in one piece; nothing was pushed before."""
        [choice] = self.end(completed, part)
        return choice

    def _choice(self, part: Progress, text: str) -> Chunk:
        self.said += text
        logprobs = self._body.logprobs is not None
        return answers.text_choice(self._body, part, text, logprobs=logprobs, index=self._index)
