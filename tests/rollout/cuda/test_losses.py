"""What the engine does when the kernel, the driver or the caller's weights fail."""

from __future__ import annotations

import ctypes as ct
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.rollout.cuda.building import TINY, bits, ended, host_engine, tiny

from assay.rollout import InvalidRollout, InvalidWeights, RuntimeClosed, WeightsNotReady
from assay.rollout.cuda.gpu import describe
from assay.rollout.cuda.host_build import HostMachine
from assay.rollout.errors import EngineLent
from assay.rollout.errors.cuda import DeviceExhausted, DriverMissing, KernelFailed, KernelHung
from assay.rollout.layout import Descriptor, Ring
from assay.rollout.models import Model, Tensor, TensorKind, tensors_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.rollout.cuda.engine import CudaEngine
    from assay.rollout.models import StagedTensor

LONG = {"max_tokens": 50, "want_reward": False}


def has_gpu() -> bool:
    try:
        describe()
    except DriverMissing:
        return False
    return True


def test_a_machine_without_a_driver_is_told_so() -> None:
    if has_gpu():
        pytest.skip("this machine has a driver")
    with pytest.raises(DriverMissing, match="libcuda"):
        describe()


def spoil(engine: CudaEngine) -> None:
    """Post a command whose line is damaged."""
    ring_at = engine._link.address + int(engine._link.head.commands_at)
    ring = Ring.from_address(ring_at)
    spoilt = Descriptor(slot=3, generation=1, kind=1, cookie=5)
    ct.memmove(ring_at + ct.sizeof(Ring) + 64 * (ring.tail & ring.mask), bytes(spoilt), 64)
    ring.staged = ring.tail = ring.tail + 1


def until_lost(engine: CudaEngine) -> None:
    with engine._news:
        assert engine._news.wait_for(lambda: engine._watch.lost is not None, 20)


def test_what_had_ended_before_a_loss_is_polled_before_the_error() -> None:
    engine = host_engine(tiny())
    engine.submit([1], max_tokens=1, seeds=[1], user_ids=[7], want_reward=False)
    engine.submit([1], seeds=[1], user_ids=[8], **LONG)  # type: ignore[arg-type]
    while not engine._ledger.ready:
        engine.wait(0.1)
    spoil(engine)
    until_lost(engine)
    assert engine.poll_rewards() == []  # as a service polls
    assert 7 in [c.user_id for c in engine.poll()]
    with pytest.raises(KernelFailed):
        engine.poll_rewards()
    with pytest.raises(KernelFailed):
        engine.poll()
    engine.close()


def test_a_damaged_command_ends_the_kernel_and_names_the_lost_rollouts() -> None:
    engine = host_engine(tiny())
    with engine.pause():
        engine.submit([1], max_tokens=1, seeds=[1], user_ids=[70], want_reward=False)
        engine.submit([1], seeds=[1, 2], user_ids=[71, 72], **LONG)  # type: ignore[arg-type]
        spoil(engine)
        until_lost(engine)
    with pytest.raises(KernelFailed, match="damaged") as lost:
        engine.poll()
    assert sorted(lost.value.rollouts) == [70, 71, 72]
    with pytest.raises(KernelFailed):
        engine.submit([1], max_tokens=1, seeds=[1])
    engine.close()
    with pytest.raises(RuntimeClosed):
        engine.poll()


def test_a_silent_kernel_is_a_hang_with_the_rollouts_that_it_had() -> None:
    """The clock that the watch reads stands still: the heartbeat word is made not to change."""
    engine = host_engine(tiny(), hang_s=0.1)
    engine.submit([1], seeds=[1], user_ids=[9], **LONG)  # type: ignore[arg-type]
    engine._link.head.stop = 1  # the kernel returns; its heartbeat ends with it
    for _ in range(100):
        engine.wait(0.1)
        if engine._watch.lost:
            break
    ended_before = engine.poll() if engine._ledger.has_news else []
    if not ended_before:
        with pytest.raises(KernelHung) as lost:
            engine.poll()
        assert lost.value.rollouts == (9,)
    engine.close()


def test_weights_that_can_not_be_used_change_nothing() -> None:
    embed = tiny().tensors[TensorKind.EMBED, 0].to_float32().copy()
    embed[3, 3] = np.nan
    broken = Model(TINY, {**tiny().tensors, (TensorKind.EMBED, 0): Tensor.of(embed)})
    first, *rest = tensors_of(tiny())
    wider = replace(first, tensor=Tensor.of(np.zeros((3, 3))))
    with host_engine(tiny()) as engine:
        one = {"max_tokens": 6, "seeds": [4], "want_reward": False}
        engine.submit([1, 2], **one)  # type: ignore[arg-type]
        before = bits(ended(engine, 1))
        with pytest.raises(InvalidWeights, match=r"tensors\.EMBED\.0"):
            engine.stage(1, tensors_of(broken))
        with pytest.raises(InvalidWeights, match="version"):
            engine.stage(0, tensors_of(tiny(1)))
        damaged = replace(first, sha256="00" * 32)
        for wrong in (rest, [first, first, *rest], [wider, *rest], [damaged, *rest]):
            with pytest.raises(InvalidWeights, match=r"tensors\.EMBED\.0"):
                engine.stage(1, wrong)
        with pytest.raises(WeightsNotReady):
            engine.activate(1)
        engine.submit([1, 2], **one)  # type: ignore[arg-type]
        assert bits(ended(engine, 1)) == before


def test_one_slot_of_weights_refuses_staging() -> None:
    with host_engine(tiny(), weight_slots=1) as engine, pytest.raises(WeightsNotReady):
        engine.stage(1, tensors_of(tiny(1)))


def test_a_rollout_that_no_arena_holds_is_refused() -> None:
    with host_engine(tiny(), kv_blocks=2) as engine:
        with pytest.raises(InvalidRollout) as refused:
            engine.submit([1] * 14, max_tokens=4, seeds=[1])
        assert refused.value.field == "max_tokens"
        engine.submit([1] * 13, max_tokens=4, seeds=[1], want_reward=False)
        ended(engine, 1)


def test_the_kernel_answers_an_echo_between_steps() -> None:
    with host_engine(tiny()) as engine:
        assert [engine.echo(5.0) > 0 for _ in range(3)] == [True] * 3


def test_an_engine_is_not_freed_under_a_thread_that_stages() -> None:
    engine = host_engine(tiny())
    engine.stage(5, tensors_of(tiny(5)))
    began, goes_on = threading.Event(), threading.Event()

    def slowly() -> Iterator[StagedTensor]:
        began.set()
        assert goes_on.wait(20)
        yield from tensors_of(tiny(1))

    staging = threading.Thread(target=engine.stage, args=(1, slowly()))
    staging.start()
    assert began.wait(20)
    with pytest.raises(WeightsNotReady):
        engine.activate(5)  # its slot is being written
    with pytest.raises(EngineLent):
        engine.close(0.1)
    goes_on.set()
    staging.join(20)
    assert engine.ready_version == 1  # its slot was still there
    engine.machine.close(20.0)


def test_an_engine_that_can_not_be_made_frees_what_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[float] = []

    def no_room(self: HostMachine, n_bytes: int) -> int:
        raise DeviceExhausted(f"no room for {n_bytes}")

    monkeypatch.setattr(HostMachine, "reserve", no_room)
    monkeypatch.setattr(HostMachine, "close", lambda self, timeout_s: closed.append(timeout_s))
    with pytest.raises(DeviceExhausted):
        host_engine(tiny())
    assert closed == [0.0]
