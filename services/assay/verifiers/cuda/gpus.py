"""The GPUs of this host, and a lease on one of them that excludes every other run.

A time is worth something only where nothing else used the device, and memory that a process leaves
is not cleared for the next: so one run has one GPU, of this host's workers at least.
"""

import contextlib
import ctypes
import fcntl
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.core.errors import DependencyDown, FailedPrecondition

_COMMON: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
_DEVICE: Final = re.compile(r"nvidia([0-9]{1,3})")
_NO_GPU: Final = frozenset({34, 100})
"""CUDA_ERROR_STUB_LIBRARY, CUDA_ERROR_NO_DEVICE."""
_ASKED_MAX: Final = 36_000
"""Times that a busy host is asked, `_PAUSE_S` apart: an hour."""
_PAUSE_S: Final = 0.1


class GpuMissing(FailedPrecondition):
    """This host has no NVIDIA driver or no GPU; the operator runs the stage elsewhere."""


class GpuBusy(DependencyDown):
    """Other runs held every GPU of this host for too long."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One of this host's."""

    device: str
    """Its file in `/dev`."""

    def devices(self, folder: Path = Path("/dev")) -> tuple[str, ...]:
        """The files in `/dev` that a process needs for it."""
        return (self.device, *(name for name in _COMMON if (folder / name).exists()))


def find_gpus(folder: Path = Path("/dev"), library: str = "libcuda.so.1") -> Sequence[Gpu]:
    """The GPUs whose device files this process sees, once the driver has answered.

    Raises:
        GpuMissing: no driver can be loaded, it finds no device, or there is no file of one.
        DependencyDown: the driver failed otherwise.
    """
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        raise GpuMissing(f"no NVIDIA driver ({library}) on this host") from None
    status = int(driver.cuInit(0))
    if status in _NO_GPU:
        raise GpuMissing(f"the NVIDIA driver finds no GPU on this host: cuInit returns {status}")
    if status:
        raise DependencyDown(f"the NVIDIA driver does not work: cuInit returns {status}")
    names = sorted(path.name for path in folder.iterdir() if _DEVICE.fullmatch(path.name))
    if not names:
        raise GpuMissing(f"the driver works, but {folder} has no nvidiaN")
    return [Gpu(name) for name in names]


@contextlib.contextmanager
def leased(
    gpus: Sequence[Gpu], folder: Path, pause: Callable[[float], None], asked_max: int = _ASKED_MAX
) -> Iterator[Gpu]:
    """Hold one of `gpus` alone; the lease ends with the process that holds it, too.

    Args:
        gpus: at least one.
        folder: of the lock files, the same for all workers of the host.
        pause: sleeps for some seconds.
        asked_max: times that all are asked.

    Raises:
        GpuBusy: none was free.
    """
    with contextlib.ExitStack() as held:
        files = [
            held.enter_context(os.fdopen(_opened(folder / f"{gpu.device}.lock"), "wb"))
            for gpu in gpus
        ]
        for _ in range(asked_max):
            for gpu, file in zip(gpus, files, strict=True):
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield gpu
                    return
            pause(_PAUSE_S)
    raise GpuBusy(f"every GPU was held: {', '.join(gpu.device for gpu in gpus)}")


def _opened(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
