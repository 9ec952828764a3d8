"""Which stages a host sweeps: those with work always, each of the others in its turn; and when."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.ids import StageName
from assay.core.records import Reaped
from assay.worker.sweeps import IN_TURN, OTHERS_S, SweepTurns, reap

STAGES = [StageName(f"stage{number}") for number in range(3 * IN_TURN + 2)]


@given(
    st.lists(st.sampled_from(STAGES), unique=True),
    st.lists(st.sets(st.sampled_from(STAGES)), max_size=20),
)
def test_work_is_swept_at_once_and_no_stage_is_forgotten(
    stages: list[StageName], turns: list[set[StageName]]
) -> None:
    sweeps = SweepTurns(stages)
    turns_max = math.ceil(len(stages) / IN_TURN)
    unseen = dict.fromkeys(stages, 0)
    for at_work in turns:
        chosen = sweeps.next(at_work)
        assert len(set(chosen)) == len(chosen)
        assert set(chosen) >= at_work & set(stages)
        assert set(chosen) <= set(stages)
        assert chosen or not stages
        for stage in stages:
            unseen[stage] = 0 if stage in chosen else unseen[stage] + 1
        assert max(unseen.values(), default=0) < max(turns_max, 1)


def test_an_idle_host_sweeps_few_stages_at_once() -> None:
    sweeps = SweepTurns(STAGES)
    assert [len(sweeps.next([])) for _ in range(9)] == [IN_TURN] * 9


class Swept:
    """A store in which nothing has expired."""

    def __init__(self) -> None:
        self.reaps = 0

    async def reap(self, stage: StageName, *, attempts_max: int, jobs_max: int) -> Reaped:
        """Count the call."""
        self.reaps += 1
        return Reaped(redelivered=0, dead=0, expired=0, completed=())


@pytest.mark.parametrize(
    ("is_up", "beaten_ns", "regained_s_ago", "reaps"),
    [
        (True, None, OTHERS_S, 1),
        (True, 100, OTHERS_S, 1),
        (True, 99, OTHERS_S, 0),
        (True, 1, OTHERS_S, 0),
        (False, None, OTHERS_S, 0),
        (False, 200, OTHERS_S, 0),
        (True, None, OTHERS_S - 0.1, 0),
        (True, 200, OTHERS_S - 0.1, 0),
    ],
)
async def test_after_an_outage_a_host_renews_its_leases_before_it_takes_any_back(
    is_up: bool, beaten_ns: int | None, regained_s_ago: float, reaps: int
) -> None:
    """Its own leases may have expired in the outage, while it works on; so may those of others."""
    store = Swept()
    now_ns = 100 + int(regained_s_ago * 1e9)
    parts: Any = SimpleNamespace(
        health=SimpleNamespace(is_up=is_up, regained_ns=100),
        store=store,
        clock=SimpleNamespace(monotonic_ns=lambda: now_ns),
        attempts_max=3,
        metrics=None,
    )
    await reap(parts, STAGES[0], beaten_ns)
    assert store.reaps == reaps
