"""TRL on Assay's rollout service: generation and rewards both come from the platform.

    assay up &
    ASSAY_ROLLOUT__MODEL=MODEL python -m assay.rollout &
    GRPOTrainer(model=MODEL, rollout_func=rollout_func, reward_funcs=reward, ...)

docs/integrations/trl.md
"""

from assay.integrations.trainers.trl import Reward
from assay.integrations.trainers.trl_rollouts import Rollouts

rollout_func = Rollouts("127.0.0.1:8480")
reward = Reward("math", reference="answer")
