"""Rewards from Assay in SkyRL: an environment of skyrl-gym, and the advantages of what was judged.

    pip install .               # where SkyRL runs; the service runs where `assay up` does
    assay up                    # on the machine that scores
    ASSAY_PIPELINE=math python examples/skyrl_environment.py \\
        environment.env_class=assay trainer.algorithm.advantage_estimator=assay_grpo ...

Rows need `reward_spec.ground_truth`. A response that the platform could not judge has the reward
NaN, no vote in its group, and the advantage 0. docs/integrations/skyrl.md
"""

from skyrl_gym.envs.base_text_env import BaseTextEnv

from assay.integrations.environments.skyrl import Scored, judged_grpo


class Environment(Scored, BaseTextEnv):
    """Single-turn episodes with rewards from Assay."""


def register() -> None:
    """Tell SkyRL of both; needed in the process that starts it and in its entry point."""
    from skyrl.backends.skyrl_train.utils.ppo_utils import AdvantageEstimatorRegistry
    from skyrl_gym.envs import register as register_environment

    register_environment(id="assay", entry_point=Environment)
    AdvantageEstimatorRegistry.register("assay_grpo", judged_grpo)


def main() -> None:
    """SkyRL's own `main_base`, with the environment and the estimator."""
    import sys

    import ray
    from skyrl.train.config import SkyRLTrainConfig
    from skyrl.train.entrypoints.main_base import BasePPOExp
    from skyrl.train.utils import validate_cfg
    from skyrl.train.utils.utils import initialize_ray

    @ray.remote(num_cpus=1)
    def run(cfg: SkyRLTrainConfig) -> None:
        register()
        BasePPOExp(cfg).run()

    register()
    cfg = SkyRLTrainConfig.from_cli_overrides(sys.argv[1:])
    validate_cfg(cfg)
    initialize_ray(cfg)
    ray.get(run.remote(cfg))


if __name__ == "__main__":
    main()
