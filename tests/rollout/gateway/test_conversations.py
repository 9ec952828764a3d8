"""What identifies a conversation, what a prompt adds to it, and tool calls in text: pure parts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollout.gateway import models

from assay.rollout.gateway.history import added_tokens, plain, read, then
from assay.rollout.gateway.tool_calls import Form, Splitter, ToolCall, form_of, whole
from assay.rollout.models.tokenizer import PartEncoder

CALL = {"function": {"name": "add", "arguments": '{"a":2, "b":3}'}, "id": "x", "type": "function"}


def assistant(**fields: Any) -> dict[str, Any]:
    return plain({"role": "assistant", **fields})


@pytest.mark.parametrize(
    "other",
    [
        assistant(content="Hi there. "),
        assistant(content="\nHi there."),
        assistant(content=[{"type": "text", "text": "Hi "}, {"type": "text", "text": "there."}]),
        assistant(content="Hi there.", tool_calls=None, refusal=None, audio=None),
    ],
)
def test_what_was_said_counts_and_not_how_it_was_written(other: dict[str, Any]) -> None:
    assert then(b"", assistant(content="Hi there.")) == then(b"", other)


@pytest.mark.parametrize(
    "other",
    [
        assistant(content="Hi there!"),
        plain({"role": "user", "content": "Hi there."}),
        assistant(content="Hi there.", tool_calls=[CALL]),
    ],
)
def test_other_words_or_another_speaker_is_another_conversation(other: dict[str, Any]) -> None:
    assert then(b"", assistant(content="Hi there.")) != then(b"", other)


def test_tool_calls_are_compared_as_values() -> None:
    spaced = {**CALL, "id": "y", "function": {"name": "add", "arguments": '{"b":3,"a":2}'}}
    one, two = assistant(tool_calls=[CALL]), assistant(content="", tool_calls=[spaced])
    assert then(b"", one) == then(b"", two)
    other = {**CALL, "function": {"name": "add", "arguments": '{"a":2,"b":4}'}}
    assert then(b"", one) != then(b"", assistant(tool_calls=[other]))


def test_white_space_of_a_user_counts() -> None:
    one, two = ({"role": "user", "content": text} for text in ("a", "a "))
    assert read([one]).digests != read([two]).digests
    assert read([one], [{"name": "t"}]).digests != read([one]).digests
    assert read([one], None, {"enable_thinking": True}).digests != read([one]).digests


ARGUMENTS = st.sampled_from(['{"a": 1}', {"a": 1}, {"a": True}, {"a": 1.0}])
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["user", "assistant", "developer"]),
            "content": st.sampled_from(["a", "b", None, [{"type": "text", "text": "a"}]]),
        },
        optional={
            "tool_calls": st.lists(
                st.builds(
                    lambda arguments: {"function": {"name": "add", "arguments": arguments}},
                    ARGUMENTS,
                ),
                max_size=2,
            )
        },
    ),
    max_size=4,
)


@given(MESSAGES, MESSAGES, st.booleans())
def test_an_earlier_conversation_saves_work_and_changes_nothing(
    earlier: list[dict[str, Any]], later: list[dict[str, Any]], joined: bool
) -> None:
    later = earlier + later if joined else later
    for tools in (None, [{"name": "t"}]):
        fresh = read(later, tools)
        made = read(later, tools, last=read(earlier))
        assert made.digests == fresh.digests
        assert json.dumps(list(made.messages)) == json.dumps(list(fresh.messages))
        assert made.digests == [
            read(later[: count + 1], tools).digests[-1] for count in range(len(later))
        ]


# -- what a prompt adds ----------------------------------------------------------------------------
END = frozenset({9})


def test_only_the_new_messages_are_added_whatever_the_reply_was_tokenized_to() -> None:
    # Rendered: prompt 1 2, reply 3 4, its end 9, a line break 5; sampled: 34 for 3 4.
    so_far, prompt = [1, 2, 3, 4, 9, 5], [1, 2, 3, 4, 9, 5, 6, 7]
    assert added_tokens(prompt, so_far, [1, 2, 34, 9], END) == [5, 6, 7]
    assert added_tokens(prompt, so_far, [1, 2, 34], END) == [9, 5, 6, 7], "the end was not sampled"


def test_a_template_that_rewrites_what_was_said_continues_nothing() -> None:
    assert added_tokens([1, 2, 4, 9, 5, 6], [1, 2, 3, 4, 9, 5], [1, 2, 3, 4, 9], END) is None
    assert added_tokens([1, 2, 3], [1, 2], [1, 2], END) is None, "no end in the rendering"
    assert added_tokens([1, 9], [1, 9], [1, 9], END) is None, "nothing was added"


# -- tokens of parts -------------------------------------------------------------------------------
OWN = models.tokenizer()
TEXTS = st.lists(
    st.sampled_from([models.START, models.END, "user\n", " the sum ", "\n", "é", "<|im_", "x<"])
    | st.text(max_size=6),
    max_size=12,
).map("".join)


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_parts_that_come_again_are_encoded_as_the_whole_text(texts: list[str]) -> None:
    assert models.START in OWN.boundaries
    parts = PartEncoder(OWN)
    for n in range(len(texts)):
        text = "".join(texts[: n + 1])
        assert parts.encode(text) == OWN.encode(text)


# -- tool calls ------------------------------------------------------------------------------------
ADD = ToolCall("add", '{"a": 2}')
TAGGED = [
    ('<tool_call>\n{"name": "add", "arguments": {"a": 2}}\n</tool_call>', "", [ADD]),
    ('So: <tool_call>{"name": "add", "arguments": {"a": 2}}</tool_call>', "So: ", [ADD]),
    ('<tool_call>[{"name": "add", "arguments": {"a": 2}}]</tool_call>', "", [ADD]),
    ('<tool_call>{"name": "add", "arguments": "{\\"a\\": 2}"}</tool_call>', "", [ADD]),
    ("<tool_call>{not json}</tool_call> x", "<tool_call>{not json}</tool_call> x", []),
    ('<tool_call>{"name": 3}</tool_call>', '<tool_call>{"name": 3}</tool_call>', []),
    ('<tool_call>{"name": "cut', '<tool_call>{"name": "cut', []),
    ("a <tool and <tool_ca", "a <tool and <tool_ca", []),
    ("", "", []),
]


@pytest.mark.parametrize(("text", "said", "calls"), TAGGED)
def test_tagged_calls(text: str, said: str, calls: list[ToolCall]) -> None:
    assert whole(text, Form.TAGGED) == (said, calls)


@pytest.mark.parametrize(
    ("text", "said", "calls"),
    [
        ('{"name": "add", "parameters": {"a": 2}}', "", [ADD]),
        ('{"sum": 5}', '{"sum": 5}', []),
        ("The sum is {5}.", "The sum is {5}.", []),
    ],
)
def test_bare_calls(text: str, said: str, calls: list[ToolCall]) -> None:
    assert whole(text, Form.BARE) == (said, calls)


PIECES = st.lists(
    st.sampled_from(
        ["<tool_call>", "</tool_call>", "<tool", "{", '{"name": "f", "arguments": {}}', "x", "<"]
    ),
    max_size=8,
).map("".join)


@given(PIECES, st.sampled_from([None, *Form]), st.data())
def test_streamed_pieces_add_up_to_the_whole(text: str, form: Form | None, data: Any) -> None:
    splitter, said, calls, at = Splitter(form), "", [], 0
    pieces: list[str | ToolCall] = []
    while at < len(text):
        n = data.draw(st.integers(1, 5))
        pieces += splitter.push(text[at : at + n])
        at += n
    for piece in [*pieces, *splitter.flush()]:
        if isinstance(piece, str):
            said += piece
        else:
            calls.append(piece)
    assert (said, calls) == whole(text, form)
    if not calls:
        assert said == text


def test_the_template_tells_the_form() -> None:
    assert form_of("{{ tools }} <tool_call>") is Form.TAGGED
    assert form_of('{% if tools %}{"name": ..., "parameters": ...}{% endif %}') is Form.BARE
    assert form_of("{{ messages }}") is None


def test_arguments_that_are_no_json_stay_text() -> None:
    made = assistant(tool_calls=[{"function": {"name": "f", "arguments": "{oops"}}])
    assert made["tool_calls"][0]["function"]["arguments"] == "{oops"
    assert json.dumps(made)
