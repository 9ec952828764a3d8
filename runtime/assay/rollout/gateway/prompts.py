"""From a call to the tokens of its turn: template, tokenizer, and the trajectory it continues."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from assay.core.errors import FailedPrecondition, InvalidRequest, TooLarge
from assay.rollout.gateway.history import added_tokens, read, text_after_reply
from assay.rollout.gateway.tool_calls import OPENING, form_of
from assay.rollout.models.tokenizer import PartEncoder, text_bytes_max

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.rollout.gateway.bodies import AgentCompletionBody, ChatBody
    from assay.rollout.gateway.history import Conversation, Message
    from assay.rollout.gateway.record import Point, TurnRecord
    from assay.rollout.models.chat import ChatTemplate
    from assay.rollout.models.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The tokens of a request's prompt, and what they continue; see `TurnRecord.place`."""

    ids: Sequence[int]
    at: Point | None = None
    added: Sequence[int] | None = None
    digest: bytes | None = None
    """Identifies the conversation; `None` for completions."""
    text: str | None = None
    """The prompt's text; `None` for conversations and ids."""
    opening: str = ""
    """The beginning of the reply that is not left to the model; the last tokens of the prompt."""


class PromptReader:
    """Reads prompts for one model."""

    def __init__(
        self, tokenizer: Tokenizer | None, template: ChatTemplate | None, *, tokens_max: int
    ) -> None:
        self._tokenizer = tokenizer
        self._text_max = 0 if tokenizer is None else text_bytes_max(tokenizer, tokens_max)
        self._template = template
        self._parts = None if tokenizer is None else PartEncoder(tokenizer)
        self._ends = frozenset(() if tokenizer is None else tokenizer.eos_ids)
        self.form = None if template is None else form_of(template.source)

    def chat(self, body: ChatBody, record: TurnRecord) -> Prompt:
        """A conversation.

        Raises:
            FailedPrecondition: the model has no tokenizer or no chat template.
            InvalidRequest: the template refuses it, or a call is required of a model that knows
                none.
            TooLarge: it cannot fit.
        """
        prompt = self._conversation(body, record)
        if body.tool_choice != "required" or not body.tools or self._tokenizer is None:
            return prompt
        if self.form is None:
            message = "tool_choice: the model's chat template knows no tools"
            raise InvalidRequest(message, field="tool_choice")
        opening = OPENING[self.form]
        ids = self._tokenizer.encode(opening)
        added = None if prompt.added is None else [*prompt.added, *ids]
        return replace(prompt, ids=[*prompt.ids, *ids], added=added, opening=opening)

    def _conversation(self, body: ChatBody, record: TurnRecord) -> Prompt:
        if self._template is None or self._parts is None:
            problem = "chat needs a tokenizer and a chat template (rollout.gateway.chat_template)"
            raise FailedPrecondition(problem, field="messages")
        tools = None if body.tool_choice == "none" else body.tools
        last = record.conversation
        talk = read(body.messages, tools, body.chat_template_kwargs, last=last)
        text = self._text(body, talk.messages, tools)
        self._check_size(text, "messages")
        record.keep(replace(talk, text=text))
        ids = self._parts.encode(text)  # templates write the model's first token themselves
        exact = record.continued_exactly(ids)
        known = record.continued_by_digest(talk.digests)
        if known is not None and (exact is None or exact.position < known[0].position):
            point, count = known
            captured = record.context(point)
            added = self._after_reply(text, talk, count, last, captured)
            if added is None:
                before = self._text(body, talk.messages[:count], tools, for_reply=False)
                added = added_tokens(ids, self._parts.encode(before), captured, self._ends)
            if added is not None:
                return Prompt(ids=ids, at=point, added=added, digest=talk.digests[-1])
        return Prompt(ids=ids, at=exact, digest=talk.digests[-1])

    def _after_reply(
        self,
        text: str,
        talk: Conversation,
        count: int,
        last: Conversation,
        captured: Sequence[int],
    ) -> list[int] | None:
        """As `added_tokens`, without another rendering; `None`: not known this way."""
        parts = self._parts
        if parts is None or not parts.is_one_part(talk.messages[count - 1]["content"]):
            return None
        found = text_after_reply(text, talk, count, last, parts.ends)
        if found is None:
            return None
        end, rest = found
        said_end = bool(captured) and captured[-1] in self._ends
        return [*([] if said_end else [parts.ends[end]]), *parts.encode(rest)] or None

    def _text(
        self,
        body: ChatBody,
        messages: Sequence[Message],
        tools: Sequence[Message] | None,
        *,
        for_reply: bool = True,
    ) -> str:
        if self._template is None:
            raise FailedPrecondition("no chat template")
        variables = body.chat_template_kwargs
        return self._template.render(
            messages, tools=tools, for_reply=for_reply, variables=variables
        )

    def completion(self, body: AgentCompletionBody, record: TurnRecord) -> Prompt:
        """A prompt of text or of ids.

        Raises:
            InvalidRequest: it is text, and the model has no tokenizer.
            TooLarge: it cannot fit.
        """
        if not isinstance(body.prompt, str):
            return Prompt(ids=body.prompt, at=_begun(record, body.prompt))
        if self._tokenizer is None:
            message = "prompt: token ids are needed: the model has no tokenizer"
            raise InvalidRequest(message, field="prompt")
        self._check_size(body.prompt, "prompt")
        ids = self._tokenizer.encode(body.prompt, bos=True)
        exact = record.continued_exactly(ids) if ids else None
        known = record.continued_by_text(body.prompt)
        if known is not None and (exact is None or exact.position < known[0].position):
            point, rest = known
            added = self._tokenizer.encode(rest)
            return Prompt(ids=ids, at=point, added=added, text=body.prompt)
        return Prompt(ids=ids, at=exact, text=body.prompt)

    def _check_size(self, text: str, field: str) -> None:
        """Text that cannot fit is not encoded: a megabyte takes a second, in which no one else is
        served."""
        if len(text) > self._text_max:
            message = f"{field}: {len(text)} characters; at most {self._text_max} can fit"
            raise TooLarge(message, field=field)


def _begun(record: TurnRecord, ids: Sequence[int]) -> Point | None:
    """An id that is not one is refused by the engine, which names it."""
    if not all(0 <= token < 1 << 31 for token in ids):
        return None
    return record.continued_exactly(ids)
