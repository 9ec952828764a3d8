"""Rewards from Assay in verl: a custom reward function, one call per response.

    pip install assay verl      # on the trainer; the service runs where `assay up` does
    assay up                    # on the machine that scores
    python -m verl.trainer.main_ppo \\
        reward.custom_reward_function.path=examples/verl_reward.py \\
        reward.custom_reward_function.name=compute_score ...

verl has no word for "no reward": a response that the platform could not judge scores 0.0 with
`infra_failed` 1.0, by which its group can be filtered. Every result has the same keys, as verl
requires.
"""

import asyncio
import os
import uuid
from typing import Any
from weakref import WeakKeyDictionary

from assay.client import Client, Request

CLIENTS: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()
"""One client per event loop: verl's reward workers each run a loop of their own."""


async def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **_: Any
) -> dict[str, float]:
    """Score one response against its reference."""
    loop = asyncio.get_running_loop()
    if loop not in CLIENTS:
        CLIENTS[loop] = Client(os.environ.get("ASSAY_URL", "127.0.0.1:8470"))
    request = Request(
        request_id=uuid.uuid4().hex,
        response=solution_str,
        reference={"answers": [str(ground_truth)]},
    )
    reward = (await CLIENTS[loop].score([request], pipeline="math")).rewards[0]
    return {"score": reward or 0.0, "infra_failed": float(reward is None)}
