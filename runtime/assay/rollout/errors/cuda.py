"""Errors of the CUDA engine, and who can act on each.

RolloutError
+-- CudaError
    +-- DriverMissing    (FailedPrecondition)  the operator installs a driver, or has no GPU here
    +-- DriverTooOld     (FailedPrecondition)  the operator updates the driver
    +-- DeviceUnsupported(FailedPrecondition)  this GPU is older than sm_80
    +-- CompilerMissing  (FailedPrecondition)  the operator installs the extra `cuda`
    +-- KernelRejected   (InvalidRequest)      the author of the sources; `log` says why
    +-- CorruptCubin     (InvalidRequest)      the file is not what the compiler makes
    +-- DeviceExhausted  (DependencyDown)      smaller limits, or a larger GPU
    +-- KernelHung       (DependencyDown)      names the lost rollouts; make another engine
    +-- KernelFailed     (DependencyDown)      the same, after an illegal address
    |   +-- DeviceLost                         the same; the operator looks at the device first
    +-- DriverFailed     (DependencyDown)      any other result of the driver, by name

One table says what each result of the driver's calls (`CUresult`) means, for every call: a fault of
a running kernel is returned by whatever call comes next. A result that is not in it is of a later
driver: `DriverFailed`, by name.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from assay.core import errors as core
from assay.rollout.errors import RolloutError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class CudaError(RolloutError):
    """Root of the CUDA engine's errors; not raised itself."""


class DriverMissing(CudaError, core.FailedPrecondition):
    """No NVIDIA driver can be loaded."""


class DriverTooOld(CudaError, core.FailedPrecondition):
    """The driver does not run cubins of this CUDA version."""


class DeviceUnsupported(CudaError, core.FailedPrecondition):
    """The GPU lacks what the kernel needs; `remote` engines and the CPU engine remain."""


class DeviceInUse(CudaError, core.FailedPrecondition):
    """An engine of this process runs on the device already: close it, or use another process."""


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


class DeviceLost(KernelFailed):
    """The device itself failed: an uncorrectable memory error, a lost link, a reset."""


class DriverFailed(CudaError, core.DependencyDown):
    """The driver refused a call for a reason that no other error has."""


PREFIX: Final = "CUDA_ERROR_"


class Meaning(StrEnum):
    """Who can act on a result."""

    FINE = "fine"
    """Done, or not done yet."""
    NO_DRIVER = "no driver"
    """The operator installs a driver, or runs this where there is a GPU."""
    OLD_DRIVER = "old driver"
    """The operator updates the driver, or restarts after an update."""
    UNSUPPORTED = "unsupported"
    """This device or driver cannot do what the kernel needs."""
    EXHAUSTED = "exhausted"
    """Too little memory or other resources: smaller limits."""
    FAULT = "fault"
    """The kernel faulted: its context is gone, the device is free."""
    LOST = "lost"
    """The device failed: the operator looks at it before it is used again."""
    REFUSED = "refused"
    """A call that was wrong, or made at a wrong time: a defect of this program."""


_NAMES: Final = {
    Meaning.FINE: "NOT_READY",
    Meaning.NO_DRIVER: "STUB_LIBRARY NO_DEVICE DEVICE_UNAVAILABLE",
    Meaning.OLD_DRIVER: """
        CALL_REQUIRES_NEWER_DRIVER SYSTEM_DRIVER_MISMATCH COMPAT_NOT_SUPPORTED_ON_DEVICE
        INSUFFICIENT_LOADER_VERSION UNSUPPORTED_PTX_VERSION""",
    Meaning.UNSUPPORTED: """
        DEVICE_NOT_LICENSED INVALID_DEVICE NO_BINARY_FOR_GPU NOT_SUPPORTED UNSUPPORTED_LIMIT
        PEER_ACCESS_UNSUPPORTED JIT_COMPILER_NOT_FOUND JIT_COMPILATION_DISABLED NOT_PERMITTED
        UNSUPPORTED_EXEC_AFFINITY UNSUPPORTED_DEVSIDE_SYNC COOPERATIVE_LAUNCH_TOO_LARGE
        INVALID_CLUSTER_SIZE CDP_NOT_SUPPORTED CDP_VERSION_MISMATCH
        LAUNCH_INCOMPATIBLE_TEXTURING""",
    Meaning.EXHAUSTED: """
        OUT_OF_MEMORY LAUNCH_OUT_OF_RESOURCES MULTICAST_RESOURCE_FULL TOO_MANY_PEERS
        MPS_MAX_CLIENTS_REACHED MPS_MAX_CONNECTIONS_REACHED""",
    Meaning.FAULT: """
        ILLEGAL_ADDRESS MISALIGNED_ADDRESS INVALID_ADDRESS_SPACE INVALID_PC ILLEGAL_INSTRUCTION
        LAUNCH_FAILED LAUNCH_TIMEOUT ASSERT TENSOR_MEMORY_LEAK CONTEXT_IS_DESTROYED CONTAINED
        TIMEOUT""",
    Meaning.LOST: """
        ECC_UNCORRECTABLE NVLINK_UNCORRECTABLE HARDWARE_STACK_ERROR SYSTEM_NOT_READY
        EXTERNAL_DEVICE FABRIC_NOT_READY KEY_ROTATION OPERATING_SYSTEM MPS_CONNECTION_FAILED
        MPS_RPC_FAILURE MPS_SERVER_NOT_READY MPS_CLIENT_TERMINATED UNKNOWN""",
    Meaning.REFUSED: """
        INVALID_VALUE NOT_INITIALIZED DEINITIALIZED PROFILER_DISABLED PROFILER_NOT_INITIALIZED
        PROFILER_ALREADY_STARTED PROFILER_ALREADY_STOPPED INVALID_IMAGE INVALID_CONTEXT
        CONTEXT_ALREADY_CURRENT MAP_FAILED UNMAP_FAILED ARRAY_IS_MAPPED ALREADY_MAPPED
        ALREADY_ACQUIRED NOT_MAPPED NOT_MAPPED_AS_ARRAY NOT_MAPPED_AS_POINTER
        CONTEXT_ALREADY_IN_USE INVALID_PTX INVALID_GRAPHICS_CONTEXT INVALID_SOURCE FILE_NOT_FOUND
        SHARED_OBJECT_SYMBOL_NOT_FOUND SHARED_OBJECT_INIT_FAILED INVALID_HANDLE ILLEGAL_STATE
        LOSSY_QUERY NOT_FOUND PEER_ACCESS_ALREADY_ENABLED PEER_ACCESS_NOT_ENABLED
        PRIMARY_CONTEXT_ACTIVE HOST_MEMORY_ALREADY_REGISTERED HOST_MEMORY_NOT_REGISTERED
        STREAM_CAPTURE_UNSUPPORTED STREAM_CAPTURE_INVALIDATED STREAM_CAPTURE_MERGE
        STREAM_CAPTURE_UNMATCHED STREAM_CAPTURE_UNJOINED STREAM_CAPTURE_ISOLATION
        STREAM_CAPTURE_IMPLICIT CAPTURED_EVENT STREAM_CAPTURE_WRONG_THREAD
        GRAPH_EXEC_UPDATE_FAILURE FUNCTION_NOT_LOADED INVALID_RESOURCE_TYPE
        INVALID_RESOURCE_CONFIGURATION STREAM_DETACHED GRAPH_RECAPTURE_FAILURE""",
}
MEANINGS: Final[Mapping[str, Meaning]] = MappingProxyType(
    {"CUDA_SUCCESS": Meaning.FINE}
    | {PREFIX + name: meaning for meaning, names in _NAMES.items() for name in names.split()}
)
"""Name of a result -> what it means."""


def meaning_of(name: str) -> Meaning | None:
    """What a result means; `None`: it is of a later driver."""
    return MEANINGS.get(name)


def error_of(name: str, doing: str, *, device: str = "", lost: Sequence[int] = ()) -> CudaError:
    """The error for a result that is not fine.

    Args:
        name: of the result, such as `CUDA_ERROR_NO_DEVICE`.
        doing: what was called, for the message.
        device: its name, if one is open.
        lost: user ids of rollouts that are lost with the kernel.
    """
    where = f"{device}: " if device else ""
    message = f"{where}{doing}: the driver reports {name}"
    match MEANINGS.get(name):
        case Meaning.NO_DRIVER:
            return DriverMissing(message)
        case Meaning.OLD_DRIVER:
            return DriverTooOld(message)
        case Meaning.UNSUPPORTED:
            return DeviceUnsupported(message)
        case Meaning.EXHAUSTED:
            return DeviceExhausted(message)
        case Meaning.FAULT:
            return KernelFailed(message, lost)
        case Meaning.LOST:
            return DeviceLost(message, lost)
    return DriverFailed(message)
