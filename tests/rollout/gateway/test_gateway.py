"""Agents' calls over real HTTP, with a real engine, reward API and store."""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prometheus_client import generate_latest
from tests import certificates
from tests.rollout.gateway import models
from tests.rollout.gateway.gateways import SLOTS, Gateway, RunGateway

from assay.client import Batch
from assay.config.access import TenantSettings
from assay.core.codec import pack_body
from assay.core.ids import TenantId
from assay.core.outcome import Outcome
from assay.core.records import EndRequest, Finish
from assay.core.trajectory import unpack
from assay.core.verdict import Evidence, ResourceUse
from assay.rollout import ProbeEngine
from assay.rollout.gateway.bodies import AgentCompletionBody, ChatBody, EndBody
from assay.rollout.models import Engine, tensors_of
from assay.rollout.models.driver import Driver, TokenSampling

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.running import Running, RunWorker

    from assay.core.records import Claim
    from assay.rollout import Completed

S_MAX = 60.0
STEP_NS = 2_000_000
TOO_LONG = {"messages": [{"role": "user", "content": "a" * 1_000}]}
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]


async def until(reached: Any) -> None:
    async with asyncio.timeout(S_MAX):
        while not reached():
            await asyncio.sleep(0.01)


async def events(own: Gateway, session: dict[str, Any], **body: Any) -> list[dict[str, Any]]:
    """The events of a streamed chat completion."""
    return [event async for event in streamed(own, session, **body)]


async def streamed(
    own: Gateway, session: dict[str, Any], **body: Any
) -> AsyncIterator[dict[str, Any]]:
    url = f"{session['base_url']}/chat/completions"
    async with own.http.stream("POST", url, json={**body, "stream": True}) as answer:
        assert answer.status_code == 200
        lines = [line async for line in answer.aiter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    for line in lines[:-1]:
        yield json.loads(line.removeprefix("data: "))


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


# -- tokens ----------------------------------------------------------------------------------------
async def test_every_turn_has_the_engines_own_tokens_and_log_probs(
    run_gateway: RunGateway,
) -> None:
    own = await run_gateway()
    turns: list[tuple[list[int], list[int], list[float], int]] = []

    async def agent(number: int) -> None:
        session = await own.open(seed=1000 * number, sampling={"temperature": 0.8})
        said = [f"question {number}"]
        for turn in range(4):
            answer = await own.chat(
                session, *said, max_tokens=8, return_token_ids=True, logprobs=True
            )
            [choice] = answer["choices"]
            logps = [one["logprob"] for one in choice["logprobs"]["content"]]
            seed = 1000 * number + turn
            turns.append((answer["prompt_token_ids"], choice["token_ids"], logps, seed))
            said += [choice["message"]["content"], "next"]
        read = await own.read(session)
        [one] = read["trajectories"]
        assert read["counts"]["joined"] == 3
        whole = one["prompt_ids"] + one["response_ids"]
        mine = [turn for turn in turns if turn[3] // 1000 == number]
        for prompt, ids, logps, _ in mine:
            assert whole[: len(prompt)] == prompt
            assert whole[len(prompt) : len(prompt) + len(ids)] == ids
            at = len(prompt) - len(one["prompt_ids"])
            assert one["rollout_logp"][at : at + len(ids)] == logps
            assert one["response_mask"][at : at + len(ids)] == [1] * len(ids)
        assert sum(one["response_mask"]) == sum(len(ids) for _, ids, _, _ in mine)

    await asyncio.gather(*(agent(number) for number in range(10)))
    assert len(turns) == 40
    with Engine.create(models.random(), own.engine.settings) as alone:
        driver = Driver(alone, 1024)
        for prompt, ids, logps, seed in turns:
            sampling = TokenSampling(temperature=0.8, seed=seed)
            rollout = driver.new(len(prompt) + len(ids), sampling)
            driver.prefill(rollout, prompt[:-1], 16)
            made, scores = driver.decode([rollout], [prompt[-1]], len(ids))
            assert [int(token) for token in made[:, 0]] == ids
            assert [float(score) for score in scores[:, 0]] == pytest.approx(logps, abs=1e-5)


async def test_a_reply_that_tokenizes_otherwise_keeps_the_sampled_ids(
    run_gateway: RunGateway,
) -> None:
    own = await run_gateway()
    session = await own.open(seed=1)
    first = await own.chat(session, "a", max_tokens=8, return_token_ids=True)
    text = first["choices"][0]["message"]["content"]
    assert own.tokenizer.encode(text) != first["choices"][0]["token_ids"], "random bytes"
    second = await own.chat(session, "a", text, "b", max_tokens=8, return_token_ids=True)
    kept = first["prompt_token_ids"] + first["choices"][0]["token_ids"]
    assert second["prompt_token_ids"][: len(kept)] == kept
    counts = (await own.read(session))["counts"]
    assert counts == {"started": 1, "joined": 1, "forked": 0, "drifted": 1, "released": 0}


async def test_an_edited_conversation_starts_anew_and_a_second_try_forks(
    run_gateway: RunGateway,
) -> None:
    own = await run_gateway()
    session = await own.open(seed=1)
    text = (await own.chat(session, "a", max_tokens=6))["choices"][0]["message"]["content"]
    await own.chat(session, "a", text, "b", max_tokens=6)
    await own.chat(session, "a", text, "other", max_tokens=6)
    await own.chat(session, "a", "not what it said", "b", max_tokens=6)
    read = await own.read(session)
    assert [one["turns"][-1]["how"] for one in read["trajectories"]] == [
        "joined",
        "forked",
        "started",
    ]
    fork = read["trajectories"][1]
    assert fork["parent"]["trajectory"] == 0
    assert sum(fork["response_mask"]) == len(fork["response_mask"]) == 6


def counted(own: Gateway) -> dict[str, float]:
    """What the metrics page says of the gateway, without the zeros."""
    lines = generate_latest(own.metrics.registry).decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if line.startswith("assay_gateway_"))
    return {
        name: float(value)
        for name, value in values.items()
        if float(value) and "_created" not in name
    }


async def test_metrics_count_sessions_turns_and_drift(run_gateway: RunGateway) -> None:
    own = await run_gateway()
    session, other = await own.open(seed=1), await own.open()
    text = (await own.chat(session, "a", max_tokens=6))["choices"][0]["message"]["content"]
    await own.chat(session, "a", text, "b", max_tokens=6)
    await own.chat(session, "a", text, "other", max_tokens=6)
    refused = await own.http.post(f"{other['base_url']}/chat/completions", json=TOO_LONG)
    assert refused.status_code == 400
    await own.http.post(f"/sessions/{other['session_id']}/end")
    counts = (await own.read(session))["counts"]
    expected = {
        'assay_gateway_sessions{state="open"}': 1.0,
        'assay_gateway_sessions{state="ended"}': 1.0,
        'assay_gateway_turns_total{how="started"}': 1.0,
        'assay_gateway_turns_total{how="joined"}': 1.0,
        'assay_gateway_turns_total{how="forked"}': 1.0,
        'assay_gateway_turns_total{how="released"}': 1.0,
        "assay_gateway_drifted_total": float(counts["drifted"]),
    }
    assert counts["drifted"]
    await until(lambda: counted(own) == expected)


async def test_several_responses_to_one_prompt_are_trajectories_of_their_own(
    run_gateway: RunGateway,
) -> None:
    own = await run_gateway()
    session = await own.open(seed=1)
    answer = await own.chat(session, "a", n=3, max_tokens=6, return_token_ids=True)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    ids = [choice["token_ids"] for choice in answer["choices"]]
    assert ids[0] != ids[1] != ids[2]
    read = await own.read(session)
    assert [one["response_ids"] for one in read["trajectories"]] == ids
    said = answer["choices"][1]["message"]["content"]
    await own.chat(session, "a", said, "b", max_tokens=6)
    assert [len(one["turns"]) for one in (await own.read(session))["trajectories"]] == [1, 2, 1]


async def test_the_binary_layout_holds_the_same_columns(run_gateway: RunGateway) -> None:
    own = await run_gateway()
    session = await own.open(seed=1)
    said = (await own.chat(session, "a", max_tokens=6))["choices"][0]["message"]["content"]
    await own.chat(session, "a", said, "b", max_tokens=6)
    await own.chat(session, "c", max_tokens=6)
    shown = (await own.read(session))["trajectories"]
    path = f"/sessions/{session['session_id']}/trajectories"
    packed = await own.http.get(path, params={"layout": "packed"})
    found = unpack(packed.content)
    assert len(found) == 2
    for tokens, one in zip(found, shown, strict=True):
        assert tokens.prompt_ids.tolist() == one["prompt_ids"]
        assert tokens.response_ids.tolist() == one["response_ids"]
        assert tokens.response_mask.tolist() == one["response_mask"]
        assert tokens.rollout_logp.tolist() == one["rollout_logp"]
        assert [list(run) for run in tokens.versions] == one["versions"]
    light = await own.read(session, columns=False)
    assert "response_ids" not in light["trajectories"][0]


async def test_completions_of_text_and_of_ids_are_joined(run_gateway: RunGateway) -> None:
    own = await run_gateway()
    session = await own.open(seed=1)
    first = await own.complete(session, prompt=[5, 6, 7], max_tokens=6, return_token_ids=True)
    ids = first["choices"][0]["token_ids"]
    await own.complete(session, prompt=[5, 6, 7, *ids, 8], max_tokens=6)
    text = await own.complete(session, prompt="the sum", max_tokens=6, logprobs=1)
    assert len(text["choices"][0]["logprobs"]["token_logprobs"]) == 6
    said = "the sum" + text["choices"][0]["text"]
    await own.complete(session, prompt=said + " more", max_tokens=6)
    read = await own.read(session)
    assert [len(one["turns"]) for one in read["trajectories"]] == [2, 2]


async def test_null_is_as_absent_as_openais_clients_mean_it(run_gateway: RunGateway) -> None:
    own = await run_gateway()
    for body, kind in ((ChatBody, "chat/completions"), (AgentCompletionBody, "completions")):
        session = await own.open(seed=1)
        given = {"messages": user("a")} if body is ChatBody else {"prompt": "a"}
        nulls = dict.fromkeys(body.model_fields.keys() - given.keys() - {"max_tokens"})
        url = f"{session['base_url']}/{kind}"
        answers = [
            await own.http.post(url, json={**given, **more, "max_tokens": 3})
            for more in ({}, nulls)
        ]
        assert [answer.status_code for answer in answers] == [200, 200], answers[1].text
        whole = await own.http.post(url, json={**nulls, "max_tokens": 3})
        assert whole.json()["error"]["param"] == next(iter(given))


async def test_tokens_carry_the_version_that_made_them(run_gateway: RunGateway) -> None:
    own = await run_gateway()
    session = await own.open(seed=1)
    said = (await own.chat(session, "a", max_tokens=6))["choices"][0]["message"]["content"]
    own.engine.stage(7, tensors_of(models.random()))
    await asyncio.to_thread(own.runtime.activate, 7)
    await own.chat(session, "a", said, "b", max_tokens=6)
    [one] = (await own.read(session))["trajectories"]
    assert [version for version, _ in one["versions"]] == [0, -1, 7]


# -- answers ---------------------------------------------------------------------------------------
async def test_streaming_equals_not_streaming(run_gateway: RunGateway) -> None:
    own = await run_gateway()
    ask = {"max_tokens": 24, "logprobs": True, "return_token_ids": True, "n": 2}
    whole = await own.chat(await own.open(seed=9), "hello", **ask)
    session = await own.open(seed=9)
    found = await events(
        own, session, messages=user("hello"), stream_options={"include_usage": True}, **ask
    )
    assert found[-1]["usage"] == whole["usage"]
    assert found[0]["prompt_token_ids"] == whole["prompt_token_ids"]
    for choice in whole["choices"]:
        parts = [
            part for event in found for part in event["choices"] if part["index"] == choice["index"]
        ]
        said = "".join(part["delta"].get("content", "") for part in parts)
        assert said == choice["message"]["content"]
        assert [t for part in parts for t in part["token_ids"]] == choice["token_ids"]
        logps = [one for part in parts for one in part["logprobs"]["content"]]
        assert logps == choice["logprobs"]["content"]
        assert parts[-1]["finish_reason"] == choice["finish_reason"]
        assert parts[0]["delta"]["role"] == "assistant"
    assert len((await own.read(session))["trajectories"]) == 2


async def test_tool_calls_are_parsed_and_their_conversation_is_joined(
    run_gateway: RunGateway,
) -> None:
    own = await run_gateway(
        models.scripted(models.TOOL_SCRIPT, models.tokenizer()), tokens_max=4096
    )
    session = await own.open(sampling={"temperature": 0.0})
    messages = user("2 + 3")
    answer = await own.complete(session, messages=messages, tools=TOOLS)
    [choice] = answer["choices"]
    assert choice["finish_reason"] == "tool_calls"
    [call] = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "add"
    assert json.loads(call["function"]["arguments"]) == {"a": 2, "b": 3}
    again = {**call, "function": {"name": "add", "arguments": '{"a":2,"b":3}'}}
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [again]},
        {"role": "tool", "tool_call_id": call["id"], "content": "5"},
    ]
    found = await events(own, session, messages=messages, tools=TOOLS)
    deltas = [choice["delta"] for event in found for choice in event["choices"]]
    [last] = [one for delta in deltas for one in delta.get("tool_calls", [])]
    assert (last["index"], last["function"]["name"]) == (0, "final_answer")
    read = await own.read(session)
    assert read["counts"]["joined"] == read["counts"]["drifted"] == 1
    [one] = read["trajectories"]
    script = "".join(models.TOOL_SCRIPT[models.REPLY])
    own_part = one["response_ids"][: one["segments"][0][1]]
    assert own.tokenizer.decode(own_part) == script


async def test_a_required_call_is_opened_for_the_model_and_not_trained(
    run_gateway: RunGateway,
) -> None:
    own = await run_gateway(models.scripted(models.TOOL_SCRIPT, models.tokenizer()))
    session = await own.open(sampling={"temperature": 0.0})
    ask = {"messages": user("2"), "tools": [{"type": "function"}], "tool_choice": "required"}
    [choice] = (await own.complete(session, **ask))["choices"]
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "add"
    [one] = (await own.read(session))["trajectories"]
    opened = own.tokenizer.encode("<tool_call>")
    assert one["prompt_ids"][-1:] == opened
    assert own.tokenizer.decode(one["response_ids"]) == models.CALL + "</tool_call>"
    found = await events(own, session, **ask)
    calls = [c for e in found for part in e["choices"] for c in part["delta"].get("tool_calls", [])]
    assert [call["function"] for call in calls] == [choice["message"]["tool_calls"][0]["function"]]


async def test_without_tools_a_call_is_text(run_gateway: RunGateway) -> None:
    own = await run_gateway(models.scripted(models.TOOL_SCRIPT, models.tokenizer()))
    session = await own.open(sampling={"temperature": 0.0})
    [choice] = (await own.chat(session, "2 + 3"))["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"] == "".join(models.TOOL_SCRIPT[models.REPLY])


async def test_a_stop_string_ends_the_text_and_stays_in_the_tokens(
    run_gateway: RunGateway,
) -> None:
    own = await run_gateway(models.scripted(models.TEXT_SCRIPT, models.tokenizer()))
    session = await own.open(sampling={"temperature": 0.0})
    [choice] = (await own.chat(session, "2 + 3", stop=["5."]))["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("The sum is ", "stop")
    [one] = (await own.read(session))["trajectories"]
    assert own.tokenizer.decode(one["response_ids"]) == "The sum is 5."
    found = await events(own, session, messages=user("2 + 3"), stop="5.")
    said = [choice["delta"].get("content", "") for e in found for choice in e["choices"]]
    assert "".join(said) == "The sum is "


async def test_the_sessions_sampling_fills_in_or_overrides(run_gateway: RunGateway) -> None:
    own = await run_gateway()
    greedy = {"temperature": 0.0, "max_tokens": 5}

    async def tokens(session: dict[str, Any], **body: Any) -> list[int]:
        answer = await own.chat(session, "a", return_token_ids=True, **body)
        made: list[int] = answer["choices"][0]["token_ids"]
        return made

    base = await tokens(await own.open(seed=1), **greedy)
    assert await tokens(await own.open(seed=2, sampling=greedy)) == base
    filled = await tokens(await own.open(seed=3, sampling=greedy), temperature=1.5, max_tokens=7)
    assert (len(filled), filled[:5] == base) == (7, False)
    forced = await own.open(seed=4, sampling=greedy, override_sampling=True)
    assert await tokens(forced, temperature=1.5, max_completion_tokens=7) == base


# -- callers that go, engines that fail, too much --------------------------------------------------
async def test_a_caller_that_disconnects_frees_its_rollouts(run_gateway: RunGateway) -> None:
    probe = ProbeEngine(vocab_size=models.VOCAB, spin_ns=STEP_NS)
    own = await run_gateway(probe=probe, tokens_max=4096)
    session = await own.open()
    url = f"{session['base_url']}/chat/completions"
    body = {"messages": user("a"), "max_tokens": 4000, "n": 3, "ignore_eos": True}
    for streaming in (True, False):
        async with httpx.AsyncClient(timeout=60.0) as leaving:
            call = asyncio.create_task(leaving.post(url, json={**body, "stream": streaming}))
            await until(lambda: own.runtime.stats().in_flight == 3)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        await until(lambda: own.runtime.stats().in_flight == 0)
    await until(lambda: own.runtime.stats().slots_free == SLOTS)
    read = await own.read(session)
    assert (read["counts"]["released"], read["trajectories"]) == (6, [])


async def test_a_connection_without_a_call_is_kept_as_long_as_the_setting_says(
    run_gateway: RunGateway,
) -> None:
    for keep_alive_s, calls in ((0, 1), (3_600, 2)):
        own = await run_gateway(limits={"keep_alive_s": keep_alive_s})
        reader, writer = await asyncio.open_connection(*own.url.removeprefix("http://").split(":"))
        answered = 0
        async with asyncio.timeout(60.0):
            for _ in range(calls):
                writer.write(b"GET /sessions/none HTTP/1.1\r\nHost: gateway\r\n\r\n")
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = head.split("content-length:")[1].split()[0]
                answered += bool(await reader.readexactly(int(length)))
                await asyncio.sleep(0.05)  # the gateway's timer of 0 s runs on this loop
            assert answered == calls
            if keep_alive_s == 0:
                with suppress(ConnectionError):
                    writer.write(b"GET /sessions/none HTTP/1.1\r\nHost: gateway\r\n\r\n")
                    assert await reader.read() == b""
        writer.close()


async def test_a_session_that_ends_or_closes_ends_its_turns(run_gateway: RunGateway) -> None:
    probe = ProbeEngine(vocab_size=models.VOCAB, spin_ns=STEP_NS)
    own = await run_gateway(probe=probe, tokens_max=4096)
    for how in ("end", "delete"):
        session = await own.open()
        url = f"{session['base_url']}/chat/completions"
        body = {"messages": user("a"), "max_tokens": 4000, "ignore_eos": True}
        call = asyncio.create_task(own.http.post(url, json=body))
        await until(lambda: own.runtime.stats().in_flight == 1)
        place = f"/sessions/{session['session_id']}"
        await (own.http.post(f"{place}/end") if how == "end" else own.http.delete(place))
        answer = await call
        assert (answer.status_code, answer.json()["error"]["param"]) == (409, "session_id")
        await until(lambda: own.runtime.stats().in_flight == 0)
        later = await own.http.post(url, json=body)
        assert later.status_code == (409 if how == "end" else 404)


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_session_that_ends_before_its_turn_is_captured_has_no_such_turn(
    run_gateway: RunGateway, monkeypatch: pytest.MonkeyPatch, streaming: bool
) -> None:
    own = await run_gateway()
    session = await own.open()
    opened = own.sessions.find(TenantId("default"), session["session_id"])
    tickets = own.sessions._turns.tickets
    ended = tickets.ended

    def then_end(completed: Completed) -> None:
        ended(completed)
        own.sessions.end(opened, EndBody())

    monkeypatch.setattr(tickets, "ended", then_end)
    body = {"messages": user("a"), "max_tokens": 4, "stream": streaming}
    before_ns = opened.used_ns
    answer = await own.http.post(f"{session['base_url']}/chat/completions", json=body)
    assert "the session has ended" in answer.text
    assert opened.used_ns > before_ns
    read = await own.read(session)
    assert (read["counts"]["released"], read["trajectories"]) == (1, [])


async def test_a_long_turn_leaves_its_session_in_use(run_gateway: RunGateway) -> None:
    probe = ProbeEngine(vocab_size=models.VOCAB, spin_ns=STEP_NS)
    own = await run_gateway(probe=probe)
    session = await own.open()
    opened = own.sessions.find(TenantId("default"), session["session_id"])
    turn = asyncio.create_task(own.chat(session, "a", max_tokens=40, ignore_eos=True))
    await until(lambda: opened.running)
    during_ns = opened.used_ns
    await turn
    assert opened.used_ns > during_ns


async def test_turns_wait_for_room_and_are_refused_when_too_many_wait(
    run_gateway: RunGateway,
) -> None:
    probe = ProbeEngine(vocab_size=models.VOCAB, spin_ns=STEP_NS)
    limits = {"turns_concurrent_max": 3, "turn_wait_s": 0.3}
    own = await run_gateway(probe=probe, tokens_max=4096, slots=1, limits=limits)
    session = await own.open()
    url = f"{session['base_url']}/chat/completions"
    body = {"messages": user("a"), "max_tokens": 4000, "ignore_eos": True}
    long = asyncio.create_task(own.http.post(url, json=body))
    await until(lambda: own.runtime.stats().in_flight == 1)
    waiting = [asyncio.create_task(own.http.post(url, json=body)) for _ in range(5)]
    refused = await asyncio.gather(*waiting)
    for answer in refused:
        error = answer.json()["error"]
        assert (answer.status_code, error["type"], error["code"]) == (429, "saturated", "saturated")
        assert float(answer.headers["retry-after"]) > 0
    assert "no room" in "".join(answer.text for answer in refused)
    long.cancel()
    await asyncio.gather(long, return_exceptions=True)
    await until(lambda: own.runtime.stats().in_flight == 0)
    short = await own.chat(session, "a", max_tokens=2, ignore_eos=True)
    assert short["usage"]["completion_tokens"] == 2


async def test_an_engine_that_fails_is_no_answer(run_gateway: RunGateway) -> None:
    probe = ProbeEngine(vocab_size=models.VOCAB, spin_ns=STEP_NS)
    own = await run_gateway(probe=probe, tokens_max=4096)
    session = await own.open()
    url = f"{session['base_url']}/chat/completions"
    body = {"messages": user("a"), "max_tokens": 4000, "ignore_eos": True}
    call = asyncio.create_task(own.http.post(url, json=body))
    await until(lambda: own.runtime.stats().in_flight == 1)
    probe.probe.fail_at_step = 1
    answer = await call
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "dependency_down")
    read = await own.read(session)
    assert (read["counts"]["released"], read["trajectories"]) == (1, [])
    assert (await own.http.post(url, json=body)).status_code == 503


async def test_limits_of_a_session_and_of_the_gateway(run_gateway: RunGateway) -> None:
    limits = {"sessions_max": 2, "turns_max": 2, "idle_s_max": 1e-6}
    own = await run_gateway(limits=limits)
    session, _ = await own.open(), await own.open()
    full = await own.http.post("/sessions", json={})
    assert (full.status_code, full.json()["error"]["code"]) == (429, "saturated")
    await own.chat(session, "a", max_tokens=2, n=2)
    url = f"{session['base_url']}/chat/completions"
    third = await own.http.post(url, json={"messages": user("a")})
    assert third.status_code == 413  # waiting does not help, and clients repeat a 429
    assert "turns_max" in third.json()["error"]["message"]
    assert own.sessions.close_idle() == 2
    assert (await own.http.post(url, json={"messages": user("a")})).status_code == 404
    await own.open()

    small = await run_gateway(limits={"session_bytes_max": 100})
    session = await small.open()
    await small.chat(session, "a", max_tokens=2)
    url = f"{session['base_url']}/chat/completions"
    more = await small.http.post(url, json={"messages": user("a")})
    assert (more.status_code, more.json()["error"]["code"]) == (413, "too_large")
    assert "session_bytes_max" in more.json()["error"]["message"]


async def test_a_session_whose_turn_is_running_is_not_idle(run_gateway: RunGateway) -> None:
    own = await run_gateway(limits={"idle_s_max": 1e-6})
    session = await own.open()
    with own.runtime.pause():
        call = asyncio.create_task(own.chat(session, "a", max_tokens=2))
        await until(lambda: own.runtime.stats().in_flight == 1)
        assert own.sessions.close_idle() == 0
    await call
    assert own.sessions.close_idle() == 1


async def test_a_text_that_cannot_fit_is_refused_by_its_field(run_gateway: RunGateway) -> None:
    own = await run_gateway()
    session = await own.open()
    long = "a " * 100_000
    bodies: dict[str, dict[str, Any]] = {
        "chat/completions": {"messages": user(long)},
        "completions": {"prompt": long},
    }
    for path, body in bodies.items():
        answer = await own.http.post(f"{session['base_url']}/{path}", json=body)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (413, "too_large")
        assert error["param"] == next(iter(body))


# -- bad input -------------------------------------------------------------------------------------
BAD_CALLS: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "robot", "content": "a"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "content[0]"),
    ({"messages": user("a"), "temperature": -1.0}, "temperature"),
    ({"messages": user("a"), "temperature": "nan"}, "temperature"),
    ({"messages": user("a"), "top_p": 0}, "top_p"),
    ({"messages": user("a"), "n": 0}, "n"),
    ({"messages": user("a"), "n": SLOTS + 1}, "n"),
    ({"messages": user("a"), "max_tokens": 0}, "max_tokens"),
    ({"messages": user("a"), "stop": [""]}, "stop"),
    ({"messages": user("a"), "stop_token_ids": [1 << 20]}, "stop_token_ids"),
    ({"messages": user("a"), "tool_choice": {"type": "function"}}, "tool_choice"),
    ({"messages": user("a"), "response_format": {"type": "json_object"}}, "response_format"),
    ({"messages": user("a"), "top_logprobs": 5}, "top_logprobs"),
    ({"messages": user("a"), "seed": 1 << 70}, "seed"),
    ({"messages": user("a"), "no_such_field": 1}, "no_such_field"),
    ({"messages": user("x" * 600)}, "messages"),
]


@pytest.mark.parametrize(("body", "field"), BAD_CALLS)
async def test_a_bad_call_names_its_field_and_leaves_no_turn(
    run_gateway: RunGateway, body: dict[str, Any], field: str
) -> None:
    own = await run_gateway()
    session = await own.open()
    answer = await own.http.post(f"{session['base_url']}/chat/completions", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"]) == (400, "invalid_request_error"), error
    assert field in error["param"]
    assert (await own.read(session))["trajectories"] == []
    assert own.runtime.stats().in_flight == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"session_id": "a b"}, "session_id"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"sampling": {"temperature": -1}}, "sampling.temperature"),
        ({"sampling": {"stop_token_ids": [1 << 20]}}, "sampling.stop_token_ids"),
        ({"group_size": 0}, "group_size"),
        ({"pipelin": "math"}, "pipelin"),
    ],
)
async def test_a_bad_session_names_its_field(
    run_gateway: RunGateway, body: dict[str, Any], field: str
) -> None:
    own = await run_gateway()
    answer = await own.http.post("/sessions", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)


async def test_what_is_not_there_has_openais_form_too(run_gateway: RunGateway) -> None:
    own = await run_gateway()
    session = await own.open(session_id="mine")
    for path in ("/sessions/other/v1/models", f"{session['base_url']}/embeddings"):
        answer = await own.http.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"]["type"] == "not_found_error"
    again = await own.http.post("/sessions", json={"session_id": "mine"})
    assert (again.status_code, again.json()["error"]["param"]) == (409, "session_id")
    no_json = await own.http.post(f"{session['base_url']}/chat/completions", content=b"{")
    assert (no_json.status_code, no_json.json()["error"]["param"]) == (400, "body")


# -- who may call ----------------------------------------------------------------------------------
async def test_over_tls_only(run_gateway: RunGateway, tmp_path: Path) -> None:
    certificate, key = certificates.certificate(tmp_path)
    trusted = ssl.create_default_context(cafile=str(certificate))
    own = await run_gateway(tls_certificate=certificate, tls_key=key, trusted=trusted)
    session = await own.open(seed=1)
    assert session["base_url"].startswith("https://"), "what the agent is given"
    assert (await own.chat(session, "of", max_tokens=2))["usage"]["completion_tokens"] > 0
    async with httpx.AsyncClient() as http:
        with pytest.raises(httpx.TransportError):
            await http.post(own.url.replace("https://", "http://") + "/sessions", json={})


def tenant(token: str) -> TenantSettings:
    digest = hashlib.sha256(token.encode()).hexdigest()
    return TenantSettings.model_validate({"token_sha256": digest})


async def test_a_tenant_sees_its_own_sessions_and_an_agent_only_one(
    run_gateway: RunGateway,
) -> None:
    own = await run_gateway(tenants={"a": tenant("token-a"), "b": tenant("token-b")})

    def key(text: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {text}"}

    async def status(method: str, url: str, shown: str) -> int:
        answer = await own.http.request(method, url, headers=key(shown))
        if answer.status_code >= 400:
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
        return answer.status_code

    made = await own.http.post("/sessions", json={}, headers=key("token-a"))
    other = (await own.http.post("/sessions", json={}, headers=key("token-a"))).json()
    session = made.json()
    place, models_url = f"/sessions/{session['session_id']}", f"{session['base_url']}/models"
    assert await status("GET", models_url, session["api_key"]) == 200
    assert await status("GET", models_url, "token-a") == 200
    assert await status("GET", models_url, other["api_key"]) == 401
    assert await status("GET", models_url, "token-b") == 404
    assert await status("GET", models_url, "nonsense") == 401
    assert await status("GET", place, session["api_key"]) == 401
    assert await status("DELETE", place, session["api_key"]) == 401
    assert await status("POST", "/sessions", session["api_key"]) in {400, 401, 422}
    assert await status("DELETE", place, "token-a") == 200
    assert await status("GET", models_url, session["api_key"]) == 401


# -- rewards ---------------------------------------------------------------------------------------
def of_its_length(claim: Claim) -> Finish:
    """A reward that says which text was judged, and in which batch."""
    evidence = Evidence(verdict=f"{claim.batch_id} {len(claim.response)}")
    body = pack_body(evidence, ResourceUse())
    return EndRequest(outcome=Outcome.SCORED, reward=float(len(claim.response)), body=body)


async def test_a_session_gets_one_reward_for_its_last_answer(
    run_gateway: RunGateway, api: Running, run_worker: RunWorker
) -> None:
    await run_worker(of_its_length)
    own = await run_gateway(
        models.scripted(models.TEXT_SCRIPT, models.tokenizer()), reward_url=api.addresses.grpc
    )
    session = await own.open(
        pipeline="noop", reference={}, deadline_s=60, sampling={"temperature": 0}
    )
    await own.chat(session, "2 + 3")
    place = f"/sessions/{session['session_id']}"
    state = (await own.http.post(f"{place}/end")).json()
    assert state["state"] in {"judging", "ended"}
    read = await own.read(session, wait_s=S_MAX)
    assert (read["state"], read["outcome"]) == ("ended", "SCORED")
    assert read["reward"] == len("The sum is 5. Bye.")
    assert (await own.http.post(f"{place}/end")).json()["reward"] == read["reward"]

    given = await own.open(pipeline="noop", sampling={"temperature": 0})
    await own.chat(given, "2 + 3")
    await own.http.post(f"/sessions/{given['session_id']}/end", json={"response": "5"})
    assert (await own.read(given, wait_s=S_MAX))["reward"] == 1.0


async def test_sessions_of_one_group_are_one_batch(
    run_gateway: RunGateway, api: Running, run_worker: RunWorker
) -> None:
    await run_worker(of_its_length)
    own = await run_gateway(reward_url=api.addresses.grpc)
    group = [await own.open(pipeline="noop", group_id="g", group_size=3, seed=i) for i in range(3)]
    for session in group[:2]:
        await own.chat(session, "a", max_tokens=4)
    for session in group:
        await own.http.post(f"/sessions/{session['session_id']}/end")
    reads = [await own.read(session, wait_s=S_MAX) for session in group]
    assert [read["outcome"] for read in reads] == ["SCORED", "SCORED", "CANCELLED"]
    batches = {read["evidence"]["verdict"].split()[0] for read in reads[:2]}
    assert len(batches) == 1
    assert reads[2]["reward"] is None


async def test_a_session_of_a_group_that_is_being_judged_disturbs_no_other(
    run_gateway: RunGateway, api: Running, run_worker: RunWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed, seal = asyncio.Event(), Batch.seal

    async def seals(batch: Batch) -> object:
        status = await seal(batch)
        sealed.set()
        return status

    monkeypatch.setattr(Batch, "seal", seals)
    own = await run_gateway(reward_url=api.addresses.grpc)
    ended = []
    for _ in range(2):
        session = await own.open(pipeline="noop", group_id="g", group_size=1)
        await own.chat(session, "a", max_tokens=4)
        await own.http.post(f"/sessions/{session['session_id']}/end")
        async with asyncio.timeout(S_MAX):
            await sealed.wait()
        ended.append(session)
    await run_worker(of_its_length)
    reads = [await own.read(session, wait_s=S_MAX) for session in ended]
    assert [read["outcome"] for read in reads] == ["SCORED", "SCORED"]


async def test_no_judge_is_no_reward(run_gateway: RunGateway, api: Running) -> None:
    own = await run_gateway(reward_url=api.addresses.grpc)
    unknown = await own.http.post("/sessions", json={"pipeline": "nothing"})
    assert (unknown.status_code, unknown.json()["error"]["type"]) == (404, "not_found_error")
    late = await own.open(pipeline="noop", deadline_s=0.001)
    lost = await own.open(pipeline="noop")
    for session in (late, lost):
        await own.chat(session, "a", max_tokens=4)
    await api.api.stop()
    for session in (late, lost):
        await own.http.post(f"/sessions/{session['session_id']}/end")
    read = await own.read(late, wait_s=S_MAX)
    assert (read["outcome"], read["reward"]) == ("EXPIRED", None)
    read = await own.read(lost, wait_s=S_MAX)
    assert (read["outcome"], read["reward"]) == ("INFRA_FAILED", None)
    assert read["trajectories"][0]["response_ids"]


async def test_an_unscored_session_ends_at_once(run_gateway: RunGateway) -> None:
    own = await run_gateway()
    session = await own.open()
    await own.chat(session, "a", max_tokens=4)
    state = (await own.http.post(f"/sessions/{session['session_id']}/end")).json()
    assert (state["state"], state["outcome"], state["reward"]) == ("ended", None, None)
