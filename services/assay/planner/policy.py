"""`assay` as a policy: plans at every event and looks again every tick."""

from assay.planner.plan import Plan, PlanSettings, make_plan
from assay.sim.arrays import to_ns
from assay.sim.observation import Cause, Decision, Observation
from assay.sim.policy import PoolPolicy


class Assay(PoolPolicy):
    """Time-varying, chance-constrained, re-planned inside the batch."""

    name = "assay"

    def __init__(self, settings: PlanSettings | None = None, *, search_every: int = 4) -> None:
        self.settings = settings or PlanSettings()
        self.search_every = search_every
        self.plan: Plan | None = None
        self.looks = 0

    def decide(self, observation: Observation) -> Decision:
        """Plan; search for new peaks at events and every few ticks."""
        former = self.plan
        peaks = [stage.wanted for stage in former.stages] if former and former.batches else None
        event = observation.cause is not Cause.WAKE
        self.looks = 0 if event else self.looks + 1
        search = peaks is None or event or self.looks % self.search_every == 0
        self.plan = make_plan(observation, self.settings, peaks_hint=peaks, search=search)
        wake = observation.now_ns + to_ns(self.settings.tick_s)
        return Decision(targets=self.plan.targets, wake_ns=wake if self.plan.batches else None)
