"""Scores a group by slime's own reward hub and turns it into training data by its RolloutManager.

`in_slime.py sample|group URL TEXTS` with Assay's functions, `in_slime.py remote URL TEXTS` with
slime's `remote_rm` and our endpoint. Prints, as JSON, what slime would train on. Responses are
given: run by `without_gpu.py` without SGLang.
"""

import asyncio
import json
import sys
from argparse import Namespace
from typing import Any

from slime.ray.rollout import RolloutManager
from slime.rollout.filter_hub.dynamic_sampling_filters import check_reward_nonzero_std
from slime.rollout.rm_hub import async_rm, batched_async_rm
from slime.utils.misc import load_function
from slime.utils.types import Sample

from assay.integrations.scorer import close

HOOKS = "assay.integrations.trainers.slime"


def arguments(form: str, url: str) -> Namespace:
    """slime's, as far as rewards are concerned."""
    return Namespace(
        custom_rm_path=None if form == "remote" else f"{HOOKS}.custom_rm",
        rm_type="remote_rm",
        rm_url=f"{url}/v1/slime/math/rm",
        group_rm=form == "group",
        custom_reward_post_process_path=f"{HOOKS}.post_process_rewards",
        reward_key=None,
        advantage_estimator="grpo",
        rewards_normalization=True,
        grpo_std_normalization=False,
        rollout_top_p=1.0,
    )


async def rewarded(chosen: Namespace, samples: list[Sample]) -> list[float]:
    """As `generate_and_rm_group` does it once the responses are there."""
    if chosen.group_rm:
        return list(await batched_async_rm(chosen, samples))
    return list(await asyncio.gather(*(async_rm(chosen, sample) for sample in samples)))


def train_data(chosen: Namespace, samples: list[Sample]) -> dict[str, Any]:
    """The manager's own conversion; the manager is an actor, of which only this part is needed."""
    manager = object.__new__(RolloutManager.__ray_metadata__.modified_class)
    manager.args = chosen
    manager.custom_reward_post_process_func = load_function(chosen.custom_reward_post_process_path)
    manager.custom_convert_samples_to_train_data_func = None
    found: dict[str, Any] = manager._convert_samples_to_train_data(samples)
    return found


def main(form: str, url: str, *texts: str) -> None:
    chosen = arguments(form, url)
    chosen.n_samples_per_prompt, chosen.rollout_batch_size = len(texts), 1
    samples = [
        Sample(
            group_index=3,
            index=at,
            prompt="2 + 3?",
            tokens=[0, 1, 2],
            response=text,
            response_length=2,
            label="5",
            status=Sample.Status.COMPLETED,
        )
        for at, text in enumerate(texts)
    ]
    rewards = asyncio.run(rewarded(chosen, samples))
    close()
    for sample, reward in zip(samples, rewards, strict=True):
        sample.reward = reward
    advantages = {}
    for name in ("grpo", "gspo", "cispo", "reinforce_plus_plus_baseline"):
        chosen.advantage_estimator = name
        advantages[name] = train_data(chosen, samples)["rewards"]
    masks = train_data(chosen, samples)["loss_masks"]
    print(
        json.dumps(
            {
                "advantages": advantages,
                "masks": masks,
                "status": [sample.status.value for sample in samples],
                "kept": bool(check_reward_nonzero_std(chosen, samples).keep),
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
