"""Rewards from Assay in ROLL: the worker that a recipe names.

    pip install .               # where ROLL's workers run
    assay up                     # on the machine that scores

    rewards:
      math_rule:
        worker_cls: assay.integrations.trainers.roll_worker.RewardWorker
        system_envs: {ASSAY_URL: "HOST:8470", ASSAY_PIPELINE: math}

A response that the platform could not judge leaves the loss and its group's mean.
docs/integrations/roll.md
"""

from assay.integrations.trainers.roll_worker import RewardWorker

__all__ = ["RewardWorker"]
