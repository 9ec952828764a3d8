"""The rollout service on the CUDA kernel, built for this host: the service's own tests hold for it,
pushes reach the device, and which device makes the tokens is chosen and said."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy")

from tests.rollout.checkpoints import write_checkpoint
from tests.rollout.cuda.building import BUILDS
from tests.rollout.cuda.test_losses import spoil
from tests.rollout.service import test_pauses, test_service, test_updates
from tests.rollout.service.served import SHORT, SLOTS, on_cuda, rollouts
from tests.rollout.service.test_pushes import CASES, of, tensors
from tests.rollout.service.test_service import SAMPLED, prompts, take

from assay.config.rollouts import RolloutSettings
from assay.core.errors import DependencyDown
from assay.core.outcome import Outcome
from assay.rollout.cuda.host_build import HostMachine
from assay.rollout.cuda.sizes import EMULATED
from assay.rollout.errors.cuda import CompilerMissing, CudaError, DriverMissing
from assay.rollout.models import UnsupportedModel
from assay.rollout.server.local import Gpu, LocalOptions, find_gpu
from assay.rollout.service.backend import open_backend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.rollout.service.served import Rollouts, RunRollouts


@pytest.fixture
async def run_rollouts() -> AsyncIterator[RunRollouts]:
    """As elsewhere, on the other engine."""
    async with AsyncExitStack() as stack:

        async def run(reward_url: str = "127.0.0.1:1", slots: int = SLOTS, **how: Any) -> Rollouts:
            running = rollouts(reward_url, slots, desk_backoff=SHORT, on=on_cuda, **how)
            return await stack.enter_async_context(running)

        yield run


test_rewards = test_service.test_rewards_come_with_the_group_and_the_unscored_leave_the_baseline
test_cancels = test_service.test_cancelled_groups_come_back_as_that
test_lost_reader = test_service.test_a_lost_reader_gets_what_it_had_not_acknowledged
test_turns = test_service.test_a_trajectory_of_two_turns_is_one_with_the_environment_masked
test_wrong_pushes = test_service.test_a_wrong_push_leaves_nothing_to_activate
test_cut_pushes = test_service.test_a_push_that_is_cut_leaves_nothing_and_the_next_is_taken
test_dead_rewards = test_service.test_a_dead_reward_service_is_no_reward_and_no_stuck_slot
test_held = (
    test_pauses.test_what_cannot_come_while_rollouts_are_held_in_place_is_refused_by_its_field
)
test_activating_pushes = test_updates.test_a_push_that_activates_is_in_use_when_it_returns
test_wrong_activating = test_updates.test_a_push_that_is_wrong_activates_nothing


async def test_an_adapter_that_is_pushed_changes_tokens_and_rolls_back(
    run_rollouts: RunRollouts,
) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=SAMPLED)

    async def decoded() -> Any:
        await session.submit(prompts(1))
        [group] = await take(session, 1)
        versions = {v for t in group.trajectories for v, _ in t.policy_versions}
        return of(group), versions

    before, _ = await decoded()
    for version, case in enumerate(("lora", "oft", "oft, Neumann", "rslora"), 1):
        config, arrays = CASES[case]
        await own.client.push_adapter(version, config, tensors(arrays), base_version=0)
        await own.client.activate(version)
        after, versions = await decoded()
        assert after != before
        assert versions == {version}
        await own.client.activate(version - 1)
        assert (await decoded())[1] == {version - 1}
        await own.client.activate(version)


async def test_a_trace_has_every_instant_of_a_rollout(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=SAMPLED)
    trace = own.client.trace()
    async with asyncio.timeout(60):
        reading = asyncio.create_task(anext(trace))
        while own.service.tracer._readers == 0:
            await asyncio.sleep(0.01)
        await session.submit(prompts(1))
        events = {event.event for event in (await reading).events}
        while "observed" not in events:
            events |= {event.event for event in (await anext(trace)).events}
    await trace.aclose()
    assert {"posted", "prefill_begin", "step_begin", "decode_done", "observed"} <= events


async def test_the_status_has_credits_queues_and_keys_and_values(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    idle = dict((await own.client.status()).engine)
    held = await own.client.pause()
    session = await own.client.open_session("s", sampling=SAMPLED)
    await session.submit(prompts(2))
    async with asyncio.timeout(60):  # the kernel takes the commands in its own time
        while True:
            busy = dict((await own.client.status()).engine)
            if busy["queue_prefill"] + busy["queue_decode"] == busy["in_flight"]:
                break
            await asyncio.sleep(0.01)
    assert busy["in_flight"] == 6
    await own.client.resume(held)
    await take(session, 2)
    now = ("decode_available", "reward_available", "trajectory_available", "kv_available")
    async with asyncio.timeout(60):  # the kernel learns later which lines were taken
        while True:
            after = dict((await own.client.status()).engine)
            if all(after[name] == idle[name] for name in now):
                break
            await asyncio.sleep(0.01)
    assert idle["decode_available"] == idle["reward_available"] == SLOTS
    assert after["decode_tokens"] > 0
    assert all(after[f"queue_{name}"] == 0 for name in ("prefill", "decode", "reward", "done"))


async def test_a_kernel_that_dies_ends_what_it_had_without_a_reward(
    run_rollouts: RunRollouts,
) -> None:
    own = await run_rollouts()
    held = await own.client.pause()
    session = await own.client.open_session("s", sampling=SAMPLED)
    await session.submit(prompts(6, k=6))  # of which four wait for the engine
    spoil(own.runtime)
    await own.client.resume(held)
    groups = await take(session, 6)
    assert {t.outcome for g in groups for t in g.trajectories} == {Outcome.INFRA_FAILED}
    assert own.service.why_not_ready == "the engine failed"
    with pytest.raises(DependencyDown):
        await session.submit(prompts(1))


# -- which device ----------------------------------------------------------------------------------
def settings_of(folder: Path, **changes: Any) -> RolloutSettings:
    model = write_checkpoint(folder / "model.bin")
    return RolloutSettings(model=model, tokens_max=64, slots=4, **changes)


def host_gpu(_: LocalOptions) -> Gpu:
    return Gpu(functools.partial(HostMachine, folder=BUILDS), EMULATED)


def test_a_gpu_that_is_there_makes_the_tokens(tmp_path: Path) -> None:
    backend = open_backend(settings_of(tmp_path), host_gpu)
    try:
        assert (backend.device, backend.device_reason) == ("host build", "")
        backend.engine.submit([1], max_tokens=2, seeds=[1], want_reward=False)
        while not (done := backend.engine.poll()):
            backend.engine.wait(0.1)
        assert len(done[0].tokens) == 2
    finally:
        backend.close()


def test_a_model_of_another_shape_runs_on_the_gpu_and_the_status_says_how(tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path / "model.bin", dim=40)
    backend = open_backend(RolloutSettings(model=model, tokens_max=64, slots=4), host_gpu)
    backend.close()
    assert backend.device == "host build"
    said = "general shapes: dim 40 is padded to 64, head_dim 10 is padded to 16"
    assert backend.device_reason == said


@pytest.mark.parametrize("changes", [{"weight_dtype": "f32"}, {"second_slot_dir": "."}])
def test_what_only_the_cpu_does_is_done_by_it(tmp_path: Path, changes: dict[str, str]) -> None:
    backend = open_backend(settings_of(tmp_path, **changes), host_gpu)
    backend.close()
    assert backend.device == "cpu"
    assert "the CPU's" in backend.device_reason
    with pytest.raises(UnsupportedModel):
        open_backend(settings_of(tmp_path, device="cuda", **changes), host_gpu)


def test_without_a_gpu_the_cpu_does_it_and_says_why(tmp_path: Path) -> None:
    def none(_: LocalOptions) -> Gpu:
        raise DriverMissing("no NVIDIA driver")

    backend = open_backend(settings_of(tmp_path), none)
    backend.close()
    assert (backend.device, backend.device_reason) == ("cpu", "no NVIDIA driver")
    backend = open_backend(settings_of(tmp_path, device="cpu"), none)
    backend.close()
    assert (backend.device, backend.device_reason) == ("cpu", "")
    with pytest.raises(DriverMissing):
        open_backend(settings_of(tmp_path, device="cuda"), none)


def has_gpu() -> bool:
    try:
        find_gpu(LocalOptions())
    except CudaError:
        return False
    return True


def test_this_machine_is_looked_at(tmp_path: Path) -> None:
    if has_gpu():
        pytest.skip("this machine has a GPU: tests/rollout/cuda/test_gpu.py")
    with pytest.raises((DriverMissing, CompilerMissing)) as why:
        find_gpu(LocalOptions())
    backend = open_backend(settings_of(tmp_path))
    backend.close()
    assert (backend.device, backend.device_reason) == ("cpu", str(why.value))


def test_a_server_that_has_to_use_a_gpu_ends_without_one(tmp_path: Path) -> None:
    if has_gpu():
        pytest.skip("this machine has a GPU")
    model = write_checkpoint(tmp_path / "model.bin")
    serve = [sys.executable, "-m", "assay.rollout.server", str(model), "--device", "cuda"]
    done = subprocess.run(serve, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("--device cuda: ")
    assert "Traceback" not in done.stderr
