"""Scores traces of one task by the scoring of verifiers v1, with the example's task.

Run as a program with the path of the example and the responses. Prints, as JSON, the rewards of
traces without an error, the others' errors, and what verifiers seeded for them.
"""

import asyncio
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.agent import AgentConfig
from verifiers.v1.errors import TaskError
from verifiers.v1.trace import AgentInfo, Trace, TraceTask
from verifiers.v1.utils.loaders import taskset_class

from assay.integrations.scorer import close


async def scored(task: Any, text: str, nodes: Sequence[Any] = ()) -> tuple[Any, str]:
    trace: Any = Trace[vf.TaskData, vf.State, Any](
        task=TraceTask(type=type(task).__name__, data=task.data),
        agent=AgentInfo(config=AgentConfig()),
        root_reply=text,
        nodes=list(nodes),
    )
    try:
        await task.score(trace)
    except TaskError as error:
        return trace, str(error)
    return trace, ""


async def main(path: str, *texts: str) -> None:
    sys.path.insert(0, str(Path(path).parent))
    example = importlib.import_module("verifiers_taskset")
    assert taskset_class("verifiers_taskset") is example.Sums  # as `vf-eval` finds it
    data = example.SumData(prompt="What is 2 + 3?", answer="5")
    kind = type(
        "Task", (example.Sum,), {"assay_scoring": {"pipeline": "math", "step_size": len(texts)}}
    )
    task = kind(data)
    found = await asyncio.gather(*(scored(task, text) for text in texts))
    await asyncio.to_thread(close)
    rewards = [trace.reward for trace, error in found if not error]
    mean = sum(rewards) / len(rewards)
    print(
        json.dumps(
            {
                "rewards": rewards,
                "advantages": [reward - mean for reward in rewards],
                "errors": [error for _, error in found if error],
                "seeded": [trace.rewards["assay"] for trace, error in found if error],
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
