"""Every result of the driver becomes a typed error that names who can act."""

from __future__ import annotations

import pytest
from cuda.bindings import driver
from hypothesis import given
from hypothesis import strategies as st
from tests.rollout.cuda.building import host_engine, tiny

from assay.core.errors import AssayError
from assay.edge.status import INTERNAL, status_of
from assay.rollout.errors.cuda import (
    MEANINGS,
    CudaError,
    DeviceExhausted,
    DeviceLost,
    DeviceUnsupported,
    DriverFailed,
    DriverMissing,
    DriverTooOld,
    KernelFailed,
    Meaning,
    error_of,
    meaning_of,
)

CLASSES = {
    Meaning.NO_DRIVER: DriverMissing,
    Meaning.OLD_DRIVER: DriverTooOld,
    Meaning.UNSUPPORTED: DeviceUnsupported,
    Meaning.EXHAUSTED: DeviceExhausted,
    Meaning.FAULT: KernelFailed,
    Meaning.LOST: DeviceLost,
    Meaning.REFUSED: DriverFailed,
}


@pytest.mark.parametrize("result", list(driver.CUresult), ids=lambda result: str(result.name))
def test_every_result_of_the_bindings_has_one_meaning(result: driver.CUresult) -> None:
    meaning = meaning_of(result.name)
    assert meaning is not None, "name it in the table"
    if meaning is Meaning.FINE:
        return
    error = error_of(result.name, "a copy", device="H200", lost=[7, 9])
    assert type(error) is CLASSES[meaning]
    assert result.name in str(error)
    assert "H200: a copy" in str(error)
    assert isinstance(error, AssayError)
    assert status_of(error) != INTERNAL
    if isinstance(error, KernelFailed):
        assert error.rollouts == (7, 9)


def test_the_table_names_no_result_that_the_bindings_lack_and_none_twice() -> None:
    known = {result.name for result in driver.CUresult}
    assert set(MEANINGS) <= known
    assert len(MEANINGS) == len(known)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("CUDA_ERROR_NO_DEVICE", DriverMissing),
        ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", DriverTooOld),
        ("CUDA_ERROR_OUT_OF_MEMORY", DeviceExhausted),
        ("CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", DeviceUnsupported),
        ("CUDA_ERROR_ILLEGAL_ADDRESS", KernelFailed),
        ("CUDA_ERROR_LAUNCH_TIMEOUT", KernelFailed),
        ("CUDA_ERROR_ECC_UNCORRECTABLE", DeviceLost),
        ("CUDA_ERROR_INVALID_VALUE", DriverFailed),
    ],
)
def test_who_can_act_is_said_by_the_class(name: str, kind: type[CudaError]) -> None:
    assert type(error_of(name, "x")) is kind


@given(st.text(max_size=60))
def test_a_result_of_a_later_driver_is_a_driver_that_failed(name: str) -> None:
    if meaning_of(name) is None:
        assert type(error_of(name, "x")) is DriverFailed


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("CUDA_ERROR_ILLEGAL_ADDRESS", KernelFailed),
        ("CUDA_ERROR_ECC_UNCORRECTABLE", DeviceLost),
        ("CUDA_ERROR_INVALID_CONTEXT", KernelFailed),
    ],
)
def test_an_engine_whose_driver_reports_a_failure_names_the_lost_rollouts(
    monkeypatch: pytest.MonkeyPatch, name: str, kind: type[KernelFailed]
) -> None:
    with host_engine(tiny()) as engine:
        with engine.pause():
            engine.submit([1], max_tokens=50, seeds=[1], user_ids=[70], want_reward=False)
            monkeypatch.setattr(engine.machine, "failure", lambda: name)
            for _ in range(600):
                engine.wait(0.1)
                if engine._watch.lost:
                    break
        with pytest.raises(kind, match=name) as lost:
            engine.poll()
        assert type(lost.value) is kind
        assert lost.value.rollouts == (70,)
        monkeypatch.undo()
