"""Whole weights that are pushed: bytes per second from the first message until they are staged.

Staged over gRPC, or read from a file in shared memory, beside the weights in use; and over gRPC
into a file, where memory has room for one set of weights: that way is paid for at the activation,
so how long the engine is held is beside it. Nothing decodes meanwhile: the push has the machine to
itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from assay.client.rollouts import RolloutClient, Weight
from assay.core.tools.safetensors import Stored, packed
from assay.rollout.models.hugging_face import layer_tensor_name
from assay.rollout.models.model import TensorKind
from benchmarks.harness.report import Report, Spread

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from assay.rollout.models import Model
    from benchmarks.rollout.bare import Bare
    from benchmarks.rollout.process import Service

TARGET_MB_S: Final = 1_000
FILE: Final = "whole.safetensors"
NAMES: Final = {
    TensorKind.EMBED: "model.embed_tokens.weight",
    TensorKind.FINAL_NORM: "model.norm.weight",
    TensorKind.LM_HEAD: "lm_head.weight",
}


@dataclass(slots=True)
class Way:
    """What was measured of one way."""

    mb_s: list[float] = field(default_factory=list)
    service_ms: list[float] = field(default_factory=list)
    """CPU per MB."""
    client_ms: list[float] = field(default_factory=list)
    held_ms: list[float] = field(default_factory=list)


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
        """Of one push."""
        return self._bytes / 1e6


def whole_report(ways: Mapping[str, Way], floor: Bare, megabytes: float) -> Report:
    """The table; the first push of each way, which takes memory, is not in it.

    `floor`: what grpcio alone needs for as many bytes, beside the pushes over gRPC.
    """
    columns = ("way", "MB/s", "target", "CPU of the service, ms/MB", "of the client", "held, ms")
    report = Report(title=f"Whole weights, {megabytes:,.0f} MB a push", columns=columns)
    report.add(
        **{
            "way": "bytes, by grpcio alone",
            "MB/s": Spread.of(floor.mb_s[1:]),
            "CPU of the service, ms/MB": Spread.of(floor.receiver_ms[1:]),
            "of the client": Spread.of(floor.sender_ms[1:]),
        }
    )
    for name, way in ways.items():
        cells: dict[str, Any] = {
            "way": name,
            "MB/s": Spread.of(way.mb_s[1:]),
            "target": TARGET_MB_S,
            "CPU of the service, ms/MB": Spread.of(way.service_ms[1:]),
            "of the client": Spread.of(way.client_ms[1:]),
            "held, ms": Spread.of(way.held_ms[1:]),
        }
        report.add(**cells)
    return report
