"""Runs OpenRLHF's command, and generates a batch by its own rollout actors.

`in_openrlhf_command.py REWARD PROMPTS`: `REWARD` is what `--reward.remote_url` gets, `PROMPTS` are
JSON, a list of prompts with their responses. Its parser, its checks and its rollout actors in Ray
run as in a training; the command ends where the policy would be loaded, which needs a GPU. Then
its `SamplesGenerator` generates one batch of one prompt, filtered. vLLM is a stand-in whose
responses are given. Prints, as JSON, the batch's prompt and rewards, and how many prompts it took.
"""

import json
import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = str(Path(__file__).parent)
"""With the tokenizer, and vLLM's stand-in."""
COMMAND = "openrlhf.cli.train_ppo_ray"


class Reached(Exception):
    """The command got to where the policy is loaded."""


def command(reward: str, samples: int) -> Any:
    """The arguments and the rollout actors of the command."""
    from openrlhf.trainer.ray import launcher

    def reached(*_: object, **__: object) -> None:
        raise Reached

    launcher.RayActorGroup = reached
    sys.argv = [COMMAND, "--actor.model_name_or_path", "none", "--reward.remote_url", reward]
    sys.argv += ["--algo.dynamic_filtering_enable", "--algo.dynamic_filtering_range", "0.0", "1.0"]
    sys.argv += ["--rollout.n_samples_per_prompt", str(samples), "--rollout.batch_size", "1"]
    sys.argv += ["--rollout.micro_batch_size", "1", "--vllm.num_engines", "1"]
    sys.argv += ["--actor.num_gpus_per_node", "1"]
    sys.argv += ["--algo.advantage.estimator", "group_norm"]
    try:
        runpy.run_module(COMMAND, run_name="__main__")
    except Reached as ended:
        at = ended.__traceback__
        while at is not None:
            if "vllm_engines" in at.tb_frame.f_locals:
                return at.tb_frame.f_locals
            at = at.tb_next
    message = "the command ended before its rollout actors were made"
    raise RuntimeError(message)


def main(reward: str, prompts: str) -> None:
    said: list[tuple[str, list[str]]] = json.loads(prompts)
    os.environ["GIVEN_RESPONSES"] = json.dumps(dict(said))
    # Ray's workers load from it, too.
    os.environ["PYTHONPATH"] = os.pathsep.join((HERE, os.environ.get("PYTHONPATH", "")))
    sys.path.insert(0, HERE)
    import ray
    from in_openrlhf import Characters  # type: ignore[import-not-found]  # beside this program

    quiet = {"include_dashboard": False, "logging_level": "ERROR", "log_to_driver": False}
    ray.init(num_cpus=4, num_gpus=1, **quiet)  # a GPU by name only: the actors ask for one
    try:
        found = command(reward, len(said[0][1]))
        from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

        generator = SamplesGenerator(
            SimpleNamespace(args=found["args"]),
            [(None, [prompt], ["5"], [None]) for prompt, _ in said],
            None,
            Characters(),
            found["vllm_engines"],
        )
        samples, _, consumed, _ = generator.generate_samples(max_len=128, max_new_tokens=64)
        told = {
            "prompts": sorted({one.prompts[0] for one in samples}),
            "rewards": [one.rewards.item() for one in samples],
            "failed": [one.info["infra_failed"].item() for one in samples],
            "consumed": consumed,
        }
    finally:
        ray.shutdown()
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
