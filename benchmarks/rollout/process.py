"""A rollout service in a process of its own, and what can be read of the process from outside."""

import asyncio
import contextlib
import json
import os
import signal
import struct
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

START_S_MAX = 300.0
DECODING = "assay-decode"
"""What the engine's threads are called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A running service."""

    address: str
    pid: int

    def loop_cpu_s(self) -> float:
        """CPU seconds of its main thread: the event loop, without decoding."""
        stat = Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_text()
        return int(stat.split()[0]) / 1e9

    def beside_cpu_s(self) -> float:
        """CPU seconds of its threads, those that have ended too, without those that decode."""
        decoding_s = (spent_s for name, spent_s in self._threads() if name.startswith(DECODING))
        return process_cpu_s(self.pid) - sum(decoding_s)

    def decoding_cpu_s(self) -> float:
        """CPU seconds of the busiest thread that decodes."""
        return max(spent_s for name, spent_s in self._threads() if name.startswith(DECODING))

    def _threads(self) -> Iterator[tuple[str, float]]:
        """Name and CPU seconds of each."""
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                spent_ns = int((task / "schedstat").read_text().split()[0])
                yield (task / "comm").read_text(), spent_ns / 1e9

    def resident_bytes(self) -> int:
        """Its resident memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def files(self) -> int:
        """Its open file descriptors."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))


def process_cpu_s(pid: int) -> float:
    """CPU seconds of all threads that a process has had."""
    return time.clock_gettime(~pid << 3 | 2)  # as Linux numbers the clocks of processes


@asynccontextmanager
async def service(model: Path, **settings: object) -> AsyncIterator[Service]:
    """A service of the model with `rollout.*` settings, on free ports, until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        ports = {"GRPC_PORT": 0, "HTTP_PORT": 0, "GATEWAY_PORT": 0}
        chosen = {**ports, **settings, "MODEL": model}
        named = {f"ASSAY_ROLLOUT__{name.upper()}": str(value) for name, value in chosen.items()}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "assay.rollout"),
            env={**os.environ, **named, "ASSAY_DATA_DIR": folder},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        ready = Path(folder, "run", "rollout.json")
        try:
            address = await asyncio.to_thread(_listening_at, ready, process)
            yield Service(address=address, pid=process.pid)
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.wait()


def _listening_at(ready: Path, process: asyncio.subprocess.Process) -> str:
    until_s = time.monotonic() + START_S_MAX
    while not ready.exists():
        if process.returncode is not None or time.monotonic() > until_s:
            raise SystemExit(f"the rollout service did not start: {process.returncode}")
        time.sleep(0.05)
    return str(json.loads(ready.read_text())["grpc"])


def tiny_model(folder: Path, positions: int) -> Path:
    """A llama2.c checkpoint of random weights: two layers of 64, 256 token ids."""
    dim, hidden, layers, vocab = 64, 176, 2, 256
    n = vocab * dim + layers * (2 * dim + 4 * dim * dim + 3 * dim * hidden) + dim
    n += positions * (dim // 4)  # the rotary tables, which are not read
    values = np.random.default_rng(1).normal(0, 0.2, n).astype(np.float32)
    path = folder / "tiny.bin"
    header = struct.pack("<7i", dim, hidden, layers, 4, 4, vocab, positions)
    path.write_bytes(header + values.tobytes())
    return path
