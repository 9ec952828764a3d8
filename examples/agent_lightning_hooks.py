"""Rewards from Assay in Agent Lightning: the hooks of its rollouts.

    pip install . agentlightning  # on the trainer
    assay up                           # on the machine that scores
    export ASSAY_URL=HOST:8470 ASSAY_PIPELINE=math
    export VERL_USE_EXTERNAL_MODULES=assay.integrations.trainers.verl_baseline

with `agentlightning.hooks=examples/agent_lightning_hooks.py` and
`agentlightning.reward_fillna_value=-65536.0`. docs/integrations/agent_lightning.md
"""

from agentlightning.hooks import RolloutHooks

from assay.integrations.trainers.agent_lightning import Scored


class Hooks(Scored, RolloutHooks):
    """Judges what the model wrote last; a row's `answer` is the label."""
