"""Rolls out one group with OpenRLHF's own executor, which loads the example, or asks a URL.

Run as a program with the path of the example or the URL of our endpoint, and the responses. Prints,
as JSON, what the executor made of them, and whether OpenRLHF's dynamic filter would keep the group.
"""

import asyncio
import json
import sys
from types import SimpleNamespace
from typing import Any

import torch
from openrlhf.utils.agent import SingleTurnAgentExecutor

PROMPT = "2 + 3?"
RANGE = (0.0, 1.0)


class Characters:
    """A tokenizer whose ids are code points."""

    def __call__(self, *, text: str, **_: object) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.tensor([[ord(letter) for letter in text]])}

    def decode(self, ids: list[int], **_: object) -> str:
        return "".join(map(chr, ids))


class Engine:
    """Generates a given response."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def generate(self, *_: object, **__: object) -> Any:
        ids = [ord(letter) for letter in self.text]
        output = SimpleNamespace(token_ids=ids, finish_reason="stop", logprobs=None)
        return SimpleNamespace(outputs=[output])


async def main(path: str, *texts: str) -> None:
    executor = SingleTurnAgentExecutor(path)
    sampling = SimpleNamespace(max_tokens=64, logprobs=None)
    found = await asyncio.gather(
        *(
            executor.execute(PROMPT, "5", sampling, 128, Characters(), Engine(text))
            for text in texts
        )
    )
    # As its samples generator turns them into experiences, and filters groups.
    rewards = [torch.tensor([one["reward"]]).item() for one in found]
    scores = [torch.tensor([one["scores"]])[0].item() for one in found]
    # A tensor of the function, a list of an endpoint.
    failed = [torch.as_tensor(one["extra_logs"]["infra_failed"]).item() for one in found]
    kept = RANGE[0] < sum(scores) / len(scores) < RANGE[1]
    print(json.dumps({"rewards": rewards, "failed": failed, "kept": kept}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
