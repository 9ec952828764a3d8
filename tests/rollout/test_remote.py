"""A remote engine against servers that die, refuse and come back; and the server itself.

The processes that are killed are `python -m assay.rollout.server` on a model file.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

pytest.importorskip("numpy")
pytest.importorskip("fastapi")
pytest.importorskip("httpx")

import httpx
from tests.rollout.checkpoints import write_checkpoint
from tests.rollout.serving import serving
from tests.rollout.test_weight_slots import SETTINGS

from assay.rollout import (
    Completed,
    InvalidRollout,
    PauseMode,
    ProbeEngine,
    RolloutOutcome,
    Runtime,
    RuntimeClosed,
    RuntimeOptions,
    Sampling,
    Stop,
)
from assay.rollout.errors import RolloutGone, ServerLost, ServerRefused
from assay.rollout.interface.receipts import result_hash
from assay.rollout.models import Engine, load_model
from assay.rollout.models.driver import Driver, TokenSampling
from assay.rollout.models.engine import EngineSettings
from assay.rollout.remote import AssayServer, RemoteEngine, RemoteOptions, Vllm
from assay.rollout.remote.dialects import check_logps
from assay.rollout.server.app import Answer, Served, build_app
from assay.rollout.server.hub import Hub, Ticket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from assay.rollout.interface.rollouts import Completed, Progress
    from assay.rollout.remote.dialects import Dialect
    from assay.rollout.remote.transport import Transport

VOCAB, SEQ_MAX = 300, 900
SAMPLING = Sampling(temperature=0.8, top_k=40)
# A server that is slow on a busy machine is not away.
PATIENT = RemoteOptions(connect_s=60.0, health_s=60.0)
OPTIONS = replace(PATIENT, seq_len_max=SEQ_MAX, attempts_max=40, backoff_s_max=0.5)


class Process:
    """A server process on a port of its own, started again as often as wanted."""

    def __init__(self, model: Path) -> None:
        self.model = model
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "assay.rollout.server", str(self.model)]
        command += ["--port", str(self.port), "--seq-len", str(SEQ_MAX), "--threads", "1"]
        command += ["--weights", str(self.model.parent)]
        self.running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                if httpx.get(f"{self.url}/health").status_code == 200:
                    return
            except httpx.TransportError:
                assert self.running.poll() is None, "the server did not start"
            time.sleep(0.1)
        raise AssertionError("the server does not answer")

    def kill(self) -> None:
        if self.running is not None:
            self.running.kill()
            self.running.wait()
        self.running = None


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    shape = {"dim": 128, "hidden": 256, "layers": 4, "positions": 1024}
    write_checkpoint(folder / "base.bin", **shape)
    write_checkpoint(folder / "other.bin", **shape, seed=1)
    return folder


@pytest.fixture
def process(models: Path) -> Iterator[Process]:
    process = Process(models / "base.bin")
    process.start()
    yield process
    process.kill()


COMMANDS = EngineSettings(threads=1, seq_len_max=SEQ_MAX)
"""What the server's command decodes with."""


def alone(
    model: Path, prompt: list[int], n: int, seed: int, settings: EngineSettings = COMMANDS
) -> list[int]:
    """n tokens after the prompt, by a fresh engine in this process."""
    with Engine.create(load_model(model), settings) as engine:
        driver = Driver(engine, 64)
        how = TokenSampling(temperature=0.8, top_k=40, seed=seed)
        rollout = driver.new(len(prompt) + n, how)
        driver.prefill(rollout, prompt[:-1], 16)
        made, _ = driver.decode([rollout], [prompt[-1]], n)
        return [int(token) for token in made[:, 0]]


def ended(engine: RemoteEngine, n: int) -> list[Completed]:
    came: list[Completed] = []
    for _ in range(6000):
        came += engine.poll()
        if len(came) >= n:
            return came
        engine.wait(0.05)
    raise AssertionError(f"only {len(came)} of {n}: {engine.stats()}")


def until_tokens_came(engine: RemoteEngine) -> None:
    for _ in range(2000):
        with engine._decoder.changed:
            if any(row.tokens for row in engine._ledger._rows.values()):
                return
        time.sleep(0.005)
    raise AssertionError("no token came")


def test_rollouts_go_on_to_the_bit_after_their_server_was_killed_and_came_back(
    process: Process, models: Path
) -> None:
    with RemoteEngine(process.url, AssayServer(), 4, VOCAB, OPTIONS) as engine:
        engine.submit(
            [3, 4, 5], max_tokens=800, seeds=[1, 2**63 + 5], sampling=SAMPLING, want_reward=False
        )
        until_tokens_came(engine)
        process.kill()
        process.start()
        done = ended(engine, 2)
        stats = engine.stats()
    assert stats.lost >= 2, "the kill came too late to be seen"
    for c in done:
        seed = (1, 2**63 + 5)[c.user_id]
        assert (c.outcome, c.stop) == (RolloutOutcome.COMPLETED, Stop.LENGTH)
        assert list(c.tokens) == alone(models / "base.bin", [3, 4, 5], 800, seed)
        assert c.receipt is None, "no one process computed it"


def test_a_server_that_stays_away_costs_the_rollouts_and_not_the_engine(process: Process) -> None:
    few = RemoteOptions(seq_len_max=SEQ_MAX, attempts_max=2, backoff_s_max=0.1, connect_s=1.0)
    with RemoteEngine(process.url, AssayServer(), 4, VOCAB, few) as engine:
        process.kill()
        engine.submit([3], max_tokens=5, seeds=[1, 2], want_reward=False)
        assert [c.outcome for c in ended(engine, 2)] == [RolloutOutcome.CRASHED] * 2
        stats = engine.stats()
        assert (stats.failed, stats.in_flight, stats.slots_free) == (2, 0, 4)
        assert "ConnectError" in stats.last_error
        process.start()
        engine.submit([3], max_tokens=5, seeds=[1, 2], want_reward=False)
        assert [c.outcome for c in ended(engine, 2)] == [RolloutOutcome.COMPLETED] * 2


def test_a_server_that_comes_back_gets_the_active_weights_again(
    process: Process, models: Path
) -> None:
    with RemoteEngine(process.url, AssayServer(), 4, VOCAB, OPTIONS) as engine:
        engine.stage(3, "other.bin")
        engine.activate(3)
        process.kill()
        process.start()
        engine.submit([7], max_tokens=20, seeds=[1], sampling=SAMPLING, want_reward=False)
        (c,) = ended(engine, 1)
    assert set(c.policy_versions) == {3}
    assert list(c.tokens) == alone(models / "other.bin", [7], 20, 1)


@pytest.fixture
def local() -> Iterator[tuple[str, Runtime]]:
    """A server in this process, whose tokens take a millisecond each."""
    native = ProbeEngine(vocab_size=VOCAB, batch_max=8, spin_ns=1_000_000)
    with Runtime(native, 8, RuntimeOptions(seq_len_max=SEQ_MAX)) as runtime:
        served = Served(name="m", vocab_size=VOCAB, seq_len_max=SEQ_MAX, api_key="key")
        with serving(build_app(runtime, served)) as url:
            yield url, runtime


def settled(runtime: Runtime) -> int:
    """Rollouts that failed, once nothing is in flight."""
    for _ in range(400):
        stats = runtime.stats()
        if stats.submitted and not stats.in_flight:
            return int(stats.failed)
        time.sleep(0.02)
    raise AssertionError("still in flight")


BODY = {"prompt": [1, 2], "max_tokens": 3, "logprobs": 1, "return_token_ids": True}


def client(url: str, key: str = "key") -> httpx.Client:
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"})


@pytest.mark.parametrize("stream", [False, True])
def test_a_caller_that_disconnects_aborts_its_response(
    local: tuple[str, Runtime], *, stream: bool
) -> None:
    url, runtime = local
    body = {**BODY, "max_tokens": 800, "stream": stream}
    with client(url) as http, suppress(httpx.ReadTimeout):
        request = http.build_request("POST", "/v1/completions", json=body, timeout=0.3)
        answer = http.send(request, stream=True)
        next(answer.iter_lines())
        answer.close()
    assert settled(runtime) == 1


def test_a_whole_answer_and_a_stream_say_the_same(local: tuple[str, Runtime]) -> None:
    url, _ = local
    with client(url) as http:
        whole = http.post("/v1/completions", json={**BODY, "return_receipt": True}).json()
        choice = whole["choices"][0]
        events = []
        with http.stream("POST", "/v1/completions", json={**BODY, "stream": True}) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    events.append(json.loads(line[6:])["choices"][0])
    assert [t for e in events for t in e["token_ids"]] == choice["token_ids"]
    assert events[-1]["finish_reason"] == choice["finish_reason"] == "length"
    assert len(choice["logprobs"]["token_logprobs"]) == len(choice["policy_versions"]) == 3
    assert whole["usage"] == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    assert choice["receipt"]["max_tokens"] == 3


REFUSED: dict[str, tuple[dict[str, object], int, str | None]] = {
    "no token of the model": ({"prompt": [VOCAB]}, 400, "prompt"),
    "text without a tokenizer": ({"prompt": "hello"}, 400, "prompt"),
    "too long": ({"max_tokens": SEQ_MAX}, 400, "max_tokens"),
    "a field that is not known": ({"frequency": 1}, 400, "frequency"),
    "a penalty that would be ignored": ({"presence_penalty": 1}, 400, "presence_penalty"),
    "two responses": ({"n": 2}, 400, "n"),
    "another model": ({"model": "x"}, 409, None),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_server_cannot_do_is_refused_by_name(
    local: tuple[str, Runtime], case: str
) -> None:
    changes, status, param = REFUSED[case]
    url, runtime = local
    with client(url) as http:
        answer = http.post("/v1/completions", json={**BODY, **changes})
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (status, param)
        assert runtime.stats().submitted == 0


def test_a_full_server_says_when_to_come_back(local: tuple[str, Runtime]) -> None:
    url, runtime = local
    with client(url) as http, runtime.pause():
        runtime.submit([1], max_tokens=1, seeds=range(8), want_reward=False)
        answer = http.post("/v1/completions", json=BODY)
        assert answer.status_code == 429
        assert float(answer.headers["Retry-After"]) > 0


def test_who_has_no_key_may_do_nothing(local: tuple[str, Runtime]) -> None:
    url, _ = local
    with client(url, "wrong") as http:
        for path in ("/v1/completions", "/pause", "/stage_weights"):
            assert http.post(path, json=BODY).status_code == 401
    with pytest.raises(ServerRefused) as refused:
        RemoteEngine(url, AssayServer(), 4, VOCAB, OPTIONS)
    assert refused.value.status == 401


def test_a_server_whose_logps_are_of_another_distribution_is_refused(
    local: tuple[str, Runtime],
) -> None:
    """The probe's log-probs are arbitrary, as vLLM's raw ones are before temperature."""
    url, _ = local
    for dialect in (AssayServer(), Vllm("m")):
        with pytest.raises(ServerRefused, match="processed_logprobs"):
            RemoteEngine(url, dialect, 4, VOCAB, OPTIONS, api_key="key")
    with pytest.raises(ServerRefused, match="is not among"):
        RemoteEngine(url, Vllm("another"), 4, VOCAB, OPTIONS, api_key="key")


def test_where_no_server_listens_connecting_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ServerLost, match="ConnectError"):
        RemoteEngine(url, AssayServer(), 4, VOCAB, OPTIONS)


@contextmanager
def base_served(models: Path, dialect: Dialect) -> Iterator[RemoteEngine]:
    bounds = RuntimeOptions(seq_len_max=SEQ_MAX)
    served = Served(name="base", vocab_size=VOCAB, seq_len_max=SEQ_MAX)
    with (
        Engine.create(load_model(models / "base.bin"), SETTINGS) as native,
        Runtime(native, 8, bounds) as runtime,
        serving(build_app(runtime, served)) as url,
        RemoteEngine(url, dialect, 4, VOCAB, OPTIONS) as engine,
    ):
        yield engine


def test_vllms_dialect_retracts_where_it_cannot_hold(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts, goes_on = Hub.parts, threading.Event()
    goes_on.set()  # connecting asks for a token, too

    async def gated(hub: Hub, *tickets: Ticket) -> AsyncIterator[tuple[int, Progress]]:
        """Without it a fast machine ends the response before the pause."""
        async for part in parts(hub, *tickets):
            yield part
            while not goes_on.is_set():
                await asyncio.sleep(0.001)

    monkeypatch.setattr(Hub, "parts", gated)
    with base_served(models, Vllm("base")) as engine:
        goes_on.clear()
        engine.submit([5], max_tokens=300, seeds=[9], sampling=SAMPLING, want_reward=False)
        until_tokens_came(engine)
        with engine.pause(mode=PauseMode.IN_PLACE):
            assert engine.stats().in_flight == 1
            goes_on.set()
        (c,) = ended(engine, 1)
        assert engine.stats().retracted == 1
        with pytest.raises(InvalidRollout, match="token_bytes"):
            engine.submit([5], max_tokens=3, seeds=[9], stop_strings=[b"x"])
    assert list(c.tokens) == alone(models / "base.bin", [5], 300, 9, SETTINGS)


@pytest.mark.parametrize("delay_s", [0.0, 0.3])
def test_a_response_of_one_request_carries_its_servers_receipt(
    models: Path, monkeypatch: pytest.MonkeyPatch, delay_s: float
) -> None:
    """Also when the last event, which has it, comes some time after the last token."""
    end = Answer.end

    def late(answer: Answer, whole: Completed, part: Progress) -> dict[str, object]:
        time.sleep(delay_s)
        return end(answer, whole, part)

    monkeypatch.setattr(Answer, "end", late)
    with base_served(models, AssayServer()) as engine:
        engine.submit([5], max_tokens=9, seeds=[9], want_reward=False)
        (c,) = ended(engine, 1)
    assert c.receipt is not None
    assert c.receipt.result == result_hash(c.tokens, c.logps)
    assert c.receipt.seed == 9


def test_tokens_can_be_read_while_they_come(models: Path) -> None:
    with base_served(models, AssayServer()) as engine:
        [ref] = engine.submit([5], max_tokens=300, seeds=[9], sampling=SAMPLING, want_reward=False)
        until_tokens_came(engine)
        first, rest = engine.peek(ref, 0, 1), engine.peek(ref, 1)
        (c,) = ended(engine, 1)
        with pytest.raises(RolloutGone):
            engine.peek(ref)
    seen = len(rest.tokens) + 1
    assert [*first.tokens, *rest.tokens] == list(c.tokens[:seen])
    assert [*first.logps, *rest.logps] == list(c.logps[:seen])
    assert [*first.policy_versions, *rest.policy_versions] == [0] * seen


def test_cancelled_requests_leave_no_connection_behind(models: Path) -> None:
    """A request that ends before it has its connection is the hard case."""
    with base_served(models, AssayServer()) as engine:
        for i in range(60):
            refs = engine.submit([5], max_tokens=9, seeds=[i] * 4, want_reward=False)
            engine.wait(0.001 * (i % 4))
            for ref in refs:
                with suppress(RolloutGone):
                    engine.cancel(ref)
            ended(engine, 4)
        pool = engine._decoder._transport._client._transport._pool  # type: ignore[attr-defined]
        for _ in range(400):
            if all(connection.is_idle() for connection in pool.connections):
                break
            time.sleep(0.02)
        else:
            raise AssertionError(pool)


def test_a_server_that_is_away_is_noticed_without_a_request(process: Process) -> None:
    quick = RemoteOptions(seq_len_max=SEQ_MAX, health_every_s=0.05)
    with RemoteEngine(process.url, AssayServer(), 4, options=quick) as engine:
        assert engine.vocab_size == VOCAB
        assert engine.stats().away == ""
        process.kill()
        while not engine.stats().away:
            time.sleep(0.02)
        process.start()
        while engine.stats().away:
            time.sleep(0.02)
        assert engine.stats().requests == 0


def test_a_dropped_engine_ends_its_thread_and_its_requests(local: tuple[str, Runtime]) -> None:
    url, runtime = local
    free = RemoteOptions(seq_len_max=SEQ_MAX, check_logps=False)
    engine = RemoteEngine(url, AssayServer(), 4, VOCAB, free, api_key="key")
    engine.submit([5], max_tokens=800, seeds=[9], want_reward=False)
    until_tokens_came(engine)
    thread = engine._loop.thread
    del engine
    thread.join(20)
    assert not thread.is_alive()
    assert settled(runtime) == 1


def test_in_a_forked_child_every_call_is_refused(local: tuple[str, Runtime]) -> None:
    url, _ = local
    free = RemoteOptions(seq_len_max=SEQ_MAX, check_logps=False)
    with RemoteEngine(url, AssayServer(), 4, VOCAB, free, api_key="key") as engine:
        child = os.fork()
        if child == 0:
            refused = 0
            for call in (engine.poll, engine.stats, engine.poll_rewards):
                try:
                    call()
                except RuntimeClosed:
                    refused += 1
            os._exit(0 if refused == 3 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert engine.stats().slots_free == 4


class Answering:
    """A server that answers a request for tokens with these events."""

    def __init__(self, *events: dict[str, Any]) -> None:
        self._events = events

    async def events(self, _path: str, _body: object) -> AsyncIterator[dict[str, Any]]:
        for event in self._events:
            yield event


def event(*logps: float) -> dict[str, Any]:
    choice = {"token_ids": [7] * len(logps), "logprobs": {"token_logprobs": list(logps)}}
    return {"choices": [choice]}


@pytest.mark.parametrize(
    "events", [[], [{"choices": []}], [event()], [event(0.0, 0.0)], [event(-0.5)]]
)
def test_a_probe_without_exactly_one_certain_token_is_refused(events: list[dict[str, Any]]) -> None:
    with pytest.raises(ServerRefused):
        asyncio.run(check_logps(cast("Transport", Answering(*events)), {}))


def test_a_probe_with_one_certain_token_is_accepted() -> None:
    asyncio.run(check_logps(cast("Transport", Answering(event(-1e-5), event())), {}))
