"""The board of rollouts: every panel has data while a trainer reads groups and pushes weights."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy")

import numpy as np
from scripts.boards import ROLLOUTS
from tests.monitoring.drawn import draw_where_wanted, turns_min
from tests.monitoring.prometheus import asked, running_prometheus
from tests.rollout.checkpoints import write_checkpoint
from tests.rollout.service.test_process import running
from tests.rollout.service.test_pushes import tensors
from tests.rollout.test_adapter_files import LORA, lora_arrays

from assay.client.rollouts import Prompt, RolloutClient, SamplingParams
from assay.rollout.models import load_model

if TYPE_CHECKING:
    from pathlib import Path

STEPS_MAX = 40
STEPS_DRAWN = 25
WAIT_S = 120.0


def empty(url: str) -> list[str]:
    return [
        f"{panel.title}: {expression}"
        for panel in ROLLOUTS.panels
        for expression in panel.series.values()
        if not asked(url, expression) and not panel.rare
    ]


async def step(client: RolloutClient, number: int, model: Path) -> None:
    """One of a trainer: groups, then new weights."""
    session = await client.open_session(f"s{number}", sampling=SamplingParams(max_tokens=8))
    await session.submit([Prompt(group_id="p", prompt_ids=[1, 2], k=2, seed=number)])
    async for _ in session.groups():
        break
    arrays = lora_arrays(load_model(model))
    scaled = {name: np.float32(number) * a for name, a in arrays.items()}
    config = {**LORA, "target_modules": sorted({n.split(".")[-3] for n in scaled})}
    await client.push_adapter(number, config, tensors(scaled), activate="finish")
    await session.close()


async def test_every_panel_of_rollouts_has_data_while_a_trainer_works(tmp_path: Path) -> None:
    model = write_checkpoint(tmp_path / "some.bin", dim=64, hidden=176, layers=2, positions=128)
    async with (
        running(tmp_path / "data", MODEL=str(model), TOKENS_MAX="64") as where,
        running_prometheus(tmp_path, where["http"].removeprefix("http://")) as url,
        RolloutClient(where["grpc"]) as client,
        asyncio.timeout(WAIT_S),
    ):
        left = ["not asked yet"]
        for number in range(1, STEPS_MAX):
            await step(client, number, model)
            await asyncio.sleep(1)  # a scrape
            left = await asyncio.to_thread(empty, url)
            if not left and number >= turns_min(STEPS_DRAWN):
                break
        await draw_where_wanted(url, [ROLLOUTS])
    assert left == []
