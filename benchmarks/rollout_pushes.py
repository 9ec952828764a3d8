"""Adapters that are pushed while tokens are made: two slots beside one.

Windows of three kinds alternate while groups keep the engine busy: nothing is pushed; an adapter is
staged into the second slot and then activated; the engine is held from before the push until after
the activation, as an engine with a single slot has to.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from report import Report, Spread, percentile

from assay.client.rollouts import Prompt, RolloutClient, RolloutSession, Weight
from assay.rollout.models.hugging_face import layer_tensor_name
from assay.rollout.models.model import TensorKind

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable

    from assay.rollout.models import Model

RANK = 8
CONFIG = {
    "peft_type": "LORA",
    "r": RANK,
    "lora_alpha": 16,
    "target_modules": ["q_proj", "v_proj"],
}
AHEAD = 24
"""Groups that are open at once, so that the batch stays full."""


@dataclass(slots=True)
class Row:
    """What was measured of one kind of window."""

    tokens_s: list[float] = field(default_factory=list)
    update_s: list[float] = field(default_factory=list)
    """From the begin of a push until its weights are in use."""
    stage_s: list[float] = field(default_factory=list)
    held_s: list[float] = field(default_factory=list)


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
    """Pushes adapters of rising versions, both ways."""

    def __init__(self, client: RolloutClient, model: Model, core_share: float) -> None:
        self._client, self._share = client, core_share
        self._adapters = [adapter(model, seed) for seed in range(2)]
        self._version = 1_000

    async def _stage(self) -> float:
        self._version += 1
        weights = self._adapters[self._version % 2]
        pushed = await self._client.push_adapter(
            self._version, CONFIG, weights, core_share_max=self._share
        )
        return pushed.stage_s

    async def two_slots(self, row: Row) -> None:
        """Stage beside the active slot, then exchange."""
        began_s = time.perf_counter()
        row.stage_s.append(await self._stage())
        row.held_s.append((await self._client.activate(self._version)).pause_s)
        row.update_s.append(time.perf_counter() - began_s)

    async def one_slot(self, row: Row) -> None:
        """Hold the engine while the weights are written."""
        began_s = time.perf_counter()
        pause = await self._client.pause()
        held_s = time.perf_counter()
        row.stage_s.append(await self._stage())
        await self._client.activate(self._version)
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


async def _window(
    client: RolloutClient,
    chosen: argparse.Namespace,
    row: Row,
    act: Callable[[Row], Awaitable[None]] | None,
) -> None:
    """Tokens per second over one window, in which `act` is repeated."""
    before, began_s = await _decoded(client), time.perf_counter()
    end_s = began_s + chosen.window_s
    while (now_s := time.perf_counter()) < end_s:
        if act is not None:
            await act(row)
        left_s = now_s + chosen.push_every_s - time.perf_counter()
        await asyncio.sleep(max(0.0, min(left_s, end_s - time.perf_counter())))
    decoded, took_s = await _decoded(client) - before, time.perf_counter() - began_s
    row.tokens_s.append(decoded / took_s)


async def _decoded(client: RolloutClient) -> int:
    return (await client.status()).engine["decode_tokens"]


async def push_table(
    client: RolloutClient, session: RolloutSession, model: Model, chosen: argparse.Namespace
) -> Report:
    """Run `--rounds` of the three windows."""
    quiet, two, one = Row(), Row(), Row()
    pusher = _Pusher(client, model, chosen.core_share)
    feeding = asyncio.create_task(_feed(session, chosen.k))
    try:
        await _window(client, chosen, Row(), pusher.two_slots)  # warm-up
        for _ in range(chosen.rounds):
            await _window(client, chosen, quiet, None)
            await _window(client, chosen, two, pusher.two_slots)
            await _window(client, chosen, one, pusher.one_slot)
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
    columns = (
        *("window", "of undisturbed, %", "tokens/s", "pushes"),
        *("update_weights ms", "stage ms", "held p50 ms", "held p99 ms"),
    )
    title = f"An adapter every {chosen.push_every_s} s (LoRA, rank {RANK}, q and v of every layer)"
    report = Report(title=title, columns=columns)
    for name, row in (
        ("undisturbed", quiet),
        ("two slots (double-buffered)", two),
        ("one slot (held during the push)", one),
    ):
        pairs = zip(row.tokens_s, quiet.tokens_s, strict=True)
        shares = Spread.of([100 * a / b for a, b in pairs])
        cells: dict[str, object] = {
            "window": name,
            "of undisturbed, %": shares,
            "tokens/s": statistics.median(row.tokens_s),
            "pushes": len(row.held_s),
        }
        if row.held_s:
            cells |= {
                "update_weights ms": 1e3 * statistics.median(row.update_s),
                "stage ms": 1e3 * statistics.median(row.stage_s),
                "held p50 ms": 1e3 * statistics.median(row.held_s),
                "held p99 ms": 1e3 * percentile(row.held_s, 0.99),
            }
        report.add(**cells)
    return report
