"""Rewards from Assay in TRL: pass `reward` to `GRPOTrainer(reward_funcs=reward, ...)`.

    pip install . trl           # on the trainer; the service runs where `assay up` does
    assay up                    # on the machine that scores

The data set has a column `answer`. The list that is returned holds one entry per completion: a
float, or `None` where the platform could not judge the response, which TRL leaves out of the
group's mean and of the loss. docs/integrations/trl.md
"""

from assay.integrations.trainers.trl import Reward

reward = Reward("math", reference="answer")
