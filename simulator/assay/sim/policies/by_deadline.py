"""The plan without an order of its own: batches are served by their deadlines (EBF alone)."""

from dataclasses import replace

from assay.model.observation import Observation, Sizing
from assay.planner.core.policy import Assay


class ByDeadline(Assay):
    """Sizes pools as `Assay` does, and leaves the order of batches as it is."""

    name = "by_deadline"

    def decide(self, observation: Observation) -> Sizing:
        """The sizing alone."""
        return replace(super().decide(observation), order=())
