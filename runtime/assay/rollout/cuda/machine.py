"""The port behind which the kernel runs: a GPU (`gpu.py`) or its host build (`host_build.py`)."""

from __future__ import annotations

import ctypes as ct
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class RingPlacement(StrEnum):
    """Where rings and results lie."""

    MAPPED = "mapped"
    """Pinned memory of the host, which the device reads over PCIe."""
    COHERENT = "coherent"
    """Memory of the host on a coherent bus (NVLink-C2C), with native atomics."""
    PROCESS = "process"
    """The host build: memory of this process."""


class Params(ct.Structure):
    """`assay_params`: addresses as the device sees them."""

    _fields_ = (
        ("state", ct.c_uint64),
        ("link", ct.c_uint64),
        ("scratch", ct.c_uint64),
        ("weights", ct.c_uint64 * 2),
        ("adapters", ct.c_uint64 * 2),
        ("keys", ct.c_uint64),
        ("values", ct.c_uint64),
        ("token_offsets", ct.c_uint64),
        ("token_bytes", ct.c_uint64),
        ("turns", ct.c_uint64),
        ("barrier", ct.c_uint64),
    )


class Machine(Protocol):
    """Runs one kernel, once. Everything is reserved before `start`."""

    @property
    def placement(self) -> RingPlacement:
        """Reported beside every figure."""
        ...

    @property
    def name(self) -> str:
        """The device's name, for reports."""
        ...

    @property
    def lacks(self) -> str:
        """Why the device takes the general kernel only; empty: it takes every kernel."""
        ...

    def reserve(self, n_bytes: int) -> int:
        """Zeroed memory of the device.

        Raises:
            DeviceExhausted: there is too little.
        """
        ...

    def share(self, n_bytes: int) -> tuple[int, int]:
        """Zeroed memory that both sides see: its address for the host and for the device.

        Raises:
            DeviceExhausted: there is too little.
        """
        ...

    def write(self, at: int, data: NDArray[Any]) -> None:
        """Copy into reserved memory; what is written to the link afterwards is seen after it."""
        ...

    def read(self, at: int, n_bytes: int) -> NDArray[np.uint8]:
        """Copy out of reserved memory, from its beginning."""
        ...

    def start(self, params: Params) -> None:
        """Launch the kernel; it runs until the link's `stop`."""
        ...

    def failure(self) -> str | None:
        """Why the kernel ended by itself; None: it runs, or was stopped."""
        ...

    def close(self, timeout_s: float) -> bool:
        """Wait for the end of the kernel and free everything; False: it did not end in time."""
        ...
