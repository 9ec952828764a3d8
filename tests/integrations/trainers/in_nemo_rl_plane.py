"""Rolls a step out by NeMo-RL's path with `data_plane.enabled`: its rollout actor, TransferQueue.

`in_nemo_rl_plane.py PATH URL TEXTS`, with the path of the example that registers the environment
and the URL of our NeMo-Gym endpoint. Real are `SyncRolloutActor` and its queue, NeMo-Gym's actor
without the servers behind it, and what the loop of `grpo_sync` computes from what the actor hands
over. The responses are given. Prints, as JSON, rewards, advantages, and what is in the queue.
"""

import asyncio
import importlib
import json
import os
import sys
import urllib.request
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ray
import torch
from in_nemo_rl import PROMPT, advantages  # type: ignore[import-not-found]  # beside this program
from nemo_rl.data_plane import build_data_plane_client
from nemo_rl.data_plane.adapters import transfer_queue
from nemo_rl.data_plane.column_io import read_columns
from nemo_rl.data_plane.schema import DP_TRAIN_FIELDS
from nemo_rl.distributed.batched_data_dict import BatchedDataDict
from nemo_rl.environments import nemo_gym
from nemo_rl.environments.utils import create_env
from nemo_rl.experience.sync_rollout_actor import SyncRolloutActor

PLANE = {
    "enabled": True,
    "impl": "transfer_queue",
    "backend": "simple",
    "storage_capacity": 64,
    "num_storage_units": 1,
    "claim_meta_poll_interval_s": 0.5,
    "global_segment_size": 1 << 26,
    "local_buffer_size": 1 << 24,
}


def ids(text: str) -> list[int]:
    return [ord(letter) for letter in text]


class Characters:
    """A tokenizer whose ids are code points."""

    pad_token_id = 0

    def __call__(self, text: str, **_: object) -> Any:
        return SimpleNamespace(input_ids=torch.tensor([ids(text)]))

    def batch_decode(self, rows: Any, **_: object) -> list[str]:
        return ["".join(chr(int(one)) for one in row) for row in rows]


class Given:
    """A generation whose responses are given; a batch's samples come in their order."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        self.cfg = {"max_total_sequence_length": 64}
        self.texts = texts

    def generate(self, asked: Any, **_: object) -> Any:
        rows = [
            [*prompt[:length].tolist(), *ids(text)]
            for prompt, length, text in zip(
                asked["input_ids"], asked["input_lengths"], self.texts, strict=True
            )
        ]
        lengths = torch.tensor([len(row) for row in rows])
        longest = int(lengths.max())
        padded = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        return BatchedDataDict(
            {
                "output_ids": padded,
                "generation_lengths": lengths - asked["input_lengths"],
                "unpadded_sequence_lengths": lengths,
                "logprobs": torch.zeros(padded.shape),
            }
        )

    def clear_logger_metrics(self) -> None:
        """There are none."""

    def get_logger_metrics(self) -> dict[str, Any]:
        return {}

    def finish_generation(self) -> None:
        """Nothing to release."""


class Helper:
    """NeMo-Gym's `RolloutCollectionHelper`, with given responses; our endpoint verifies."""

    def __init__(self, url: str) -> None:
        self.url = url

    def run_examples(self, *, examples: list[Any], **_: object) -> Any:
        # The last first, because an agent that is done says so at once.
        return [self._run(row) for row in reversed(examples)]

    async def _run(self, row: Any) -> tuple[Any, Any]:
        body = json.dumps({**row, "response": {"output": [row["said"]]}}).encode()
        asked = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
        with await asyncio.to_thread(urllib.request.urlopen, asked) as answer:
            found = json.load(answer)
        return row, found


def put(gym: Any, *, helper: Helper) -> None:
    """In place of the servers that NeMo-Gym's actor would start."""
    gym.rh, gym.rch = helper, helper


def message(text: str) -> dict[str, Any]:
    """An output item as NeMo-Gym's model server makes it for training."""
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
        "prompt_token_ids": ids(PROMPT),
        "generation_token_ids": ids(text),
        "generation_log_probs": [0.0] * len(text),
    }


def gym_rows(texts: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {
            "responses_create_params": {"input": [{"role": "user", "content": PROMPT}]},
            "expected_answer": "5",
            "agent_ref": {"name": "given"},
            "said": message(text),
        }
        for text in texts
    ]


def batch(texts: tuple[str, ...], rows: list[Any], task: str) -> Any:
    """A step's prompt, repeated, as `grpo_train_sync` hands it to the actor."""
    count = len(texts)
    return BatchedDataDict(
        {
            "message_log": [
                [{"role": "user", "content": PROMPT, "token_ids": torch.tensor(ids(PROMPT))}]
                for _ in texts
            ],
            "length": torch.tensor([len(PROMPT)] * count),
            "loss_multiplier": torch.ones(count),
            "extra_env_info": rows,
            "task_name": [task] * count,
            "idx": list(range(count)),
        }
    )


def recipe(*, gym: bool) -> Any:
    """What the rollout actor reads of the master configuration."""
    generation = {
        "backend": "vllm" if gym else "given",
        "vllm_cfg": {"async_engine": True, "expose_http_server": True},
        "stop_strings": None,
        "stop_token_ids": None,
        "max_new_tokens": 32,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": None,
    }
    policy = {"generation": generation, "max_total_sequence_length": 64}
    return SimpleNamespace(
        policy={**policy, "make_sequence_length_divisible_by": 1},
        env={"should_use_nemo_gym": gym, "nemo_gym": {}},
        grpo=SimpleNamespace(
            max_rollout_turns=1, deduplicate_multimodal_data=False, debug_payload_metrics=False
        ),
        logger={"wandb_enabled": False, "wandb": {}},
        reward_penalties=None,
    )


def step(client: Any, rows: list[Any], texts: tuple[str, ...], actor: Any, *, task: str) -> Any:
    """One step through the actor and the queue; what the loop computes of it."""
    client.register_partition(
        partition_id=task,
        fields=DP_TRAIN_FIELDS,
        num_samples=len(texts),
        consumer_tasks=["train"],
        grpo_group_size=len(texts),
    )
    given = batch(texts, rows, task)
    asked = actor.rollout_to_tq.remote(given, partition_id=task, group_size=len(texts))
    meta, carry, _, _ = ray.get(asked)
    queued = read_columns(client, meta, ["input_ids", "sample_mask"])
    return {
        "rewards": carry["total_reward"].tolist(),
        "advantages": advantages(carry["total_reward"], repeated_batch={}),
        "groups": len({tuple(row) for row in carry["prompt_ids_for_adv"].tolist()}),
        "queued": [
            "".join(map(chr, filter(None, row[len(PROMPT) :].tolist())))
            for row in queued["input_ids"]
        ],
    }


def main(path: str, url: str, *texts: str) -> None:
    sys.path.insert(0, str(Path(path).parent))
    importlib.import_module(Path(path).stem)
    ray.init(num_cpus=16, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    # Otherwise Ray installs the queue by pip for each of its actors; it is installed here.
    transfer_queue._patch_tq_actor_runtime_env = lambda: None
    client = build_data_plane_client(PLANE)
    try:
        options = {"pipeline": "math", "quiet_s": 0.1, "url": os.environ["ASSAY_URL"]}
        environments = {"assay": create_env("assay", options)}
        gym = nemo_gym.NemoGym.options(num_cpus=0.1).remote({"initial_global_config_dict": {}})
        helper = Helper(f"{url}/v1/nemo_gym/math/verify")
        ray.get(gym.__ray_call__.remote(partial(put, helper=helper)))
        ray.get(gym.set_tokenizer.remote(Characters()))
        environments["nemo_gym"] = gym
        found = {}
        for task, rows in (
            ("assay", [{"ground_truth": "5"}] * len(texts)),
            ("nemo_gym", gym_rows(texts)),
        ):
            actor = SyncRolloutActor.options(num_cpus=0.1).remote(
                Given(texts), Characters(), environments, recipe(gym=task == "nemo_gym"), PLANE
            )
            found[task] = step(client, rows, texts, actor, task=task)
    finally:
        client.close()
        ray.shutdown()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
