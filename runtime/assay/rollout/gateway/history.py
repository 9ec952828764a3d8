"""Identity of a conversation: which earlier turn a list of messages continues.

Agents send the whole conversation with every call, and it comes back changed in form: content in
parts, tool calls with other spacing in their JSON, white space around a reply removed, fields that
are null. Digests identify what was said and not how it was written.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

Message = dict[str, Any]
_ROLES: Final = {"developer": "system", "function": "tool"}
"""OpenAI's newer names of roles that chat templates know."""


def plain(message: Mapping[str, Any]) -> Message:
    """A message as templates expect it: content as one text, arguments of tool calls as objects.

    Fields that are null are left out.
    """
    role = message["role"]
    made: Message = {"role": _ROLES.get(role, role), "content": text_of(message.get("content"))}
    for name in ("name", "tool_call_id", "reasoning_content"):
        if message.get(name) is not None:
            made[name] = message[name]
    if message.get("tool_calls"):
        made["tool_calls"] = [_plain_call(call) for call in message["tool_calls"]]
    return made


def text_of(content: str | Sequence[Mapping[str, Any]] | None) -> str:
    """The text of a message's content: a text, parts with texts, or null."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(str(part["text"]) for part in content)


def _plain_call(call: Mapping[str, Any]) -> Message:
    function = call["function"]
    arguments = function.get("arguments")
    made = {"name": function["name"], "arguments": _parsed(arguments)}
    return {"id": call.get("id", ""), "type": "function", "function": made}


def _parsed(arguments: object) -> object:
    """Arguments as an object; a text that is not JSON stays a text."""
    if not isinstance(arguments, str):
        return arguments or {}
    try:
        return json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation as it was read; the next one of a session mostly begins with it."""

    given: Sequence[Mapping[str, Any]] = ()
    """As the agent wrote it."""
    messages: Sequence[Message] = ()
    """`plain` ones."""
    digests: Sequence[bytes] = ()
    """One per message, of it and all before it; tools and variables count from the first."""
    chars: int = 0
    """About the memory that it takes."""
    begun: bytes = b""
    """Digest of tools and variables."""
    text: str = ""
    """Its prompt, by the chat template, with the head of the reply; empty where it is not known."""


def read(
    given: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
    variables: object = None,
    *,
    last: Conversation | None = None,
) -> Conversation:
    """Read a conversation; the result does not depend on `last`, which only saves work.

    Args:
        given: as agents write it.
        tools: function definitions that the prompt contains.
        variables: other inputs of the chat template.
        last: an earlier one; what both begin with is taken from it.
    """
    begun = (
        _sha256(b"", _json([list(tools or ()), variables or {}])) if tools or variables else _BARE
    )
    last = last if last is not None and last.begun == begun else Conversation(begun=begun)
    same = _same_messages(given, last.given)
    messages, found = list(last.messages[:same]), list(last.digests[:same])
    chars, before = last.chars, found[-1] if found else begun
    for message in map(plain, given[same:]):
        said = _said(message)
        before, chars = _sha256(before, said), chars + len(said)
        messages.append(message)
        found.append(before)
    return Conversation(given=given, messages=messages, digests=found, chars=chars, begun=begun)


def _same_messages(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> int:
    """How many messages both begin with, as they are written."""
    pairs = enumerate(zip(one, other, strict=False))
    differ = (i for i, (a, b) in pairs if a != b or _has_values(a))
    return next(differ, min(len(one), len(other)))


def _has_values(message: Mapping[str, Any]) -> bool:
    """Arguments given as objects: there, Python's equality is not JSON's (1 is true)."""
    calls = message.get("tool_calls") or ()
    return any(isinstance(call["function"].get("arguments"), dict) for call in calls)


def then(before: bytes, message: Message) -> bytes:
    """The digest after one more message."""
    return _sha256(before, _said(message))


def _said(message: Message) -> str:
    """What identifies a message."""
    role, content, name = message["role"], message["content"], message.get("name")
    said = content.strip() if role == "assistant" else content
    if name is None and not message.get("tool_calls"):  # most of them; as below
        return f'["{role}",{encode_basestring_ascii(said)},null,[]]'
    return _json(
        [
            role,
            said,
            name,
            [
                [call["function"]["name"], call["function"]["arguments"]]
                for call in message.get("tool_calls", ())
            ],
        ]
    )


def _json(content: object) -> str:
    return json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def _sha256(before: bytes, text: str) -> bytes:
    return hashlib.sha256(before + text.encode()).digest()


_BARE: Final = _sha256(b"", _json([[], {}]))
"""Without tools and variables."""


def text_after_reply(
    text: str, talk: Conversation, count: int, last: Conversation, ends: Collection[str]
) -> tuple[str, str] | None:
    """What a prompt adds to the last one and its reply, where the template only appended.

    Args:
        text: the prompt of `talk`.
        talk: the conversation.
        count: how many of its messages the last call and its reply are.
        last: the conversation of the last call.
        ends: texts of stop tokens.

    Returns:
        The reply's stop token and the text after it; `None`: the prompt is not simply the last
        one, the reply, a stop token and more.
    """
    reply, before = talk.messages[count - 1], list(talk.digests[: count - 1])
    if not last.text or before != list(last.digests) or reply.get("tool_calls"):
        return None
    said = last.text + str(reply["content"])
    if not text.startswith(said):
        return None
    end = next((end for end in ends if text.startswith(end, len(said))), None)
    return None if end is None else (end, text[len(said) + len(end) :])


def added_tokens(
    prompt: Sequence[int],
    so_far: Sequence[int],
    captured: Sequence[int],
    ends: frozenset[int],
) -> list[int] | None:
    """The tokens that a prompt adds to a captured turn, although it writes that turn otherwise.

    The chat template ends each reply with a stop token. Both renderings have to agree up to the
    last one of the earlier conversation; what follows it was added.

    Args:
        prompt: the new conversation, rendered and tokenized.
        so_far: the earlier one alone, with the reply, without the head of the next.
        captured: the tokens that the engine had: prompts and responses.
        ends: the model's stop ids.

    Returns:
        What follows `captured`; `None`: the template writes the earlier conversation differently
        now (it drops reasoning, for example), so the prompt continues nothing.
    """
    last = next((i for i in reversed(range(len(so_far))) if so_far[i] in ends), None)
    if last is None or list(prompt[: last + 1]) != list(so_far[: last + 1]):
        return None
    said_end = bool(captured) and captured[-1] in ends
    return list(prompt[last + 1 if said_end else last :]) or None
