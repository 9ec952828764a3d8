"""Rewards from Assay in TRL: pass `reward` to `GRPOTrainer(reward_funcs=reward, ...)`.

    pip install assay trl       # on the trainer; the service runs where `assay up` does
    assay up                    # on the machine that scores

The data set has a column `answer`; further columns arrive as keyword arguments. The list that is
returned holds one entry per completion: a float, or `None` where the platform could not judge the
response, which TRL leaves out of the group's mean and of the loss.
"""

import os
from typing import Any

from assay.client import Request, SyncClient

client = SyncClient(os.environ.get("ASSAY_URL", "127.0.0.1:8470"))


def reward(completions: list[Any], answer: list[Any], **columns: Any) -> list[float | None]:
    """Score one list of completions: texts, or lists of chat messages."""
    texts = [one if isinstance(one, str) else one[-1]["content"] for one in completions]
    requests = [
        Request(request_id=str(n), response=text, reference={"answers": [str(gold)]})
        for n, (text, gold) in enumerate(zip(texts, answer, strict=True))
    ]
    return list(client.score(requests, pipeline="math").rewards)
