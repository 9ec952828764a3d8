"""Rewards from Assay in AReaL: a workflow that its trainer names by path.

    pip install . areal         # on the trainer; the service runs where `assay up` does
    assay up                 # on the machine that scores

    PPOTrainer(config, train_dataset=rows).train(
        workflow="examples.areal_workflow.Workflow",
        workflow_kwargs={
            "scoring": "math",
            "options": {"step_size": 256},  # responses of a step
            "gconfig": config.gconfig,
            "tokenizer": config.tokenizer_path,
        },
        dynamic_filter_fn=whole_group(config.gconfig.n_samples),
    )

A response that the platform could not judge is a rejected episode. docs/integrations/areal.md
"""

from areal.workflow.rlvr import RLVRWorkflow

from assay.integrations.trainers.areal import Scored, whole_group

__all__ = ["Workflow", "whole_group"]


class Workflow(Scored, RLVRWorkflow):
    """AReaL's single-turn workflow with rewards from Assay."""
