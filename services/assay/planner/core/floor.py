"""What a pool holds whatever a plan says, and what it holds without a plan. Pure.

A plan adds lead and holds back what may wait; neither its absence nor its mistakes may leave work
waiting where there is no slot.
"""


def without_plan(desired: int, queued: int, running: int, slots_min: int, slots_max: int) -> int:
    """Slots to hold while no plan is fresh: at least what runs and waits, within the cap.

    It only raises: what a plan held before may be its lead. The next plan, or the end of all work,
    takes it down.
    """
    return max(desired, min(max(queued + running, slots_min), slots_max), 0)


def with_plan(planned: int, queued: int, slots_max: int) -> int:
    """Slots to hold where a plan is fresh: never none where something waits, within the cap.

    What waits may be unknown to the plan: a dead letter that was replayed, or a batch beyond those
    that are planned.
    """
    return max(planned, min(1, slots_max)) if queued else planned
