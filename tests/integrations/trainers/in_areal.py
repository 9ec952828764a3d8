"""Runs episodes of AReaL's own RLVRWorkflow, scored by the example's workflow.

Run as a program with the path of the example and the responses. In place of an inference engine,
responses are given. Prints, as JSON, the rewards of episodes that AReaL would train on, and how
many it would not.
"""

import asyncio
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from areal.api.cli_args import GenerationHyperparameters
from areal.api.io_struct import ModelResponse

from assay.integrations.scorer import close


class Characters:
    """A tokenizer whose ids are code points."""

    pad_token_id = 0
    eos_token_id = 0

    def decode(self, ids: list[int], **_: object) -> str:
        return "".join(map(chr, ids))

    def apply_chat_template(self, messages: list[dict[str, str]], **_: object) -> Any:
        return {"input_ids": [ord(letter) for letter in messages[-1]["content"]]}


class Engine:
    """Says given texts in order."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        self.left = list(texts)

    async def agenerate(self, request: Any) -> ModelResponse:
        ids = [ord(letter) for letter in self.left.pop(0)]
        return ModelResponse(
            input_tokens=list(request.input_ids),
            output_tokens=ids,
            output_logprobs=[-1.0] * len(ids),
            output_versions=[0] * len(ids),
        )


async def main(path: str, *texts: str) -> None:
    sys.path.insert(0, str(Path(path).parent))
    workflow = importlib.import_module("areal_workflow").Workflow(
        scoring="math",
        options={"step_size": len(texts)},
        gconfig=GenerationHyperparameters(max_new_tokens=64),
        tokenizer=Characters(),
    )
    row = {"messages": [{"role": "user", "content": "2 + 3?"}], "answer": "5"}
    engine = Engine(texts)
    found = await asyncio.gather(*(workflow.arun_episode(engine, dict(row)) for _ in texts))
    await asyncio.to_thread(workflow.scorer.close)
    await asyncio.to_thread(close)
    rewards = [float(one["rewards"][0]) for one in found if one is not None]
    mean = sum(rewards) / len(rewards)
    print(
        json.dumps(
            {
                "rewards": rewards,
                "advantages": [reward - mean for reward in rewards],
                "rejected": sum(one is None for one in found),
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
