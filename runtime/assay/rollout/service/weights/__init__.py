"""Weights that trainers push, staged into the engine's second slot while it decodes."""

from assay.rollout.service.weights.folders import ServerFolder
from assay.rollout.service.weights.framing import apart
from assay.rollout.service.weights.parts import Head, PushKind, PushSpec, WeightPart
from assay.rollout.service.weights.push import Pushed, Pushes, WeightSlots

__all__ = [
    "Head",
    "PushKind",
    "PushSpec",
    "Pushed",
    "Pushes",
    "ServerFolder",
    "WeightPart",
    "WeightSlots",
    "apart",
]
