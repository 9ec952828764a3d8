"""Rewards from Assay in slime: the functions that its options name.

    pip install .               # where slime's rollouts run; the service runs where `assay up` does
    assay up                    # on the machine that scores
    ASSAY_PIPELINE=math ASSAY_STEP_SIZE=256 \\
    PYTHONPATH=examples python train.py --group-rm \\
        --custom-rm-path slime_reward.custom_rm \\
        --custom-reward-post-process-path slime_reward.post_process_rewards ...

A response that the platform could not judge is removed from the loss and from its group's mean.
docs/integrations/slime.md
"""

from assay.integrations.trainers.slime import custom_rm, post_process_rewards

__all__ = ["custom_rm", "post_process_rewards"]
