"""Bodies as OpenAI's clients may write them, and others: the right answer or an error in OpenAI's
form that names a field, never a failure of the gateway, and nothing is left in the engine.

The fields are those of OpenAI's requests of chat completions and completions, and vLLM's. A field's
`neutral` values are its defaults there, written out: agents' frameworks send them.
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.seeds import drawn_seed

from assay.rollout.gateway.bodies import EndBody, SamplingDefaults, SessionBody

if TYPE_CHECKING:
    from tests.rollout.gateway.gateways import Gateway, RunGateway

CALLS = 150
AT_ONCE = 6
CHAT, COMPLETIONS = "chat/completions", "completions"
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
SAID = [{"role": "user", "content": "one"}]

NEUTRAL: dict[str, list[Any]] = {
    "frequency_penalty": [0, 0.0, None],
    "presence_penalty": [0, 0.0, None],
    "repetition_penalty": [1, 1.0],
    "logit_bias": [{}, None, {"5": 0}],
    "min_tokens": [0],
    "n": [1, None],
    "stop": [[], None],
    "stream": [False, None],
    "stream_options": [None],
    "temperature": [1, 1.0, None],
    "top_p": [1, 1.0, None],
    "user": ["", None],
    "metadata": [{}, None],
    "store": [False, None],
    "service_tier": ["auto", None],
    "prompt_cache_key": ["", None],
    "safety_identifier": ["", None],
}
NEUTRAL_OF_CHATS: dict[str, list[Any]] = {
    "logprobs": [False, None],
    "top_logprobs": [0, None],
    "tools": [[], None],
    "functions": [[], None],
    "function_call": ["none", "auto", None],
    "tool_choice": ["none", "auto", None],
    "parallel_tool_calls": [True, None],
    "modalities": [["text"], None],
    "response_format": [{"type": "text"}, None],
    "reasoning_effort": ["medium", None],
    "verbosity": ["medium", None],
    "prediction": [None],
    "audio": [None],
    "web_search_options": [None],
}
NEUTRAL_OF_COMPLETIONS: dict[str, list[Any]] = {
    "best_of": [1, None],
    "echo": [False, None],
    "logprobs": [None, 0],
    "suffix": [None],
}
OTHERS: dict[str, list[Any]] = {
    "messages": [
        [{"role": "user", "content": [{"type": "text", "text": "a"}]}],
        [{"role": "system", "content": "s"}, *SAID],
        [{"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]}],
        [*SAID, {"role": "tool", "content": "x", "tool_call_id": "1"}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}],
        [{"role": "user"}],
        [],
    ],
    "prompt": ["one", [1, 2], [[1, 2], [3]], ["a", "b"], "", []],
    "max_tokens": [1, 3, 0, 10**9],
    "max_completion_tokens": [1, 3, -1],
    "n": [2, 0, 65],
    "stream": [True],
    "stream_options": [{"include_usage": True}, {}],
    "logprobs": [True, 1, 5],
    "top_logprobs": [3],
    "temperature": [0, 0.5, 2, -1, 1e308],
    "top_p": [0.5, 0, 1.5],
    "top_k": [-1, 0, 5],
    "min_p": [0.1, 2],
    "stop": ["a", ["a", "b"], [""], "x" * 5_000],
    "tools": [[TOOL], [{"type": "custom"}], [{}]],
    "tool_choice": ["required", {"type": "function", "function": {"name": "add"}}],
    "response_format": [{"type": "json_object"}, {"type": "json_schema", "json_schema": {}}],
    "logit_bias": [{"5": 1}],
    "seed": [1, -1, 2**64],
    "return_token_ids": [True],
    "chat_template_kwargs": [{"add_generation_prompt": False}, {"messages": 1}, {"tools": "x"}],
    "model": ["other", "m" * 300],
    "no_such_field": [1],
}
WRONG: list[Any] = [
    None,
    True,
    -1,
    1e308,
    10**30,
    "",
    "\ud800",
    [],
    {},
    [[]],
    {"a": 1},
    ["a", None],
]
RAW = [
    "",
    "[",
    "[]",
    "null",
    '"x"',
    '{"a":NaN}',
    '{"a":' * 2_000,
    "1e999",
    '{"messages":' + "[" * 9,
]


def base(path: str) -> dict[str, Any]:
    return {"max_tokens": 2, **({"messages": SAID} if path == CHAT else {"prompt": "one"})}


def neutral_of(path: str) -> dict[str, list[Any]]:
    return {**NEUTRAL, **(NEUTRAL_OF_CHATS if path == CHAT else NEUTRAL_OF_COMPLETIONS)}


def drawn(rng: random.Random) -> tuple[str, str]:
    """A path and a body."""
    path = rng.choice([CHAT, COMPLETIONS])
    if rng.random() < 0.05:
        return path, rng.choice(RAW)
    body, neutral = base(path), neutral_of(path)
    for name in rng.sample(sorted({*neutral, *OTHERS}), rng.randrange(1, 6)):
        values = [*neutral.get(name, []), *OTHERS.get(name, [])]
        body[name] = rng.choice(values if rng.random() < 0.85 else WRONG)
    return path, json.dumps(body)


async def post(own: Gateway, session: dict[str, Any], path: str, body: str) -> tuple[int, str]:
    answer = await own.http.post(
        f"{session['base_url']}/{path}",
        content=body.encode(),
        headers={"content-type": "application/json"},
    )
    return answer.status_code, answer.text


def is_sound(status: int, text: str) -> bool:
    """An answer, or an error of the caller in OpenAI's form."""
    if status == 200:
        return '"error"' not in text
    error = json.loads(text)["error"]
    return (
        400 <= status < 500 and bool(error["message"]) and {"param", "code", "type"} <= set(error)
    )


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_defaults_that_are_written_out_change_nothing(
    run_gateway: RunGateway, path: str
) -> None:
    own = await run_gateway()
    session, made = await own.open(), set()
    for name, values in [("user", [None]), *neutral_of(path).items()]:
        for value in values:
            body = {**base(path), "seed": 7, "return_token_ids": True, name: value}
            status, text = await post(own, session, path, json.dumps(body))
            assert status == 200, (name, value, text)
            choice = json.loads(text)["choices"][0]
            made.add(json.dumps([choice["token_ids"], choice["finish_reason"]]))
    assert len(made) == 1


async def test_any_body_is_answered_or_refused_by_its_field(run_gateway: RunGateway) -> None:
    rng = random.Random(drawn_seed())
    own = await run_gateway()
    sessions = [await own.open() for _ in range(1 + CALLS // 100)]
    bodies = [drawn(rng) for _ in range(CALLS)]
    at_once = asyncio.Semaphore(AT_ONCE)

    async def one(path: str, body: str) -> str:
        async with at_once:
            status, text = await post(own, rng.choice(sessions), path, body)
        return "" if is_sound(status, text) else f"{path} {body[:300]}: {status} {text[:300]}"

    found = await asyncio.gather(*(one(path, body) for path, body in bodies))
    assert [one for one in found if one] == []
    async with asyncio.timeout(60):
        while own.runtime.stats().in_flight:
            await asyncio.sleep(0.01)
    assert own.runtime.audit() == 0
    body = json.dumps({**base(CHAT), "logprobs": True})
    status, text = await post(own, await own.open(), CHAT, body)
    assert status == 200, text


SESSION_FIELDS = sorted(set(SessionBody.model_fields) - {"pipeline"})
"""`pipeline` is a name at the reward service, which is not there."""


async def test_each_field_of_a_session_is_taken_or_refused_by_its_name(
    run_gateway: RunGateway,
) -> None:
    own = await run_gateway()
    bodies = [{name: one} for name in SESSION_FIELDS for one in [*WRONG, "x" * 5_000]]
    bodies += [{"sampling": {name: one}} for name in SamplingDefaults.model_fields for one in WRONG]
    bodies += [{"pipeline": one} for one in WRONG if not isinstance(one, str) and one is not None]
    for body in bodies:
        answer = await own.http.post(
            "/sessions", content=json.dumps(body), headers={"content-type": "application/json"}
        )
        if answer.status_code == 201:
            session_id = answer.json()["session_id"]
            assert (await own.http.delete(f"/sessions/{session_id}")).status_code == 200
            continue
        assert is_sound(answer.status_code, answer.text), (body, answer.text)
        named = answer.json()["error"]["param"]
        assert named == "body" or named.split(".")[0] in body, (body, answer.text)
    assert sum(own.sessions.counts().values()) == 0


async def test_each_field_of_an_end_is_taken_or_refused_by_its_name(
    run_gateway: RunGateway,
) -> None:
    own = await run_gateway()
    for name in EndBody.model_fields:
        for one in WRONG:
            session = await own.open()
            path = f"/sessions/{session['session_id']}"
            answer = await own.http.post(
                f"{path}/end",
                content=json.dumps({name: one}),
                headers={"content-type": "application/json"},
            )
            ended = answer.status_code == 200
            assert ended or is_sound(answer.status_code, answer.text), (name, one, answer.text)
            if not ended:
                assert answer.json()["error"]["param"].split(".")[0] in {"body", name}
            assert (await own.http.delete(path)).status_code == 200


async def test_an_odd_query_for_trajectories_is_refused_by_its_name(
    run_gateway: RunGateway,
) -> None:
    own = await run_gateway()
    session = await own.open()
    for query in ("wait_s=nan", "wait_s=-1", "wait_s=1e999", "layout=x", "columns=maybe"):
        odd = await own.http.get(f"/sessions/{session['session_id']}/trajectories?{query}")
        assert odd.status_code == 400, (query, odd.text)
        assert odd.json()["error"]["param"] == query.partition("=")[0]
