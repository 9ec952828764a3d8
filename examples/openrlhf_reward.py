"""Rewards from Assay in OpenRLHF: the file that `--reward.remote_url` names.

    pip install . openrlhf      # on the trainer; the service runs where `assay up` does
    assay up                    # on the machine that scores
    ASSAY_PIPELINE=math ASSAY_STEP_SIZE=1024 \\
    python -m openrlhf.cli.train_ppo_ray \\
        --reward.remote_url examples/openrlhf_reward.py \\
        --algo.dynamic_filtering_enable ...

A response that the platform could not judge has no score, so that the dynamic filter replaces its
group. docs/integrations/openrlhf.md
"""

from assay.integrations.trainers.openrlhf import reward_func

__all__ = ["reward_func"]
