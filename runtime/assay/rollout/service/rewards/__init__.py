"""Rewards of finished responses: the interface, and the desk in front of the reward service."""

from assay.rollout.service.rewards.desk import RewardServiceDesk
from assay.rollout.service.rewards.port import Response, RewardDesk, infra_failed, json_object

__all__ = ["Response", "RewardDesk", "RewardServiceDesk", "infra_failed", "json_object"]
