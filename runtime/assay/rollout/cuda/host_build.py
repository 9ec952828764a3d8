"""The kernel on this host: the same sources, compiled by a C++ compiler, every device thread a
fiber.

For tests and for a look at the kernel without a GPU; it is slow. One build per sizes, kept in the
cache.
"""

from __future__ import annotations

import ctypes as ct
import hashlib
import os
import shutil
import subprocess
import threading
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.rollout.cuda.machine import Params, RingPlacement
from assay.rollout.cuda.program import KERNEL, NATIVE, cache_folder, sources
from assay.rollout.errors.cuda import CompilerMissing, KernelRejected

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from assay.rollout.cuda.sizes import Sizes

FLAGS: Final = (  # a device stops at a load that is not at a multiple of its size: so does this
    *("-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"),
    *("-std=c++17", "-O2", "-g1", "-fPIC", "-shared", "-ffp-contract=off", "-U_FORTIFY_SOURCE"),
    *("-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused-function"),
)
_ALIGNMENT: Final = 256


def compile_host(sizes: Sizes, *, folder: Path | None = None) -> Path:
    """The shared library of these sizes.

    Raises:
        CompilerMissing: no `$CXX`, `c++` or `g++`.
        KernelRejected: it reports an error.
    """
    named = os.environ.get("CXX")
    compiler = next(
        (found for name in (named, "c++", "g++") if name and (found := shutil.which(name))), None
    )
    if compiler is None:
        raise CompilerMissing("the kernel's host build needs a C++ compiler (g++ or clang++)")
    defines = [f"-D{name}={value}" for name, value in sorted(sizes.defines.items())]
    text = sources(), (KERNEL / "emulate.cpp").read_text("utf-8"), FLAGS, defines, compiler
    key = hashlib.sha256(repr(text).encode()).hexdigest()
    made = (folder or cache_folder()) / f"host-{key}.so"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        scratch = made.with_suffix(f".{os.getpid()}.tmp")
        includes = [f"-I{KERNEL}", f"-I{NATIVE}"]
        command = [compiler, *FLAGS, *defines, *includes, str(KERNEL / "emulate.cpp")]
        done = subprocess.run(  # noqa: S603 - our compiler, our sources
            [*command, "-o", str(scratch), "-lm"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise KernelRejected(f"{compiler} failed", done.stderr)
        scratch.replace(made)
    return made


def load_host(sizes: Sizes, *, folder: Path | None = None) -> ct.CDLL:
    """The library, loaded."""
    library = ct.CDLL(str(compile_host(sizes, folder=folder)))
    library.assay_size_of.restype = ct.c_uint64
    library.assay_emulate.argtypes = (ct.POINTER(Params), ct.c_uint32, ct.c_uint64)
    library.assay_desk_credits.restype = ct.c_void_p
    return library


class HostMachine:
    """Satisfies `Machine`; the kernel runs on a thread of this process.

    `seed` draws the order in which fibers run; 0: always the same.
    """

    placement = RingPlacement.PROCESS
    name = "host build"
    lacks = ""

    def __init__(
        self, sizes: Sizes, *, blocks: int = 2, seed: int = 0, folder: Path | None = None
    ) -> None:
        self._library = load_host(sizes, folder=folder)
        self._blocks, self._seed = blocks, seed
        self._memory: dict[int, NDArray[np.uint8]] = {}
        self._thread: threading.Thread | None = None
        self._status = 0

    def reserve(self, n_bytes: int) -> int:
        """See `Machine`."""
        raw = np.zeros(n_bytes + _ALIGNMENT, dtype=np.uint8)
        at = -(-raw.ctypes.data // _ALIGNMENT) * _ALIGNMENT
        start = at - raw.ctypes.data
        self._memory[at] = raw[start : start + n_bytes]
        return int(at)

    def share(self, n_bytes: int) -> tuple[int, int]:
        """See `Machine`."""
        at = self.reserve(n_bytes)
        return at, at

    def write(self, at: int, data: NDArray[Any]) -> None:
        """See `Machine`."""
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        self._memory[at][: len(flat)] = flat

    def read(self, at: int, n_bytes: int) -> NDArray[np.uint8]:
        """See `Machine`."""
        return self._memory[at][:n_bytes].copy()

    def memory_at(self, at: int) -> NDArray[np.uint8]:
        """The bytes that were reserved at an address."""
        return self._memory[at]

    def start(self, params: Params) -> None:
        """See `Machine`."""

        def run() -> None:
            self._status = self._library.assay_emulate(ct.byref(params), self._blocks, self._seed)

        self._thread = threading.Thread(target=run, name="assay-cuda-host", daemon=True)
        self._thread.start()

    def failure(self) -> str | None:
        """See `Machine`."""
        return "out of memory" if self._status else None

    def close(self, timeout_s: float) -> bool:
        """See `Machine`."""
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                return False
        self._memory.clear()
        return True
