"""Whole weights that are pushed: bytes per second from the first message until they are staged.

Staged over gRPC, or read from a file in shared memory, beside the weights in use; and over gRPC
into a file, where memory has room for one set of weights: that way is paid for at the activation,
so how long the engine is held is beside it. Nothing decodes meanwhile: the push has the machine to
itself.

Beside them stands what this machine needs for the parts of it, one at a time in one thread, on
bytes as they come: a copy, the CRC-32 and the hash that identifies weights. The speed of a machine
that others share differs from hour to hour, so only figures of one run compare.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.client.rollouts import RolloutClient, Weight
from assay.core.tools.safetensors import Stored, packed
from assay.rollout.library.binding import crc32
from assay.rollout.models.hugging_face import layer_tensor_name
from assay.rollout.models.model import TensorKind
from assay.rollout.models.tensor_checks import TensorDigest
from benchmarks.harness.report import Report, Spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from assay.rollout.models import Model
    from benchmarks.rollout.bare import Bare
    from benchmarks.rollout.process import Service

TARGET_MB_S: Final = 1_000
PART_BYTES: Final = 4 * 1024**2
"""Of a message; `PARTS_BYTES` together are beyond the caches of a core."""
PARTS_BYTES: Final = 48 * 1024**2
FILE: Final = "whole.safetensors"
NAMES: Final = {
    TensorKind.EMBED: "model.embed_tokens.weight",
    TensorKind.FINAL_NORM: "model.norm.weight",
    TensorKind.LM_HEAD: "lm_head.weight",
}


@dataclass(slots=True)
class Way:
    """What was measured of one way."""

    beside_floor: bool = False
    """Each push came right after one of grpcio alone."""
    mb_s: list[float] = field(default_factory=list)
    service_ms: list[float] = field(default_factory=list)
    """CPU per MB."""
    client_ms: list[float] = field(default_factory=list)
    held_ms: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Alone:
    """CPU per MB of the parts of a push, each alone in one thread."""

    ms: dict[str, list[float]] = field(default_factory=dict)

    def measure(self, weights: Mapping[str, Weight]) -> None:
        """Each once, on the first bytes of the weights."""
        data = b"".join(_beginning(weights))
        parts = [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)]
        ways: dict[str, Callable[[bytes], object]] = {
            "a copy": bytearray,
            "CRC-32": crc32,
            "hash": lambda part: TensorDigest().update(memoryview(part)),
        }
        for name, way in ways.items():
            began_s = time.thread_time()
            for part in parts:
                way(part)
            spent_ms = 1e3 * (time.thread_time() - began_s)
            self.ms.setdefault(name, []).append(spent_ms / (len(data) / 1e6))


def _beginning(weights: Mapping[str, Weight]) -> Iterator[memoryview]:
    left = PARTS_BYTES
    for one in weights.values():
        if left <= 0:
            return
        yield memoryview(one.data)[:left]
        left -= len(one.data)


def weights_of(model: Model) -> dict[str, Weight]:
    """All tensors by their Hugging Face names; views, no copies."""
    found = {}
    for kind, layer, shape in model.config.tensor_shapes():
        tensor = model.tensors[kind, layer]
        name = NAMES.get(kind) or layer_tensor_name((kind, layer))
        data = tensor.data.reshape(-1).view(np.uint8).data
        found[name] = Weight(dtype=tensor.dtype.name, shape=shape, data=data)
    return found


class Whole:
    """Pushes of rising versions to one service."""

    def __init__(self, running: Service, client: RolloutClient, model: Model) -> None:
        self._running, self._client = running, client
        self._weights = weights_of(model)
        self._bytes = sum(len(one.data) for one in self._weights.values())
        self._version = 0

    def write(self, folder: Path) -> None:
        """The file of `through_memory`."""
        stored = {n: Stored(one.dtype, one.shape, one.data) for n, one in self._weights.items()}
        (folder / FILE).write_bytes(packed(stored))

    def alone(self, alone: Alone) -> None:
        """Measure the parts of a push alone."""
        alone.measure(self._weights)

    async def measure(self, way: Way, *, shared: bool = False, checksums: bool = True) -> None:
        """Push once, and use it."""
        self._version += 1
        service_s, client_s = self._running.beside_cpu_s(), time.process_time()
        began_s = time.perf_counter()
        if shared:
            await self._client.push_file(self._version, FILE)
        else:
            await self._client.push_weights(self._version, self._weights, checksums=checksums)
        took_s, mb = time.perf_counter() - began_s, self._bytes / 1e6
        way.mb_s.append(mb / took_s)
        way.service_ms.append(1e3 * (self._running.beside_cpu_s() - service_s) / mb)
        way.client_ms.append(1e3 * (time.process_time() - client_s) / mb)
        way.held_ms.append(1e3 * (await self._client.activate(self._version)).pause_s)

    @property
    def megabytes(self) -> float:
        """Megabytes that one push carries."""
        return self._bytes / 1e6


def whole_report(ways: Mapping[str, Way], floor: Bare, alone: Alone, megabytes: float) -> Report:
    """The table; the first push of each way, which takes memory, is not in it.

    Args:
        ways: what was measured.
        floor: what grpcio alone needs for as many bytes, beside the pushes over gRPC.
        alone: what the parts need.
        megabytes: of one push.
    """
    columns = (
        *("way", "MB/s", "of grpcio's, %", "target", "CPU of the service, ms/MB"),
        *("of the client", "held, ms"),
    )
    report = Report(title=f"Whole weights, {megabytes:,.0f} MB a push", columns=columns)
    report.add(
        **{
            "way": "bytes, by grpcio alone",
            "MB/s": Spread.of(floor.mb_s[1:]),
            "CPU of the service, ms/MB": Spread.of(floor.receiver_ms[1:]),
            "of the client": Spread.of(floor.sender_ms[1:]),
        }
    )
    for name, spent_ms in alone.ms.items():
        cell = {"CPU of the service, ms/MB": Spread.of(spent_ms[1:])}
        report.add(way=f"{name}, alone in one thread", **cell)
    for name, way in ways.items():
        cells: dict[str, Any] = {
            "way": name,
            "MB/s": Spread.of(way.mb_s[1:]),
            "target": TARGET_MB_S,
            "CPU of the service, ms/MB": Spread.of(way.service_ms[1:]),
            "of the client": Spread.of(way.client_ms[1:]),
            "held, ms": Spread.of(way.held_ms[1:]),
        }
        if way.beside_floor:
            pairs = zip(way.mb_s[1:], floor.mb_s[1:], strict=True)
            cells["of grpcio's, %"] = Spread.of([100 * own / bare for own, bare in pairs])
        report.add(**cells)
    return report
