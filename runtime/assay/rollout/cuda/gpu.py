"""The kernel on a GPU, through the driver's bindings, which are imported when a device is opened.

Order, for a kernel that never ends: everything is loaded and allocated first, then one cooperative
launch on a non-blocking stream (a grid that does not fit is refused instead of hanging), then only
copies on a second non-blocking stream. Nothing uses the default stream.
"""

from __future__ import annotations

import ctypes as ct
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.rollout.cuda.machine import Params, RingPlacement
from assay.rollout.cuda.program import ENTRY, Program, compile_program
from assay.rollout.cuda.sizes import SHARED_BYTES_MAX
from assay.rollout.errors import InvalidRollout
from assay.rollout.errors.cuda import (
    CompilerMissing,
    DeviceInUse,
    DeviceUnsupported,
    DriverMissing,
    DriverTooOld,
    Meaning,
    error_of,
    meaning_of,
)
from assay.rollout.interface.checks import check_integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from assay.rollout.cuda.sizes import Sizes

DRIVER_MIN: Final = 13000
"""CUDA version of the driver, 1000 * major + 10 * minor: cubins of the extra's compiler need it."""
CAPABILITY_MIN: Final = (8, 0)
CAPABILITY_FAST: Final = (9, 0)
"""From here on, with enough shared memory, the kernel is not the general one."""
_COPY_BYTES: Final = 1 << 24
_WAIT_S: Final = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """What the driver says of a device."""

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    memory_bytes: int
    driver: int
    coherent: bool
    shared_bytes: int = SHARED_BYTES_MAX
    """Most dynamic shared memory of a block."""

    @property
    def architecture(self) -> str:
        """Of it alone, without what only devices of one generation have."""
        return f"sm_{self.capability[0]}{self.capability[1]}"

    @property
    def lacks(self) -> str:
        """Why it takes the general kernel only; empty: it takes every kernel."""
        if self.capability < CAPABILITY_FAST:
            return f"{self.name} is {self.architecture}, below sm_90"
        if self.shared_bytes < SHARED_BYTES_MAX:
            return f"{self.name} has {self.shared_bytes} bytes of shared memory for a block"
        return ""


def fitted(sizes: Sizes, info: DeviceInfo) -> tuple[Sizes, str]:
    """The kernel of these sizes that a device takes, and for which architecture it is compiled.

    Raises:
        DeviceUnsupported: it has too little shared memory for the general kernel, too.
    """
    if not sizes.tuning.general and not info.lacks:
        return sizes, f"{info.architecture}a"
    sizes = replace(sizes, tuning=sizes.tuning.for_less())
    needed = shared_bytes(sizes)
    if needed > info.shared_bytes:
        has = f"{info.name} has {info.shared_bytes} bytes of shared memory for a block"
        raise DeviceUnsupported(f"{has}, this model's kernel needs {needed}")
    return sizes, info.architecture


def driver() -> Any:
    """The driver's bindings, initialised.

    Raises:
        CompilerMissing: `cuda-bindings` is not installed.
        DriverMissing: no driver, or no device.
        DriverTooOld: it does not run this compiler's cubins.
    """
    try:
        from cuda.bindings import driver as bindings
    except ImportError as problem:
        raise CompilerMissing("pip install 'assay[cuda]'") from problem
    try:
        (status,) = bindings.cuInit(0)
    except Exception as problem:  # the loader of the library has an error type of its own
        raise DriverMissing("no NVIDIA driver (libcuda.so.1) on this machine") from problem
    if status != bindings.CUresult.CUDA_SUCCESS:
        raise error_of(status.name, "cuInit")
    _, version = bindings.cuDriverGetVersion()
    if version < DRIVER_MIN:
        raise DriverTooOld(f"the driver is of CUDA {version}, the kernel needs {DRIVER_MIN}")
    return bindings


def describe(ordinal: int = 0) -> DeviceInfo:
    """A device.

    Raises:
        DriverMissing, DriverTooOld, CompilerMissing: as `driver`.
        DeviceUnsupported: there is no such device, or it is too old.
    """
    cu = driver()
    status, device = cu.cuDeviceGet(ordinal)
    if status != cu.CUresult.CUDA_SUCCESS:
        raise error_of(status.name, f"device {ordinal}")
    kinds = cu.CUdevice_attribute

    def attribute(name: str) -> int:
        kind = getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}")  # older bindings index no enumeration
        return int(cu.cuDeviceGetAttribute(kind, device)[1])

    capability = attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")
    info = DeviceInfo(
        name=cu.cuDeviceGetName(128, device)[1].partition(b"\0")[0].decode(),
        capability=capability,
        multiprocessors=attribute("MULTIPROCESSOR_COUNT"),
        memory_bytes=int(cu.cuDeviceTotalMem(device)[1]),
        driver=int(cu.cuDriverGetVersion()[1]),
        coherent=bool(attribute("HOST_NATIVE_ATOMIC_SUPPORTED")),
        shared_bytes=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
    )
    if capability < CAPABILITY_MIN:
        raise DeviceUnsupported(f"{info.name} is sm_{capability[0]}{capability[1]}, below sm_80")
    return info


_GREEN_CALLS: Final = (
    *("cuDeviceGetDevResource", "cuDevSmResourceSplitByCount", "cuDevResourceGenerateDesc"),
    *("cuGreenCtxCreate", "cuCtxFromGreenCtx", "cuGreenCtxStreamCreate", "cuGreenCtxDestroy"),
)


@dataclass(frozen=True, slots=True)
class GreenContext:
    """Multiprocessors that the driver sets aside: what this process launches in it runs on them
    only, and the rest remains for its other kernels. Made by `set_aside`; `close` it after its
    streams."""

    multiprocessors: int
    """Those that were granted."""
    rest: int
    """Those that other kernels keep."""
    context: Any
    """To make current, like a primary context."""
    handle: Any
    _cu: Any

    def stream(self) -> Any:
        """A new non-blocking one, in which kernels run on these multiprocessors.

        Raises:
            CudaError: the driver refuses it.
        """
        flag = int(self._cu.CUstream_flags.CU_STREAM_NON_BLOCKING)
        return _checked(self._cu, self._cu.cuGreenCtxStreamCreate(self.handle, flag, 0))

    def close(self) -> None:
        """Give the multiprocessors back."""
        self._cu.cuGreenCtxDestroy(self.handle)


def set_aside(cu: Any, device: Any, wanted: int, *, name: str = "") -> GreenContext:
    """A green context of at least so many multiprocessors.

    Args:
        cu: the driver's bindings, initialised, with the device's primary context retained.
        device: as the bindings name it.
        wanted: at least 1, at most what the device has in whole groups.
        name: of the device, for errors.

    Raises:
        InvalidRollout: `green_sms`: the device has fewer in whole groups, or none would be left.
        DeviceUnsupported: driver, bindings or device have no green contexts.
        CudaError: another result of the driver.
    """
    if not all(hasattr(cu, call) for call in _GREEN_CALLS):
        raise DeviceUnsupported("the driver's bindings have no green contexts")

    def done(result: tuple[Any, ...]) -> Any:
        return _checked(cu, result, name)

    kind = cu.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    every = done(cu.cuDeviceGetDevResource(device, kind))
    whole = int(every.sm.smCount)
    check_integer("green_sms", wanted, 1, whole - 1)
    split = cu.cuDevSmResourceSplitByCount(1, every, 0, wanted)
    none: tuple[Any, int, Any] = (None, 0, None)
    groups, n_groups, rest = none if split[0] in _no_such_split(cu) else done(split)
    if n_groups < 1:
        detail = f"{wanted} of {whole} multiprocessors, in whole groups, cannot be set aside"
        raise InvalidRollout("green_sms", detail)
    granted = groups[0]
    description = done(cu.cuDevResourceGenerateDesc([granted], 1))
    flag = int(cu.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM)
    handle = done(cu.cuGreenCtxCreate(description, device, flag))
    try:
        context = done(cu.cuCtxFromGreenCtx(handle))
    except BaseException:
        cu.cuGreenCtxDestroy(handle)
        raise
    return GreenContext(int(granted.sm.smCount), int(rest.sm.smCount), context, handle, cu)


def _no_such_split(cu: Any) -> tuple[Any, Any]:
    status = cu.CUresult
    return status.CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, status.CUDA_ERROR_INVALID_VALUE


def _checked(cu: Any, result: tuple[Any, ...], name: str = "") -> Any:
    status, *rest = result
    if status != cu.CUresult.CUDA_SUCCESS:
        raise error_of(status.name, "a green context", device=name)
    return rest[0] if len(rest) == 1 else rest


class Claims:
    """Which devices this process has a kernel on. The driver loads a module only when no kernel
    runs in its context, so a second engine would wait for the end of the first, without a bound."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: set[int] = set()

    def take(self, ordinal: int, name: str) -> None:
        """Claim a device.

        Raises:
            DeviceInUse: it is claimed.
        """
        with self._lock:
            if ordinal in self._taken:
                raise DeviceInUse(f"an engine of this process runs on {name} (device {ordinal})")
            self._taken.add(ordinal)

    def give_back(self, ordinal: int) -> None:
        """Its kernel has ended."""
        with self._lock:
            self._taken.discard(ordinal)


CLAIMS: Final = Claims()


class GpuMachine:
    """Satisfies `Machine`. One kernel, in the device's primary context, or in a green context of at
    least `green_sms` multiprocessors, which leaves the rest to other kernels of this process.

    Raises:
        DeviceInUse: another one of this process is open on the device.
    """

    def __init__(
        self,
        sizes: Sizes,
        *,
        ordinal: int = 0,
        sm_max: int | None = None,
        green_sms: int | None = None,
    ) -> None:
        self.info = describe(ordinal)
        self.name = self.info.name
        coherent = self.info.coherent
        self.placement = RingPlacement.COHERENT if coherent else RingPlacement.MAPPED
        self._cu = driver()
        self._ordinal = ordinal
        CLAIMS.take(ordinal, self.name)
        try:
            self._open(sizes, sm_max, green_sms)
        except BaseException:
            CLAIMS.give_back(ordinal)
            raise

    def _open(self, sizes: Sizes, sm_max: int | None, green_sms: int | None) -> None:
        """Compile, enter the context and load the kernel."""
        sizes, architecture = fitted(sizes, self.info)
        self.lacks = self.info.lacks
        self._threads = sizes.tuning.threads + sizes.tuning.feeder
        self.program: Program = compile_program(sizes.defines, architecture)
        self._device = self._done(self._cu.cuDeviceGet(self._ordinal))
        self._primary = self._done(self._cu.cuDevicePrimaryCtxRetain(self._device))
        self._context = self._primary
        self.green: GreenContext | None = None
        try:
            self._enter()
            if green_sms is not None:
                self.green = set_aside(self._cu, self._device, green_sms, name=self.name)
                self._context = self.green.context
                self._enter()
            self._load(sizes)
        except BaseException:
            self._leave()
            raise
        there = self.green.multiprocessors if self.green else self.info.multiprocessors
        self.blocks = min(there, sm_max or there)
        """Of the grid: one for each multiprocessor that it may have."""
        self._on_device: list[Any] = []
        self._on_host: list[int] = []
        self._staging = self._pinned(_COPY_BYTES)
        self._params: Params | None = None

    def _load(self, sizes: Sizes) -> None:
        """The kernel, and the two streams."""
        module = self._done(self._cu.cuModuleLoadData(self.program.cubin))
        self._module = module
        self._function = self._done(self._cu.cuModuleGetFunction(module, ENTRY.encode()))
        self._shared_bytes = shared_bytes(sizes)
        attribute = self._cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._done(self._cu.cuFuncSetAttribute(self._function, attribute, self._shared_bytes))
        flag = int(self._cu.CUstream_flags.CU_STREAM_NON_BLOCKING)
        plain = self._cu.cuStreamCreate
        self._stream = self.green.stream() if self.green else self._done(plain(flag))
        self._copies = self._done(plain(flag))

    def _leave(self) -> None:
        """Both contexts; what was made in them has been freed."""
        self._cu.cuCtxSetCurrent(self._primary)
        if self.green is not None:
            self.green.close()
        self._cu.cuDevicePrimaryCtxRelease(self._device)

    def _enter(self) -> None:
        """Make the context current: it belongs to a thread."""
        self._done(self._cu.cuCtxSetCurrent(self._context))

    def _done(self, result: tuple[Any, ...]) -> Any:
        status, *rest = result
        if status != self._cu.CUresult.CUDA_SUCCESS:
            raise error_of(status.name, "a call of the engine", device=self.name)
        return rest[0] if rest else None

    def _pinned(self, n_bytes: int) -> int:
        at = int(self._done(self._cu.cuMemHostAlloc(n_bytes, self._cu.CU_MEMHOSTALLOC_DEVICEMAP)))
        self._on_host.append(at)
        ct.memset(at, 0, n_bytes)
        return at

    def reserve(self, n_bytes: int) -> int:
        """See `Machine`."""
        self._enter()
        at = self._done(self._cu.cuMemAlloc(n_bytes))
        self._on_device.append(at)
        self._done(self._cu.cuMemsetD8Async(at, 0, n_bytes, self._copies))
        self._done(self._cu.cuStreamSynchronize(self._copies))
        return int(at)

    def share(self, n_bytes: int) -> tuple[int, int]:
        """See `Machine`."""
        self._enter()
        at = self._pinned(n_bytes)
        return at, int(self._done(self._cu.cuMemHostGetDevicePointer(at, 0)))

    def write(self, at: int, data: NDArray[Any]) -> None:
        """See `Machine`. Through pinned memory: the copy engine works beside the kernel."""
        self._enter()
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        for first in range(0, len(flat), _COPY_BYTES):
            piece = flat[first : first + _COPY_BYTES]
            ct.memmove(self._staging, piece.ctypes.data, len(piece))
            copy = self._cu.cuMemcpyHtoDAsync(at + first, self._staging, len(piece), self._copies)
            self._done(copy)
            self._done(self._cu.cuStreamSynchronize(self._copies))

    def read(self, at: int, n_bytes: int) -> NDArray[np.uint8]:
        """See `Machine`."""
        self._enter()
        out = np.empty(n_bytes, dtype=np.uint8)
        self._done(self._cu.cuMemcpyDtoHAsync(out.ctypes.data, at, n_bytes, self._copies))
        self._done(self._cu.cuStreamSynchronize(self._copies))
        return out

    def start(self, params: Params) -> None:
        """See `Machine`."""
        self._enter()
        self._params = params
        pointers = (ct.c_void_p * 1)(ct.addressof(params))
        self._done(
            self._cu.cuLaunchCooperativeKernel(
                self._function,
                *(self.blocks, 1, 1),
                *(self._threads, 1, 1),
                self._shared_bytes,
                self._stream,
                ct.addressof(pointers),
            )
        )

    def _status(self) -> Any:
        self._enter()
        (status,) = self._cu.cuStreamQuery(self._stream)
        return status

    def failure(self) -> str | None:
        """See `Machine`."""
        name = str(self._status().name)
        return None if meaning_of(name) is Meaning.FINE else name

    def close(self, timeout_s: float) -> bool:
        """See `Machine`. A kernel that does not end keeps its memory until the process ends."""
        deadline = time.perf_counter() + timeout_s
        while self._params and self._status() == self._cu.CUresult.CUDA_ERROR_NOT_READY:
            if time.perf_counter() > deadline:
                return False
            time.sleep(_WAIT_S)
        for at in self._on_device:
            self._cu.cuMemFree(at)
        for host in self._on_host:
            self._cu.cuMemFreeHost(host)
        self._on_device.clear()
        self._on_host.clear()
        self._cu.cuModuleUnload(self._module)
        if self.green is not None:  # else they end with the primary context
            self._cu.cuStreamDestroy(self._stream)
            self._cu.cuStreamDestroy(self._copies)
        self._leave()
        CLAIMS.give_back(self._ordinal)
        return True


def shared_bytes(sizes: Sizes) -> int:
    """Dynamic shared memory of a block (`assay_shared` in kernel/memory.h), rounded up."""
    t, head_dim = sizes.tuning, sizes.head_dim
    warps = t.threads // 32
    attend = warps * (2 * 16 * (head_dim + 32) + 2 * head_dim)
    sample = 8 * 2048 + 12 * t.threads + 16
    scales, spans = 4 * t.rows, 4 * 42 * warps
    ring = t.stages * (1024 * t.piece + 2 * 8)
    plan = 64 + t.rows * (6 * 4 + 2 * 16 + 1) + 32 * 10
    return ring + plan + scales + spans + max(4 * warps * 64 * 20, attend, sample) + 256


def copy_bandwidth(*, n_bytes: int = 1 << 30, copies: int = 16) -> float:
    """Bytes read and written per second by copies within the device.

    Raises:
        DriverMissing, DriverTooOld, CompilerMissing, DeviceUnsupported: as `describe`.
        CudaError: the driver's errors (`error_of`).
    """
    name = describe().name
    cu = driver()

    def done(result: tuple[Any, ...]) -> Any:
        status, *rest = result
        if status != cu.CUresult.CUDA_SUCCESS:
            raise error_of(status.name, "copies within the device", device=name)
        return rest[0] if rest else None

    device = done(cu.cuDeviceGet(0))
    done(cu.cuCtxSetCurrent(done(cu.cuDevicePrimaryCtxRetain(device))))
    stream = done(cu.cuStreamCreate(int(cu.CUstream_flags.CU_STREAM_NON_BLOCKING)))
    source, target = (done(cu.cuMemAlloc(n_bytes)) for _ in range(2))
    try:
        for round_of in (2, copies):
            began = time.perf_counter()
            for _ in range(round_of):
                done(cu.cuMemcpyDtoDAsync(target, source, n_bytes, stream))
            done(cu.cuStreamSynchronize(stream))
            seconds = time.perf_counter() - began
    finally:
        cu.cuMemFree(source)
        cu.cuMemFree(target)
        cu.cuDevicePrimaryCtxRelease(device)
    return 2 * n_bytes * copies / seconds
