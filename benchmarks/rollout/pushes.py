"""Adapters that are pushed while tokens are made: two slots beside one.

Windows come in pairs while groups keep the engine busy: in one nothing is pushed; in the one beside
it an adapter is staged into the second slot, over gRPC or through shared memory, and then
activated, or the engine is held from before the push until after the activation, as an engine with
a single slot has to. A change of the machine's load hits both windows of a pair, so the figure is
the median ratio of many short pairs, with the interval that has the true median in 95 % of runs.

Decoding takes every core, so what a push costs it is at most the CPU that the push takes: that of
all threads but those that decode is printed too, since it hardly depends on other load.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from assay.client.rollouts import (
    Prompt,
    PushedWeights,
    RolloutClient,
    RolloutSession,
    Weight,
)
from assay.core.tools.safetensors import Stored, packed
from assay.rollout.models.hugging_face import layer_tensor_name
from assay.rollout.models.model import TensorKind
from benchmarks.harness.report import Report, Spread, percentile

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from assay.rollout.models import Model
    from benchmarks.rollout.process import Service

RANK = 8
CONFIG = {
    "peft_type": "LORA",
    "r": RANK,
    "lora_alpha": 16,
    "target_modules": ["q_proj", "v_proj"],
}
FILE = "adapter.safetensors"
TAIL = 0.025
"""Probability that the median lies beyond one end of its interval."""
AHEAD = 24
"""Groups that are open at once, so that the batch stays full."""


@dataclass(slots=True)
class Row:
    """What was measured of one kind of window."""

    tokens_s: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    """To the window beside it without a push, percent."""
    update_s: list[float] = field(default_factory=list)
    """From the begin of a push until its weights are in use."""
    stage_s: list[float] = field(default_factory=list)
    held_s: list[float] = field(default_factory=list)
    beside_share: list[float] = field(default_factory=list)
    """CPU of everything but decoding, percent of a core."""


def adapter(model: Model, seed: int) -> dict[str, Weight]:
    """LoRA of q and v, in every layer."""
    rng, found = np.random.default_rng(seed), {}
    for kind, layer, shape in model.config.tensor_shapes():
        if kind not in {TensorKind.WQ, TensorKind.WV}:
            continue
        module = layer_tensor_name((kind, layer)).removesuffix(".weight")
        for part, size in (("lora_A", (RANK, shape[1])), ("lora_B", (shape[0], RANK))):
            values = rng.normal(0, 0.01, size).astype(np.float32)
            found[f"base_model.model.{module}.{part}.weight"] = Weight(
                dtype="F32", shape=size, data=values.tobytes()
            )
    return found


class _Pusher:
    """Pushes adapters of rising versions, in each way."""

    def __init__(
        self, client: RolloutClient, model: Model, core_share: float, shared_dir: Path
    ) -> None:
        self._client, self._share, self._shared_dir = client, core_share, shared_dir
        self._adapters = [adapter(model, seed) for seed in range(2)]
        self._version = 1_000

    async def _push(self) -> PushedWeights:
        self._version += 1
        weights = self._adapters[self._version % 2]
        return await self._client.push_adapter(
            self._version, CONFIG, weights, core_share_max=self._share, activate="in_place"
        )

    async def _push_file(self) -> PushedWeights:
        self._version += 1
        weights = self._adapters[self._version % 2]
        stored = {name: Stored(one.dtype, one.shape, one.data) for name, one in weights.items()}
        sums = {f"sha256.{n}": hashlib.sha256(one.data).hexdigest() for n, one in weights.items()}
        (self._shared_dir / FILE).write_bytes(packed(stored, sums))
        return await self._client.push_file(
            self._version, FILE, config=CONFIG, core_share_max=self._share, activate="in_place"
        )

    async def two_slots(self, row: Row) -> None:
        """Stage beside the active slot over gRPC, then exchange."""
        await self._exchange(row, self._push)

    async def two_slots_shared(self, row: Row) -> None:
        """The same through shared memory."""
        await self._exchange(row, self._push_file)

    async def _exchange(self, row: Row, push: Callable[[], Awaitable[PushedWeights]]) -> None:
        began_s = time.perf_counter()
        pushed = await push()
        row.update_s.append(time.perf_counter() - began_s)
        row.stage_s.append(pushed.stage_s)
        if pushed.activated is not None:
            row.held_s.append(pushed.activated.pause_s)

    async def one_slot(self, row: Row) -> None:
        """Hold the engine while the weights are written."""
        began_s = time.perf_counter()
        pause = await self._client.pause()
        held_s = time.perf_counter()
        row.stage_s.append((await self._push()).stage_s)
        await self._client.resume(pause)
        row.held_s.append(time.perf_counter() - held_s)
        row.update_s.append(time.perf_counter() - began_s)


async def _feed(session: RolloutSession, k: int) -> None:
    """Keep groups waiting for the engine."""
    made = 0

    def more(n: int) -> list[Prompt]:
        nonlocal made
        made += n
        return [
            Prompt(group_id=f"push/{i}", prompt_ids=[1 + i % 100] * 16, k=k, seed=1_000 * i)
            for i in range(made - n, made)
        ]

    await session.submit(more(AHEAD))
    async for group in session.groups():
        session.acknowledge(group)
        await session.submit(more(1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What the windows are measured on."""

    running: Service
    client: RolloutClient
    model: Model
    shared_dir: Path
    chosen: argparse.Namespace

    async def decoded(self) -> int:
        """Tokens generated so far."""
        return (await self.client.status()).engine["decode_tokens"]

    def beside_s(self) -> float:
        """CPU seconds of everything but decoding, the client's included."""
        return self.running.beside_cpu_s() + time.process_time()


async def _window(
    bench: Bench, row: Row, act: Callable[[Row], Awaitable[None]] | None = None
) -> None:
    """Tokens per second over one window, in which `act` is repeated."""
    chosen = bench.chosen
    before, beside_s, began_s = await bench.decoded(), bench.beside_s(), time.perf_counter()
    end_s = began_s + chosen.window_s
    while (now_s := time.perf_counter()) < end_s:
        if act is not None:
            await act(row)
        left_s = now_s + chosen.push_every_s - time.perf_counter()
        await asyncio.sleep(max(0.0, min(left_s, end_s - time.perf_counter())))
    decoded, took_s = await bench.decoded() - before, time.perf_counter() - began_s
    row.tokens_s.append(decoded / took_s)
    row.beside_share.append(100 * (bench.beside_s() - beside_s) / took_s)


async def push_table(bench: Bench, session: RolloutSession) -> Report:
    """Run `--rounds` pairs of windows for each way; every second pair in the reverse order."""
    pusher = _Pusher(bench.client, bench.model, bench.chosen.core_share, bench.shared_dir)
    ways: dict[str, Callable[[Row], Awaitable[None]]] = {
        "two slots, gRPC": pusher.two_slots,
        "two slots, shared memory": pusher.two_slots_shared,
        "one slot (held during the push)": pusher.one_slot,
    }
    quiet, rows = Row(), {name: Row() for name in ways}
    feeding = asyncio.create_task(_feed(session, bench.chosen.k))
    try:
        await _window(bench, Row(), pusher.two_slots)  # warm-up
        await _window(bench, Row(), pusher.two_slots_shared)
        for turn in range(bench.chosen.rounds):
            for name, act in ways.items():
                pair = [(rows[name], act), (quiet, None)]
                for row, chosen in reversed(pair) if turn % 2 else pair:
                    await _window(bench, row, chosen)
                rows[name].ratios.append(100 * rows[name].tokens_s[-1] / quiet.tokens_s[-1])
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
    return _report({"undisturbed": quiet, **rows}, bench.chosen.push_every_s)


def interval_of_median(values: Sequence[float]) -> tuple[float, float]:
    """Ends of the interval that has the median of what the values are drawn from in 95 % of cases.

    It is that of the sign test: from the k-th least value to the k-th greatest, whatever the
    distribution. Of fewer than six values there is none; their ends are returned.
    """
    ordered, n = sorted(values), len(values)
    outside, k = 0.0, 0
    while k < n // 2 and (outside := outside + math.comb(n, k) / 2**n) <= TAIL:
        k += 1
    return ordered[max(0, k - 1)], ordered[min(n - 1, n - k)]


def _report(rows: Mapping[str, Row], push_every_s: float) -> Report:
    columns = (
        *(
            "window",
            "of undisturbed, %",
            "95 %",
            "tokens/s",
            "beside decoding, % of a core",
            "pushes",
        ),
        *("update_weights ms", "stage ms", "held p50 ms", "held p99 ms"),
    )
    title = f"An adapter every {push_every_s} s (LoRA, rank {RANK}, q and v of every layer)"
    report = Report(title=title, columns=columns)
    for name, row in rows.items():
        cells: dict[str, object] = {
            "window": name,
            "tokens/s": statistics.median(row.tokens_s),
            "beside decoding, % of a core": Spread.of(row.beside_share),
            "pushes": len(row.held_s),
        }
        if row.ratios:
            low, high = interval_of_median(row.ratios)
            cells["of undisturbed, %"] = statistics.median(row.ratios)
            cells["95 %"] = f"{low:.1f}-{high:.1f}"
        if row.held_s:
            cells |= {
                "update_weights ms": 1e3 * statistics.median(row.update_s),
                "stage ms": 1e3 * statistics.median(row.stage_s),
                "held p50 ms": 1e3 * statistics.median(row.held_s),
                "held p99 ms": 1e3 * percentile(row.held_s, 0.99),
            }
        report.add(**cells)
    return report
