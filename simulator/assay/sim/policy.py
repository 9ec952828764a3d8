"""The one interface of everything that decides how many workers there are."""

from typing import Protocol

from assay.sim.cluster import Sharing
from assay.sim.observation import Decision, Observation


class Policy(Protocol):
    """Asked at each `Cause`; may keep state between calls; reads no clock, draws from its seed."""

    @property
    def name(self) -> str:
        """As in reports: `distrs`."""

    @property
    def sharing(self) -> Sharing:
        """One pool a stage, or one a stage and task."""

    @property
    def elastic(self) -> bool:
        """True = a worker a request; `decide` is not asked for numbers."""

    def decide(self, observation: Observation) -> Decision:
        """How many workers there should be from now on."""


class PoolPolicy:
    """What most policies have in common: shared pools that somebody sizes."""

    name = "pool"
    sharing: Sharing = "shared"
    elastic = False
