"""Errors of the CUDA engine, and who can act on each.

RolloutError
+-- CudaError
    +-- DriverMissing    (FailedPrecondition)  the operator installs a driver, or has no GPU here
    +-- DriverTooOld     (FailedPrecondition)  the operator updates the driver
    +-- DeviceUnsupported(FailedPrecondition)  this GPU is older than sm_90
    +-- CompilerMissing  (FailedPrecondition)  the operator installs the extra `cuda`
    +-- KernelRejected   (InvalidRequest)      the author of the sources; `log` says why
    +-- CorruptCubin     (InvalidRequest)      the file is not what the compiler makes
    +-- DeviceExhausted  (DependencyDown)      smaller limits, or a larger GPU
    +-- KernelHung       (DependencyDown)      names the lost rollouts; make another engine
    +-- KernelFailed     (DependencyDown)      the same, after an illegal address or a lost device
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.core import errors as core
from assay.rollout.errors import RolloutError

if TYPE_CHECKING:
    from collections.abc import Sequence


class CudaError(RolloutError):
    """Root of the CUDA engine's errors; not raised itself."""


class DriverMissing(CudaError, core.FailedPrecondition):
    """No NVIDIA driver can be loaded."""


class DriverTooOld(CudaError, core.FailedPrecondition):
    """The driver does not run cubins of this CUDA version."""


class DeviceUnsupported(CudaError, core.FailedPrecondition):
    """The GPU lacks what the kernel needs; `remote` engines and the CPU engine remain."""


class CompilerMissing(CudaError, core.FailedPrecondition):
    """NVRTC, or a C++ compiler for the host build, is not installed."""


class KernelRejected(CudaError, core.InvalidRequest):
    """The compiler refused the sources; `log` says why."""

    def __init__(self, status: str, log: str) -> None:
        super().__init__(f"{status}: {log}" if log else status, field="source")
        self.log = log


class CorruptCubin(CudaError, core.InvalidRequest):
    """A cubin that cannot be read."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, field="cubin")


class DeviceExhausted(CudaError, core.DependencyDown):
    """The device has too little memory for the weights, the KV arena and the scratch."""


class _Lost(CudaError, core.DependencyDown):
    def __init__(self, message: str, rollouts: Sequence[int]) -> None:
        super().__init__(f"{message}; {len(rollouts)} rollouts are lost")
        self.rollouts = tuple(rollouts)
        """User ids of the rollouts that were in flight."""


class KernelHung(_Lost):
    """The kernel's heartbeat stopped."""


class KernelFailed(_Lost):
    """The kernel ended by itself: the driver's error, or a damaged line on a ring."""
