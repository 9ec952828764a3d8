"""A reward is present exactly where the outcome carries one."""

import pytest

from assay.core.ids import PipelineName, StageName
from assay.core.outcome import Outcome
from assay.core.pipeline import PipelineSpec
from assay.core.verdict import Ended, ResourceUse


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_reward_is_present_exactly_where_the_outcome_carries_one(outcome: Outcome) -> None:
    fitting = 0.5 if outcome.carries_reward else None
    misfit = None if outcome.carries_reward else 0.0
    assert Ended(outcome=outcome, reward=fitting).reward == fitting
    with pytest.raises(ValueError, match=outcome.value):
        Ended(outcome=outcome, reward=misfit)


def test_an_infrastructure_failure_is_never_a_reward() -> None:
    assert {o for o in Outcome if o.carries_reward} == {Outcome.SCORED, Outcome.RESOURCE_LIMIT}


def test_cpu_time_adds_up_and_the_largest_memory_counts() -> None:
    total = ResourceUse(cpu_s=1.0, memory_bytes_peak=10).plus(
        ResourceUse(cpu_s=0.5, memory_bytes_peak=7)
    )
    assert total == ResourceUse(cpu_s=1.5, memory_bytes_peak=10)


def test_a_pipeline_knows_what_follows_a_stage() -> None:
    spec = PipelineSpec(
        name=PipelineName("p"), description="", stages=(StageName("a"), StageName("b"))
    )
    assert spec.next_stage(StageName("a")) == "b"
    assert spec.next_stage(StageName("b")) is None
    with pytest.raises(ValueError, match="not in tuple"):
        spec.next_stage(StageName("c"))
