"""Stages that run as one: which they are, and that no verdict changes by it."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.ids import PipelineName, StageName
from assay.core.outcome import Outcome
from assay.core.pipeline import PipelineSpec, Resources, StageSpec
from assay.core.verdict import Ended, HandedOver, ResourceUse, StageVerdict
from assay.verifiers.fusion import FusedHandler, parts_of, with_fused_stages
from assay.verifiers.local import LocalPipelines
from assay.verifiers.math.definition import MathReference, MathSettings
from assay.verifiers.math.extract import ExtractHandler
from assay.verifiers.options import Strategy
from assay.verifiers.port import PipelineDefinition, StageDefinition, StageHandler, Work
from assay.verifiers.registry import load_pipelines, stages_of

NAMES = tuple(map(StageName, "abcdef"))
SHAPES = (Resources(), Resources(cpu_cores=2.0))
DUTIES: tuple[Mapping[str, Any], ...] = (
    {"finds_faults": True},
    {"audits": True},
    {"trusts": True},
    {"artifacts": "module:key"},
)


def stage(name: str, **changes: Any) -> StageDefinition:
    """A confined stage that may be fused."""
    own = {key: changes.pop(key) for key in list(changes) if key in StageSpec.__dataclass_fields__}
    spec = {"timeout_s": 4.0, "cpu_s_max": 2.0, **own}
    made = StageDefinition(
        spec=StageSpec(name=StageName(name), **spec), handler=f"of_{name}:Handler", confined=True
    )
    return replace(made, **changes)


def pipelines(*several: Sequence[StageDefinition]) -> dict[PipelineName, PipelineDefinition]:
    """One per list of stages, named by their number."""
    return {
        PipelineName(f"p{number}"): PipelineDefinition(
            spec=PipelineSpec(
                name=PipelineName(f"p{number}"),
                description="",
                stages=tuple(one.spec.name for one in stages),
            ),
            stages=tuple(stages),
        )
        for number, stages in enumerate(several)
    }


def names(found: Mapping[PipelineName, PipelineDefinition]) -> list[tuple[str, ...]]:
    return [one.spec.stages for one in found.values()]


def parts(one: PipelineDefinition) -> list[StageDefinition]:
    return [part for each in one.stages for part in each.parts or (each,)]


ANY_STAGES = st.fixed_dictionaries(
    {
        name: st.builds(
            lambda name, changes: stage(name, **changes),
            st.just(name),
            st.fixed_dictionaries(
                {
                    "resources": st.sampled_from(SHAPES),
                    "confined": st.sampled_from([True, True, True, False]),
                    "gathers": st.sampled_from([False, False, False, True]),
                    "finds_faults": st.booleans(),
                    "batch_max": st.integers(1, 9),
                }
            ),
        )
        for name in NAMES
    }
)
ANY_LISTS = st.lists(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True), min_size=1, max_size=4
)


@given(ANY_STAGES, ANY_LISTS)
def test_the_same_handlers_run_in_the_same_order(
    stages: Mapping[StageName, StageDefinition], lists: Sequence[Sequence[StageName]]
) -> None:
    before = pipelines(*([stages[name] for name in one] for one in lists))
    after = with_fused_stages(before)
    assert list(after) == list(before)
    for name, one in after.items():
        assert parts(one) == list(before[name].stages)
        assert one.spec.stages == tuple(each.spec.name for each in one.stages)


@given(ANY_STAGES, ANY_LISTS)
def test_a_name_has_one_definition_and_fusing_again_changes_nothing(
    stages: Mapping[StageName, StageDefinition], lists: Sequence[Sequence[StageName]]
) -> None:
    after = with_fused_stages(pipelines(*([stages[name] for name in one] for one in lists)))
    known: dict[StageName, StageDefinition] = {}
    for one in itertools.chain.from_iterable(each.stages for each in after.values()):
        assert known.setdefault(one.spec.name, one) == one
    assert with_fused_stages(after) == after


@given(ANY_STAGES, ANY_LISTS)
def test_what_runs_as_one_has_one_shape_and_is_confined(
    stages: Mapping[StageName, StageDefinition], lists: Sequence[Sequence[StageName]]
) -> None:
    after = with_fused_stages(pipelines(*([stages[name] for name in one] for one in lists)))
    for whole in itertools.chain.from_iterable(each.stages for each in after.values()):
        for part in whole.parts:
            assert part.spec.resources == whole.spec.resources
            assert part.confined
            assert not part.spec.gathers
            assert part.spec.batch_max >= whole.spec.batch_max


def test_two_stages_in_a_row_are_one_and_their_limits_add_up() -> None:
    found = with_fused_stages(
        pipelines([stage("a", batch_max=8), stage("b", batch_max=3, finds_faults=True)])
    )
    [one] = found.values()
    [whole] = one.stages
    assert whole.spec.name == "b"
    assert (whole.spec.timeout_s, whole.spec.cpu_s_max, whole.spec.batch_max) == (8.0, 4.0, 3)
    assert whole.finds_faults
    assert parts_of(stages_of(found)) == {"a": "b", "b": "b"}


def test_three_stages_in_a_row_are_one() -> None:
    assert names(with_fused_stages(pipelines([stage("a"), stage("b"), stage("c")]))) == [("c",)]


@pytest.mark.parametrize(
    "others", [["a"], ["b"], ["a", "c", "b"], ["b", "a"], ["a", "c"], ["c", "b"]]
)
def test_stages_that_some_pipeline_has_apart_stay_apart(others: Sequence[str]) -> None:
    kinds = {name: stage(name, confined=name != "c") for name in "abc"}
    before = pipelines([kinds["a"], kinds["b"]], [kinds[name] for name in others])
    assert names(with_fused_stages(before)) == names(before)


def test_stages_that_all_pipelines_have_together_are_one_in_each() -> None:
    a, b, c = stage("a"), stage("b"), stage("c", gathers=True)
    assert names(with_fused_stages(pipelines([a, b], [a, b, c]))) == [("b",), ("b", "c")]


@pytest.mark.parametrize("duty", DUTIES, ids=lambda duty: next(iter(duty)))
def test_a_first_stage_that_serves_references_stays_apart(duty: Mapping[str, Any]) -> None:
    assert names(with_fused_stages(pipelines([stage("a", **duty), stage("b")]))) == [("a", "b")]


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize(
    "change",
    [{"confined": False}, {"gathers": True}, {"cpu_s_max": None}, {"resources": SHAPES[1]}],
    ids=lambda change: next(iter(change)),
)
def test_a_difference_keeps_stages_apart(at: int, change: Mapping[str, Any]) -> None:
    both = [stage(name, **(change if number == at else {})) for number, name in enumerate("ab")]
    assert names(with_fused_stages(pipelines(both))) == [("a", "b")]


class Digits:
    """Ends a request or hands over, as the digit of this part's place in the response says."""

    def __init__(self, place: int) -> None:
        self.place = place

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        return [self.one(work) for work in works]

    def one(self, work: Work) -> StageVerdict:
        use = ResourceUse(cpu_s=float(1 + self.place), memory_bytes_peak=self.place)
        if work.response[self.place] == "0":
            return HandedOver(artifact=work.handover + bytes([self.place]), use=use)
        reward = float(len(work.handover))
        return Ended(outcome=Outcome.SCORED, reward=reward, use=use)

    def close(self) -> None:
        pass


def one_by_one(handlers: Sequence[StageHandler], work: Work) -> StageVerdict:
    """As slots of their own would judge it."""
    used = ResourceUse()
    for handler in handlers:
        [verdict] = handler.run([work])
        used = used.plus(verdict.use)
        if isinstance(verdict, Ended):
            break
        work = replace(work, handover=verdict.artifact)
    return replace(verdict, use=used)


def work(response: str) -> Work:
    return Work(response=response, reference=None, settings=None)


@given(st.lists(st.text("01", min_size=4, max_size=4), min_size=1, max_size=9), st.integers(1, 4))
def test_the_parts_judge_together_as_they_do_in_slots_of_their_own(
    responses: Sequence[str], count: int
) -> None:
    handlers = [Digits(place) for place in range(count)]
    works = [work(response) for response in responses]
    assert list(FusedHandler(handlers).run(works)) == [one_by_one(handlers, one) for one in works]


def test_math_is_one_stage() -> None:
    known = load_pipelines(found=())
    assert known[PipelineName("math")].spec.stages == ("math.verify",)


def test_a_plugin_with_a_part_of_math_keeps_both_apart() -> None:
    parts_of_math = stages_of(load_pipelines(found=()))[StageName("math.verify")].parts
    math = pipelines(parts_of_math, parts_of_math[1:])
    assert names(with_fused_stages(math)) == [("extract", "math.verify"), ("math.verify",)]


@given(st.lists(st.sampled_from(sorted(Strategy)), min_size=1, unique=True))
def test_the_trusted_response_of_math_has_an_answer_under_any_strategies(
    strategies: Sequence[Strategy],
) -> None:
    extract = ExtractHandler.__new__(ExtractHandler)
    extract._response_chars_max = 1_000
    asked = Work(
        response="\\boxed{",
        reference=MathReference(answers=("7",)),
        settings=MathSettings(strategies=tuple(strategies)),
        messages=({"role": "assistant", "content": "x"},),
    )
    trusted = extract.trusted(asked)
    [verdict] = extract.run([trusted])
    assert isinstance(verdict, HandedOver)
    assert trusted.reference == asked.reference
    assert not trusted.messages


def test_without_a_trusted_response_one_that_reaches_the_next_part_is_taken() -> None:
    fused = FusedHandler([NotEmpty(), Digits(0)])
    assert fused.trusted(work("111")).response == "0"
    assert FusedHandler([NotEmpty(), Digits(0)]).trusted(work("")).response == "0"


class NotEmpty:
    """Ends empty responses."""

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        ended = Ended(outcome=Outcome.SCORED, reward=0.0)
        return [HandedOver(artifact=b"") if one.response else ended for one in works]

    def close(self) -> None:
        pass


def test_a_fused_stage_has_the_handlers_of_its_parts(bench: LocalPipelines) -> None:
    [whole] = bench.pipelines[PipelineName("math")].stages
    handler = bench.handler(whole)
    assert isinstance(handler, FusedHandler)
    found = bench.judge("math", "so \\boxed{4}", {"answers": ["2+2"]})
    assert (found.outcome, found.reward) == (Outcome.SCORED, 1.0)
