"""The rollout service on a remote engine, beside the same service on the native engine.

The server is `python -m assay.rollout.server`; tests kill it and start it again.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("fastapi")
pytest.importorskip("httpx")

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hypothesis import given
from hypothesis import strategies as st
from tests.rollout.checkpoints import write_checkpoint
from tests.rollout.service.test_process import running
from tests.rollout.service.test_pushes import CASES, tensors
from tests.rollout.service.test_service import S_MAX, by_its_last_digit, prompts, take, weights_of
from tests.rollout.serving import serving
from tests.rollout.test_remote import Process

from assay.client import Outcome
from assay.client.rollouts import RolloutClient, RolloutGroup, SamplingParams
from assay.config.rollouts import RolloutSettings
from assay.config.settings import Settings
from assay.core.errors import AssayError, DependencyDown, FailedPrecondition
from assay.rollout import Runtime, RuntimeOptions
from assay.rollout.models import Engine, load_model
from assay.rollout.models.engine import EngineSettings
from assay.rollout.remote.options import RemoteOptions, attempts_within
from assay.rollout.server.app import Served, build_app
from assay.rollout.service.backend import open_backend
from assay.rollout.service.build import RolloutApi, build
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from tests.running import Running, RunWorker

TOKENS_MAX = 800
SAMPLED = SamplingParams(temperature=0.8, max_tokens=12)
LONG = SamplingParams(temperature=0.8, max_tokens=600)
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Own:
    """A service that listens, and a client of it."""

    def __init__(self, api: RolloutApi, client: RolloutClient, address: str) -> None:
        self.api = api
        self.client = client
        self.address = address

    async def health(self) -> int:
        async with grpc.aio.insecure_channel(self.address) as channel:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            return int((await stub.Check(health_pb2.HealthCheckRequest())).status)

    async def until(self, holds: Callable[[rollout_pb2.GetStatusResponse], bool]) -> None:
        async with asyncio.timeout(S_MAX):
            while not holds(await self.client.status()):
                await asyncio.sleep(0.02)

    async def until_health_is(self, wanted: int) -> None:
        async with asyncio.timeout(S_MAX):
            while await self.health() != wanted:
                await asyncio.sleep(0.05)

    async def until_tokens_came(self) -> None:
        decode = rollout_pb2.ROLLOUT_QUEUE_DECODE
        async with asyncio.timeout(S_MAX):
            while decode not in {
                p.queue for p in (await self.client.status(rollouts=True)).rollouts
            }:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def service(
    data_dir: Path, reward_url: str = "127.0.0.1:1", **engine: object
) -> AsyncIterator[Own]:
    """The service as its process builds it."""
    values = {"grpc_port": 0, "drain_s": 0.0, "slots": 12, "tokens_max": TOKENS_MAX, "threads": 1}
    rollout = RolloutSettings.model_validate({**values, "reward_url": reward_url, **engine})
    with pytest.MonkeyPatch.context() as undone:  # the metrics choose their folder for the process
        undone.setenv("PROMETHEUS_MULTIPROC_DIR", str(data_dir))
        async with _listening(await asyncio.to_thread(build, _settings(data_dir, rollout))) as own:
            yield own


def _settings(data_dir: Path, rollout: RolloutSettings) -> Settings:
    return Settings(data_dir=data_dir, rollout=rollout)


@asynccontextmanager
async def _listening(api: RolloutApi) -> AsyncIterator[Own]:
    try:
        address = await api.server.start()
        watching = asyncio.create_task(api.server.watch_readiness())
        try:
            async with RolloutClient(address) as client:
                yield Own(api, client, address)
        finally:
            watching.cancel()
            await api.server.stop()
    finally:
        await asyncio.to_thread(api.close)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "base.bin"
    return write_checkpoint(path, dim=128, hidden=256, layers=4, positions=1024)


@pytest.fixture
def process(model: Path) -> Iterator[Process]:
    process = Process(model)
    process.start()
    yield process
    process.kill()


def said(group: RolloutGroup) -> list[tuple[object, ...]]:
    """All that is deterministic about the trajectories of a group."""
    return [
        (
            t.seed,
            np.asarray(t.response_ids).tolist(),
            np.asarray(t.rollout_logp).tolist(),
            t.policy_versions,
            t.finish_reason,
            t.outcome,
            t.reward,
            advantage,
        )
        for t, advantage in zip(group.trajectories, group.advantages(), strict=True)
    ]


async def test_groups_and_rewards_are_those_of_the_native_engine(
    process: Process, model: Path, tmp_path: Path, api: Running, run_worker: RunWorker
) -> None:
    await run_worker(by_its_last_digit)
    found: list[dict[str, list[tuple[object, ...]]]] = []
    for engine in ({"model": model}, {"engine_url": process.url}):
        async with service(tmp_path, api.addresses.grpc, **engine) as own:
            session = await own.client.open_session(
                f"s{len(found)}", sampling=SAMPLED, pipeline="noop"
            )
            await session.submit(prompts(8, k=4, reference={}))
            groups = {group.group_id: said(group) for group in await take(session, 8)}
            found.append(groups)
            status = await own.client.status()
            assert (status.engine["in_flight"], status.engine["slots_free"]) == (0, 12)
            assert status.engine["decode_available"] > 0
    assert found[0] == found[1]
    outcomes = {t[5] for group in found[1].values() for t in group}
    assert outcomes == {Outcome.SCORED, Outcome.INFRA_FAILED}


async def test_a_group_whose_server_was_killed_and_came_back_has_the_same_tokens(
    process: Process, model: Path, tmp_path: Path
) -> None:
    found = []
    async with service(tmp_path, model=model) as own:
        session = await own.client.open_session("s", sampling=LONG)
        await session.submit(prompts(2, k=3))
        found.append({group.group_id: said(group) for group in await take(session, 2)})
    async with service(tmp_path, engine_url=process.url) as own:
        assert await own.health() == SERVING
        session = await own.client.open_session("s", sampling=LONG)
        await session.submit(prompts(2, k=3))
        await own.until_tokens_came()
        process.kill()
        await own.until_health_is(NOT_SERVING)
        assert "does not serve" in (await own.client.status()).not_ready
        await asyncio.to_thread(process.start)
        await own.until_health_is(SERVING)
        found.append({group.group_id: said(group) for group in await take(session, 2)})
        status = await own.client.status()
    assert status.engine["lost"] >= 6, "the kill came too late to be seen"
    assert not status.not_ready
    assert found[0] == found[1]


async def test_a_server_that_stays_away_costs_its_rollouts_and_no_group_is_stuck(
    process: Process, tmp_path: Path
) -> None:
    async with service(tmp_path, engine_url=process.url, engine_away_s=0.3) as own:
        process.kill()
        session = await own.client.open_session("s", sampling=SAMPLED)
        await session.submit(prompts(6, k=4))  # of which three wait for slots
        groups = await take(session, 6)
        lost = [t for group in groups for t in group.trajectories]
        assert {t.outcome for t in lost} == {Outcome.INFRA_FAILED}
        assert all(t.reward is None for t in lost)
        assert all("ConnectError" in t.evidence.error for t in lost)
        status = await own.client.status()
        assert (status.engine["in_flight"], status.engine["slots_free"]) == (0, 12)
        await asyncio.to_thread(process.start)
        await session.submit(prompts(9, k=4)[6:])
        groups = await take(session, 3)
        assert {t.outcome for group in groups for t in group.trajectories} == {None}


async def test_a_cancelled_group_ends_its_requests_on_the_server(
    model: Path, tmp_path: Path
) -> None:
    settings = EngineSettings(threads=1, seq_len_max=TOKENS_MAX)
    with (
        Engine.create(load_model(model), settings) as native,
        Runtime(native, 12, RuntimeOptions(seq_len_max=TOKENS_MAX)) as runtime,
        serving(
            build_app(runtime, Served(name="base", vocab_size=300, seq_len_max=TOKENS_MAX))
        ) as url,
    ):
        async with service(tmp_path, engine_url=url) as own:
            session = await own.client.open_session("s", sampling=LONG)
            # Held, or some would be finished before the cancellation comes.
            with runtime.pause():
                await session.submit(prompts(2, k=4))
                async with asyncio.timeout(S_MAX):
                    while runtime.stats().in_flight < 8:
                        await asyncio.sleep(0.02)
                assert await session.cancel(["p1"]) == 4
            groups = {group.group_id: group for group in await take(session, 2)}
            assert {t.outcome for t in groups["p1"].trajectories} == {Outcome.CANCELLED}
            assert {t.outcome for t in groups["p0"].trajectories} == {None}
        async with asyncio.timeout(S_MAX):
            while runtime.stats().in_flight:
                await asyncio.sleep(0.02)
        assert runtime.stats().failed == 4


async def test_what_a_remote_engine_cannot_do_is_refused_and_the_status_says_so(
    process: Process, tmp_path: Path
) -> None:
    async with service(tmp_path, engine_url=process.url) as own:
        config, arrays = CASES["lora"]
        for refused in (
            own.client.push_weights(1, weights_of(1)),
            own.client.push_adapter(1, config, tensors(arrays)),
            own.client.activate(1),
            anext(own.client.trace()),
        ):
            with pytest.raises(FailedPrecondition):
                await refused
        assert list((await own.client.status()).unsupported) == ["PushWeights", "StreamTrace"]
        held = await own.client.pause()
        session = await own.client.open_session("s", sampling=SAMPLED)
        await session.submit(prompts(1))
        with suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await own.until(lambda status: status.groups_ended > 0)
                raise AssertionError("a paused engine made tokens")
        await own.client.resume(held)
        await take(session, 1)


WRONG: dict[str, tuple[dict[str, object], type[AssayError], str]] = {
    "neither a model nor a server": ({"engine_url": ""}, FailedPrecondition, "rollout.model"),
    "both": ({"model": "m.bin"}, FailedPrecondition, "exclude each other"),
    "no name": ({"engine_dialect": "vllm"}, FailedPrecondition, "rollout.engine_model"),
    "no one listens": ({}, DependencyDown, "rollout.engine_url: .*ConnectError"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_settings_are_named(case: str) -> None:
    changes, kind, message = WRONG[case]
    values = {"engine_url": "http://127.0.0.1:1", **changes}
    with pytest.raises(kind, match=message):
        open_backend(RolloutSettings.model_validate(values))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens_max": 4096}, "rollout.engine_url: .*max_model_len"),
        ({"engine_vocab_size": 301}, "rollout.engine_vocab_size: 301"),
        ({"engine_dialect": "vllm", "engine_model": "base"}, "rollout.engine_vocab_size"),
        ({"engine_dialect": "sglang"}, "rollout.engine_url: .*not SGLang"),
    ],
)
def test_a_server_that_does_not_fit_the_settings_is_refused(
    model: Path, changes: dict[str, object], message: str
) -> None:
    settings = EngineSettings(threads=1, seq_len_max=TOKENS_MAX)
    with (
        Engine.create(load_model(model), settings) as native,
        Runtime(native, 4, RuntimeOptions(seq_len_max=TOKENS_MAX)) as runtime,
        serving(
            build_app(runtime, Served(name="base", vocab_size=300, seq_len_max=TOKENS_MAX))
        ) as url,
    ):
        values = {"engine_url": url, "tokens_max": TOKENS_MAX, **changes}
        with pytest.raises(FailedPrecondition, match=message):
            open_backend(RolloutSettings.model_validate(values))


async def test_the_process_serves_a_remote_engine_with_the_token_of_its_environment(
    model: Path, tmp_path: Path
) -> None:
    settings = EngineSettings(threads=1, seq_len_max=TOKENS_MAX)
    served = Served(name="base", vocab_size=300, seq_len_max=TOKENS_MAX, api_key="key")
    with (
        Engine.create(load_model(model), settings) as native,
        Runtime(native, 64, RuntimeOptions(seq_len_max=TOKENS_MAX)) as runtime,
        serving(build_app(runtime, served)) as url,
    ):
        environment = {"ENGINE_URL": url, "ENGINE_TOKEN": "key", "TOKENS_MAX": str(TOKENS_MAX)}
        async with (
            running(tmp_path, **environment) as where,
            RolloutClient(where["grpc"]) as client,
        ):
            session = await client.open_session("s", sampling=SAMPLED)
            await session.submit(prompts(2))
            groups = await take(session, 2)
    assert {len(t.response_ids) for group in groups for t in group.trajectories} == {12}


@given(st.floats(0, 1e5), st.floats(0.01, 1.0), st.floats(1.0, 10.0))
def test_the_waits_between_attempts_add_up_to_the_time_allowed_and_not_to_much_more(
    seconds: float, least: float, most: float
) -> None:
    options = RemoteOptions(backoff_s_min=least, backoff_s_max=most)
    attempts = attempts_within(seconds, options)
    waits = [min(most, least * 2 ** min(i, 20)) for i in range(attempts - 1)]
    assert sum(waits) >= seconds - 1e-6
    assert sum(waits[:-1]) <= seconds + 1e-6
