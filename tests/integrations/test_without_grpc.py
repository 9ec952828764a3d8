"""Adapters where neither grpcio nor protobuf can be imported: they use the HTTP port."""

import asyncio
import json
import sys
from typing import Any

import pytest
from tests.integrations.stand_in import ADVANTAGES, BASELINE, Judge

from assay.core.advantages import Estimator, advantages

PROGRAM = """
import importlib, json, sys
for name in ("grpc", "google", "google.protobuf", "pydantic", "rich", "typer"):
    sys.modules[name] = None
from assay.integrations.scorer import Scorer, shared_scorer
from assay.integrations.sample import Sample
for name in ("trl", "verl", "openrlhf", "areal", "slime", "roll", "rllm", "agent_lightning"):
    importlib.import_module(f"assay.integrations.trainers.{name}")
from assay.integrations.trainers.trl import Reward
texts = sys.argv[1:]
reward = Reward("math")
both = [reward(prompts=["2 + 3?"] * len(texts), completions=texts, answer=["5"] * len(texts))]
samples = [Sample(response=text, reference={"answers": ["5"]}) for text in texts]
starting = [reward.scorer.start_one(sample) for sample in samples]
both.append([one.result(timeout=60).reward for one in starting])
reward.scorer.close()
print(json.dumps(both))
"""


async def test_a_step_is_scored_over_http(
    api: Any, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Step by step and one by one; what no judge saw is None, and the advantages are unbiased."""
    monkeypatch.setenv("ASSAY_URL", api.addresses.http)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, *BASELINE, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    for rewards in json.loads(output):
        assert rewards == [1.0, None, 0.0, 0.0]
        found = advantages(rewards, Estimator.DR_GRPO)
        assert [found[0], *found[2:]] == pytest.approx(list(ADVANTAGES))
    assert len(judge.batches) == 2
