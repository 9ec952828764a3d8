"""Which stages a host sweeps: those with work always, each of the others in its turn."""

import math

from hypothesis import given
from hypothesis import strategies as st

from assay.core.ids import StageName
from assay.worker.sweeps import IN_TURN, SweepTurns

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
