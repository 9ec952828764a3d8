"""From the settings tree to how planning is done."""

from assay.config.settings import PlannerSettings
from assay.model.arrays import to_ns
from assay.planner.core.plan import PlanSettings
from assay.planner.session.observe import Assumed
from assay.planner.session.session import Planning


def plan_settings(settings: PlannerSettings) -> PlanSettings:
    """How to make a plan."""
    return PlanSettings(
        futures=settings.futures,
        shape_futures=min(settings.futures, PlanSettings().shape_futures),
        epsilon=settings.epsilon,
        spare_workers=settings.spare_slots,
        bin_s=settings.tick_s,
        tick_s=settings.tick_s,
        replan_s=settings.replan_s,
        search_s=settings.search_s,
        hold_s=settings.hold_s,
    )


def new_planning(settings: PlannerSettings) -> Planning:
    """A planner that knows nothing yet."""
    budget_s = settings.delay_budget_s
    assumed = Assumed(delay_budget_ns=None if budget_s is None else to_ns(budget_s))
    return Planning(plan_settings(settings), assumed, history_batches=settings.history_batches)
