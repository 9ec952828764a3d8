"""Rewards from Assay in verl: a custom reward function, one call per response.

    pip install . verl          # on the trainer; the service runs where `assay up` does
    assay up                    # on the machine that scores
    VERL_USE_EXTERNAL_MODULES=assay.integrations.trainers.verl_baseline \\
    python -m verl.trainer.main_ppo \\
        reward.custom_reward_function.path=examples/verl_reward.py \\
        reward.custom_reward_function.name=compute_score ...

verl has no word for "no reward": a response that the platform could not judge scores 0.0 with
`infra_failed` 1.0, and the external module keeps it out of its group's baseline. Every result has
the same keys, as verl requires. docs/integrations/verl.md
"""

import functools

from assay.integrations.trainers.verl import compute_score as of_any_pipeline

compute_score = functools.partial(of_any_pipeline, pipeline="math")
