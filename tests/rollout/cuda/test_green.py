"""Multiprocessors set aside: what is asked of the driver, and what its answers become. The driver
itself is asked in test_gpu.py, where there is a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("cuda.bindings")

from cuda.bindings import driver as bindings

from assay.config.rollouts import RolloutSettings
from assay.rollout import InvalidRollout
from assay.rollout.cuda.gpu import _GREEN_CALLS, set_aside
from assay.rollout.errors.cuda import CudaError, DeviceUnsupported, DriverFailed

STATUS = bindings.CUresult
OK = STATUS.CUDA_SUCCESS
WHOLE, GROUP = 132, 8


def sms(n: int) -> SimpleNamespace:
    return SimpleNamespace(sm=SimpleNamespace(smCount=n))


class Driver:
    """Grants whole groups of 8, as sm_90 does; one call can be told to fail."""

    CUresult = bindings.CUresult
    CUdevResourceType = bindings.CUdevResourceType
    CUgreenCtxCreate_flags = bindings.CUgreenCtxCreate_flags
    CUstream_flags = bindings.CUstream_flags

    def __init__(self, fails: str = "", status: Any = None) -> None:
        self.fails, self.status, self.open = fails, status, 0

    def __getattr__(self, name: str) -> Any:
        if name not in _GREEN_CALLS:
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            if name == self.fails:
                return (self.status, *(None for _ in range(3 if "Split" in name else 1)))
            return OK, *getattr(self, f"_{name}")(*arguments)

        return call

    def _cuDeviceGetDevResource(self, *_: Any) -> Any:
        return (sms(WHOLE),)

    def _cuDevSmResourceSplitByCount(self, n: int, every: Any, flags: int, wanted: int) -> Any:
        granted = -(-wanted // GROUP) * GROUP
        if granted > every.sm.smCount:
            return [], 0, every
        assert (n, flags) == (1, 0)
        return [sms(granted)], 1, sms(WHOLE - granted)

    def _cuDevResourceGenerateDesc(self, parts: Any, n: int) -> Any:
        assert len(parts) == n
        return ("description",)

    def _cuGreenCtxCreate(self, *_: Any) -> Any:
        self.open += 1
        return ("green",)

    def _cuCtxFromGreenCtx(self, handle: str) -> Any:
        return (f"{handle}, to make current",)

    def _cuGreenCtxStreamCreate(self, handle: str, flags: int, priority: int) -> Any:
        assert (flags, priority) == (1, 0)
        return (f"stream of {handle}",)

    def _cuGreenCtxDestroy(self, _: Any) -> Any:
        self.open -= 1
        return ()


def test_the_calls_are_those_of_the_bindings() -> None:
    assert all(callable(getattr(bindings, name)) for name in _GREEN_CALLS)


@pytest.mark.parametrize(("wanted", "granted"), [(1, 8), (8, 8), (60, 64), (128, 128)])
def test_whole_groups_are_granted_and_the_rest_remains(wanted: int, granted: int) -> None:
    driver = Driver()
    green = set_aside(driver, 0, wanted)
    assert (green.multiprocessors, green.rest) == (granted, WHOLE - granted)
    assert green.stream() == "stream of green"
    assert driver.open == 1
    green.close()
    assert driver.open == 0


@pytest.mark.parametrize("wanted", [0, 129, 131, 132, 1000])
def test_what_the_device_cannot_give_is_refused_by_its_field(wanted: int) -> None:
    driver = Driver()
    with pytest.raises(InvalidRollout, match="green_sms"):
        set_aside(driver, 0, wanted)
    assert driver.open == 0


@pytest.mark.parametrize(
    ("call", "status", "error"),
    [
        ("cuDeviceGetDevResource", STATUS.CUDA_ERROR_NOT_SUPPORTED, DeviceUnsupported),
        (
            "cuDevSmResourceSplitByCount",
            STATUS.CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
            InvalidRollout,
        ),
        ("cuDevSmResourceSplitByCount", STATUS.CUDA_ERROR_INVALID_RESOURCE_TYPE, DriverFailed),
        ("cuDevResourceGenerateDesc", STATUS.CUDA_ERROR_INVALID_VALUE, DriverFailed),
        ("cuGreenCtxCreate", STATUS.CUDA_ERROR_NOT_SUPPORTED, DeviceUnsupported),
        ("cuCtxFromGreenCtx", STATUS.CUDA_ERROR_INVALID_CONTEXT, DriverFailed),
    ],
)
def test_results_of_the_driver_are_errors_with_a_type(call: str, status: Any, error: Any) -> None:
    driver = Driver(call, status)
    with pytest.raises(error):
        set_aside(driver, 0, 64, name="H200")
    assert driver.open == 0


def test_bindings_without_green_contexts_are_said() -> None:
    with pytest.raises(CudaError, match="no green contexts"):
        set_aside(SimpleNamespace(), 0, 8)


def test_the_setting_is_a_count() -> None:
    assert RolloutSettings(gpu_green_sms=64).gpu_green_sms == 64
    assert RolloutSettings().gpu_green_sms is None
    with pytest.raises(ValueError, match="gpu_green_sms"):
        RolloutSettings(gpu_green_sms=0)
