"""Rolls a step out by NeMo-RL's paths with an asynchronous engine, where samples come one by one.

`in_nemo_rl_alone.py PATH WHAT TEXTS`, with the path of the example that registers the environment,
and `rollouts` or `plane`. The responses are given. Real are `run_async_multi_turn_rollout` as
`grpo_train` calls it, the groups of the older asynchronous loop, `SyncRolloutActor` with its
TransferQueue, and the actor that collects for the older loop, of which only the class is looked at.
Prints, as JSON, rewards, advantages and the mean reward in the metrics.
"""

import asyncio
import importlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import ray
from in_nemo_rl import advantages  # type: ignore[import-not-found]  # beside this program
from in_nemo_rl_plane import (  # type: ignore[import-not-found]
    PLANE,
    Characters,
    Given,
    batch,
    recipe,
    step,
)
from nemo_rl.algorithms import async_utils, grpo_sync
from nemo_rl.data_plane import build_data_plane_client
from nemo_rl.data_plane.adapters import transfer_queue
from nemo_rl.environments.utils import create_env
from nemo_rl.experience import rollouts

from assay.integrations.environments.nemo_rl_rollouts import replacement

LIMITS = {"max_seq_len": 64, "max_rollout_turns": 1}


class Characterwise(Characters):  # type: ignore[misc]  # of a program, not of a package
    """A tokenizer of observations, too."""

    def __call__(self, text: str, **_: object) -> Any:
        found = super().__call__(text)
        found.input_ids = found.input_ids.long()
        return found


class Streamed(Given):  # type: ignore[misc]  # of a program, not of a package
    """A generation of one sample at a time, in their order."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        super().__init__(texts)
        self.cfg |= {"backend": "vllm", "vllm_cfg": {"async_engine": True}}
        self.left = list(texts)

    async def generate_async(self, asked: Any, **_: object) -> AsyncIterator[tuple[int, Any]]:
        one = Given((self.left.pop(0),)).generate(asked)
        await asyncio.sleep(0)
        yield 0, one


def summary(batch: Any, metrics: dict[str, Any]) -> dict[str, Any]:
    rewards = batch["total_reward"]
    return {
        "rewards": rewards.tolist(),
        "advantages": advantages(rewards, repeated_batch={}),
        "mean": metrics["mean_total_reward"],
        "rows": [sorted(row) for row in batch["extra_env_info"]],
    }


async def grouped(asked: Any, texts: tuple[str, ...], environments: Any) -> Any:
    """The one group of a step, as the older asynchronous loop rolls it out."""
    found = rollouts.run_async_multi_turn_rollout_groups(
        Streamed(texts),
        asked,
        Characterwise(),
        environments,
        num_generations=len(texts),
        **LIMITS,
    )
    return [one async for one in found]


def fills_in(actor: Any) -> bool:
    """Whether the process of an actor has the function that fills in."""
    from nemo_rl.experience import rollouts

    return bool(type(actor).fills_in and rollouts._run_multi_turn_rollout_async.fills_in)


def goes_by_value() -> bool:
    """Whether what an actor gets runs in a Python without Assay, as its environment may be one."""
    pickled = ray.cloudpickle.dumps(replacement())
    program = (
        "import sys; sys.modules['assay'] = None; import pickle;"
        "replace = pickle.load(sys.stdin.buffer); sys.exit(not replace(len).fills_in)"
    )
    done = subprocess.run([sys.executable, "-c", program], input=pickled, check=False)
    return done.returncode == 0


def through_plane(environments: Any, rows: list[Any], texts: tuple[str, ...]) -> Any:
    # Otherwise Ray installs the queue by pip for each of its actors; it is installed here.
    transfer_queue._patch_tq_actor_runtime_env = lambda: None
    client = build_data_plane_client(PLANE)
    try:
        settings = recipe(gym=False)
        settings.policy["generation"]["backend"] = "vllm"
        actor = grpo_sync.SyncRolloutActor.options(num_cpus=0.1).remote(
            Streamed(texts), Characterwise(), environments, settings, PLANE
        )
        found = step(client, rows, texts, actor, task="assay")
        return {**found, "fills_in": ray.get(actor.__ray_call__.remote(fills_in))}
    finally:
        client.close()


def by_rollouts(environments: Any, rows: list[Any], texts: tuple[str, ...]) -> Any:
    whole = rollouts.run_async_multi_turn_rollout(
        Streamed(texts), batch(texts, rows, "assay"), Characterwise(), environments, **LIMITS
    )
    (group,) = asyncio.run(grouped(batch(texts, rows, "assay"), texts, environments))
    collector = async_utils.AsyncTrajectoryCollector.__ray_metadata__.modified_class
    return {
        "whole": summary(*whole),
        "group": summary(group.final_batch, group.rollout_metrics),
        "collector": collector.fills_in,
        "goes_by_value": goes_by_value(),
    }


def main(path: str, what: str, *texts: str) -> None:
    sys.path.insert(0, str(Path(path).parent))
    importlib.import_module(Path(path).stem)
    ray.init(num_cpus=16, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        options = {"pipeline": "math", "quiet_s": 0.1, "url": os.environ["ASSAY_URL"]}
        environments = {"assay": create_env("assay", options)}
        rows = [{"ground_truth": "5"} for _ in texts]
        roll_out = {"rollouts": by_rollouts, "plane": through_plane}[what]
        found = roll_out(environments, rows, texts)
    finally:
        ray.shutdown()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
