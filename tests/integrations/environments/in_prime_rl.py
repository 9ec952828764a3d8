"""Hands episodes that the example's task scored to prime-rl's sink, which makes a batch of them.

`in_prime_rl.py PATH TEXTS`, with the path of the example. Real are the scoring of verifiers, and
prime-rl's sink and GRPO; tokens are given. Prints, as JSON, texts and advantages of the samples
that would be trained on, and how many traces the sink saw.
"""

import asyncio
import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import verifiers.v1 as vf
from in_verifiers import scored  # type: ignore[import-not-found]  # beside this program
from prime_rl.configs.algorithm import GRPOAlgoConfig
from prime_rl.orchestrator.algo.grpo import GRPOAlgorithm
from prime_rl.orchestrator.train_sink import TrainSink
from prime_rl.orchestrator.types import Progress
from verifiers.v1.episode import EnvInfo, GroupInfo
from verifiers.v1.graph import MessageNode

from assay.integrations.scorer import close

PROMPT = "2 + 3?"


def ids(text: str) -> list[int]:
    return [ord(letter) for letter in text]


def nodes(text: str) -> list[Any]:
    """A prompt and a response as the graph has them; a token is a code point."""
    asked = vf.UserMessage(content=PROMPT)
    said = vf.AssistantMessage(content=text)
    count = len(text)
    return [
        MessageNode(message=asked, token_ids=ids(PROMPT), mask=[False] * len(PROMPT)),
        MessageNode(
            parent=0,
            message=said,
            sampled=True,
            token_ids=ids(text),
            mask=[True] * count,
            logprobs=[-1.0] * count,
        ),
    ]


async def episode(task: Any, text: str) -> Any:
    """One episode of the group, as an environment ends it."""
    trace, error = await scored(task, text, nodes(text))
    trace.ok = not error
    if error:
        trace.record_error(RuntimeError(error))
    return vf.Episode(
        env=EnvInfo(id="assay", name="assay"),
        task=trace.task,
        group=GroupInfo(id="group"),
        run={"type": "train", "id": "run", "work": {"type": "train", "step": 1}},
        ok=not error,
        traces=[trace],
    )


async def main(path: str, *texts: str) -> None:
    sys.path.insert(0, str(Path(path).parent))
    example = importlib.import_module("verifiers_taskset")
    options = {"pipeline": "math", "step_size": len(texts)}
    task = type("Task", (example.Sum,), {"assay_scoring": options})(
        example.SumData(prompt=PROMPT, answer="5")
    )
    environment = SimpleNamespace(
        config=SimpleNamespace(group_size=len(texts)),
        algorithm=GRPOAlgorithm(GRPOAlgoConfig(), None),
        sampling_args={"temperature": 1.0},
    )
    sink = TrainSink(
        SimpleNamespace(
            max_off_policy_steps=8, train=SimpleNamespace(filter_zero_advantages=False)
        ),
        tokenizer=None,
        train_envs=SimpleNamespace(get=lambda _name: environment),
        mm_token_type_ids_mapping=None,
        progress=Progress(),
        batch_size=len(texts) - 1,
        token_batch_size=None,
    )
    episodes = await asyncio.gather(*(episode(task, text) for text in texts))
    await asyncio.to_thread(close)
    batches = [await sink.add(one) for one in episodes]
    batch = batches[-1]
    told = [
        ("".join(map(chr, sample.token_ids[len(PROMPT) :])), sample.advantages[-1])
        for sample in batch.samples
    ]
    print(
        json.dumps(
            {
                "early": sum(one is not None for one in batches[:-1]),
                "texts": [text for text, _ in told],
                "advantages": [advantage for _, advantage in told],
                "seen": len(batch.episodes.episodes),
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
