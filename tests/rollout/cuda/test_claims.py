"""One engine per device and process: a second one is refused and does not wait without a bound."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.rollout.cuda.building import TINY, gpu_engine, tiny

from assay.rollout.cuda import gpu
from assay.rollout.cuda.gpu import CLAIMS, Claims, DeviceInfo, GpuMachine
from assay.rollout.cuda.sizes import Sizes
from assay.rollout.errors.cuda import DeviceInUse, KernelRejected

CARD = DeviceInfo(
    name="a card",
    capability=(9, 0),
    multiprocessors=132,
    memory_bytes=1 << 37,
    driver=13000,
    coherent=False,
)


def test_a_device_is_claimed_once_until_it_is_given_back() -> None:
    claims = Claims()
    claims.take(0, "a card")
    claims.take(1, "another")
    with pytest.raises(DeviceInUse, match=r"a card \(device 0\)"):
        claims.take(0, "a card")
    claims.give_back(0)
    claims.take(0, "a card")


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device, and a compiler that refuses every kernel."""

    def refuse(*_: Any) -> None:
        raise KernelRejected("refused", "log")

    monkeypatch.setattr(gpu, "describe", lambda _: CARD)
    monkeypatch.setattr(gpu, "driver", SimpleNamespace)
    monkeypatch.setattr(gpu, "compile_program", refuse)


@pytest.mark.usefixtures("card")
def test_an_engine_that_is_not_made_leaves_the_device_to_the_next() -> None:
    for _ in range(2):
        with pytest.raises(KernelRejected):
            GpuMachine(Sizes(TINY, seq_max=64))


@pytest.mark.usefixtures("card")
def test_a_second_engine_of_a_process_is_refused_before_anything_is_compiled() -> None:
    CLAIMS.take(0, CARD.name)
    try:
        with pytest.raises(DeviceInUse):
            gpu_engine(tiny())
    finally:
        CLAIMS.give_back(0)
