"""Rolls out one group by the Tinker cookbook's own code, with the adapter as its environment.

Run as a program with the path of the example and the responses. Prints, as JSON, the rewards that
stay in the group, their advantages, and the errors that it counted.
"""

import asyncio
import importlib
import json
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import tinker
from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs
from tinker_cookbook.rl.problem_env import ProblemGroupBuilder
from tinker_cookbook.rl.rollout_strategy import MinViableGroup
from tinker_cookbook.rl.rollouts import do_group_rollout

from assay.integrations.scorer import close


class Renderer:
    """Tokens are code points."""

    def get_stop_sequences(self) -> list[int]:
        return [0]

    def build_generation_prompt(self, messages: list[Any]) -> tinker.ModelInput:
        return tinker.ModelInput.from_ints([ord(letter) for letter in messages[-1]["content"]])

    def parse_response(self, action: list[int]) -> tuple[dict[str, str], Any]:
        message = {"role": "assistant", "content": "".join(map(chr, action))}
        return message, SimpleNamespace(is_stop_sequence=True, is_clean=True)


class Policy(TokenCompleter):  # type: ignore[misc]  # it has no types here
    """Says given texts in order."""

    def __init__(self, texts: list[str]) -> None:
        self.left = list(texts)

    async def __call__(self, *_: object, **__: object) -> TokensWithLogprobs:
        ids = [ord(letter) for letter in self.left.pop(0)]
        return TokensWithLogprobs(tokens=ids, maybe_logprobs=[-1.0] * len(ids))


async def main(path: str, *texts: str) -> None:
    sys.path.insert(0, str(Path(path).parent))
    problem = importlib.import_module("tinker_environment").Problem
    scoring = {"pipeline": "math", "step_size": len(texts)}
    builder = ProblemGroupBuilder(
        env_thunk=partial(problem, Renderer(), "2 + 3?", "5", scoring=scoring),
        num_envs=len(texts),
    )
    strategy = MinViableGroup(min_successful=2, max_retries=0)
    group = await do_group_rollout(builder, Policy(list(texts)), strategy=strategy)
    await asyncio.to_thread(close)
    rewards = sorted(group.get_total_rewards(), reverse=True)
    mean = sum(rewards) / len(rewards)  # as its `compute_advantages` does with these
    found = {
        "rewards": rewards,
        "advantages": [reward - mean for reward in rewards],
        "errors": [one.error_type for one in group.rollout_errors],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
