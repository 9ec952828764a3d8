"""Settings that name stages: parts of a fused stage stand for the whole."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from assay.config.settings import PlannerSettings, Settings, WorkerSettings
from assay.core.errors import NotFound
from assay.core.ids import StageName
from assay.verifiers.named_stages import PLANNER_VALUES, by_whole, for_planner, for_worker
from assay.verifiers.registry import load_pipelines, stages_of

STAGES = stages_of(load_pipelines(found=()))
VERIFY = StageName("math.verify")


def worker(**settings: Any) -> WorkerSettings:
    return for_worker(Settings(worker=WorkerSettings(**settings)), STAGES).worker


@pytest.mark.parametrize("named", [("extract",), (VERIFY,), ("extract", VERIFY)])
def test_a_host_that_is_to_serve_a_part_of_math_serves_math(named: tuple[str, ...]) -> None:
    assert worker(stages=named).stages == (VERIFY,)
    assert worker(stages=named, slots=3).slots_at_start(VERIFY, on_demand=True) == 3


def test_slots_of_a_part_are_those_of_the_whole() -> None:
    assert worker(slots_by_stage={"extract": 5}).slots_at_start(VERIFY, on_demand=True) == 5


@pytest.mark.parametrize("setting", PLANNER_VALUES)
def test_the_planner_reads_a_part_as_the_whole_and_logs_what_no_pipeline_has(setting: str) -> None:
    planner = PlannerSettings(**{setting: {"extract": 1, "none.such": 1}})
    with capture_logs() as logged:
        found = for_planner(Settings(planner=planner), STAGES).planner
    assert getattr(found, setting) == {VERIFY: 1, "none.such": 1}
    assert [(one["stage"], one["setting"]) for one in logged] == [
        ("none.such", f"planner.{setting}")
    ]


@pytest.mark.parametrize(
    "settings", [{"stages": ("none.such",)}, {"slots_by_stage": {"none.such": 1}}]
)
def test_a_host_refuses_a_stage_that_no_pipeline_has(settings: Mapping[str, Any]) -> None:
    with pytest.raises(NotFound) as refused:
        worker(**settings)
    assert refused.value.field == f"worker.{next(iter(settings))}"


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9)))
def test_a_stage_has_its_own_value_or_the_largest_of_its_parts(values: dict[str, int]) -> None:
    """`a` and `b` are parts of `b`, `c` of `d`."""
    whole = {name: StageName(of) for name, of in zip("abcd", "bbdd", strict=True)}
    parts = {"b": "ab", "d": "cd"}
    expected = {
        stage: values.get(stage, max(values[name] for name in names if name in values))
        for stage, names in parts.items()
        if any(name in values for name in names)
    }
    assert by_whole(values, whole) == expected
