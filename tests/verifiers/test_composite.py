"""`composite`: named components of several verifiers; what was not judged is never a zero."""

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.config.settings import SandboxSettings, VerifierSettings
from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.core.verdict import Ended, Evidence, StageVerdict
from assay.verifiers.composite import isolation
from assay.verifiers.composite.stage import CompositeHandler
from assay.verifiers.judge.provider import ProviderDown
from assay.verifiers.local import LocalPipelines
from assay.verifiers.port import HandlerContext, RateLimits, Work, scored
from assay.verifiers.shaping.stage import ShapeHandler
from assay.verifiers.sql.stage import SqlHandler

THREE: dict[str, Any] = {
    "components": {
        "answer": {"pipeline": "math", "weight": 3},
        "form": {"pipeline": "shape", "settings": {"form": "think"}},
        "tests": {"pipeline": "code.python", "weight": 2, "settings": {"extraction": "fenced"}},
    }
}
REFERENCE: dict[str, Any] = {
    "components": {
        "answer": {"answers": ["42"]},
        "tests": {"tests": [{"stdin": "2 3", "stdout": "5"}]},
    }
}
PROGRAM = "```python\na, b = map(int, input().split())\nprint(a + b)\n```\n"
RIGHT = f"<think>so</think>\n{PROGRAM}The answer is \\boxed{{42}}"


def test_components_are_weighted_and_named(bench: Any) -> None:
    ended = bench.judge("composite", RIGHT, REFERENCE, **THREE)
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 1.0)
    found = {one.name: (one.value, one.weight) for one in ended.components}
    assert found == {"answer": (1.0, 3.0), "form": (1.0, 1.0), "tests": (1.0, 2.0)}
    wrong = bench.judge("composite", RIGHT.replace("a + b", "a - b"), REFERENCE, **THREE)
    assert wrong.reward == pytest.approx(4 / 6)


@pytest.mark.parametrize(
    ("how", "reward"), [("mean", 4 / 6), ("sum", 4.0), ("min", 0.0), ("product", 0.0)]
)
def test_how_components_combine(bench: Any, how: str, reward: float) -> None:
    wrong = RIGHT.replace("a + b", "a - b")
    ended = bench.judge("composite", wrong, REFERENCE, **THREE, combine=how)
    assert ended.reward == pytest.approx(reward)


@pytest.mark.parametrize("how", ["mean", "sum", "min", "product"])
@pytest.mark.parametrize("value", [1e308, -1e308])
def test_a_combination_of_any_rewards_is_a_number(bench: Any, how: str, value: float) -> None:
    own = {
        "pipeline": "shape",
        "weight": 1_000,
        "settings": {"form": "think", "reward_pass": value},
    }
    settings = {"components": {"one": own, "other": own}, "combine": how}
    ended = bench.judge("composite", "<think>so</think>5", {}, **settings)
    assert ended.outcome is Outcome.SCORED
    assert math.isfinite(ended.reward)
    assert (ended.reward > 0) is (value > 0 or how == "product")


def test_a_gate_closes_the_whole(bench: Any) -> None:
    components = {**THREE["components"], "answer": {"pipeline": "math", "gate": True}}
    settings = {"components": components, "reward_fail": -1.0}
    assert bench.judge("composite", RIGHT, REFERENCE, **settings).reward == 1.0
    ended = bench.judge("composite", RIGHT.replace("42", "41"), REFERENCE, **settings)
    assert ended.reward == -1.0


@pytest.fixture
def broken_sql(monkeypatch: pytest.MonkeyPatch) -> None:
    """The platform cannot run queries."""

    def run(_self: SqlHandler, _works: Sequence[Work]) -> Sequence[StageVerdict]:
        raise OSError("no space left")

    monkeypatch.setattr(SqlHandler, "run", run)


QUERY = {"query": {"rows": [[1]]}, "answer": {"answers": ["42"]}}
WITH_QUERY = {"query": {"pipeline": "sql"}, "answer": {"pipeline": "math"}}


@pytest.mark.usefixtures("broken_sql")
def test_a_component_that_is_not_judged_is_not_a_zero(new_bench: Any) -> None:
    with new_bench(VerifierSettings()) as own, pytest.raises(OSError, match="no space left"):
        own.judge("composite", RIGHT, {"components": QUERY}, components=WITH_QUERY)


@pytest.mark.usefixtures("broken_sql")
def test_an_optional_component_that_is_not_judged_is_left_out(new_bench: Any) -> None:
    components = {**WITH_QUERY, "query": {"pipeline": "sql", "optional": True, "weight": 9}}
    with new_bench(VerifierSettings()) as own:
        ended = own.judge("composite", RIGHT, {"components": QUERY}, components=components)
    assert ended.reward == 1.0
    assert [one.name for one in ended.components] == ["answer"]
    assert "query was not judged: OSError" in ended.evidence.error
    assert not ended.rescorable


def test_a_reference_that_a_component_refuses_is_refused_by_name(bench: Any) -> None:
    bad = {"components": {**REFERENCE["components"], "answer": {"answers": []}}}
    ended = bench.judge("composite", RIGHT, bad, **THREE)
    assert ended.outcome is Outcome.REJECTED_INVALID
    assert "reference.components.answer" in ended.evidence.error
    ended = bench.judge("composite", RIGHT, {"components": {"other": {}}}, **THREE)
    assert "reference.components.other" in ended.evidence.error


@pytest.mark.parametrize(
    ("component", "message"),
    [
        ({"pipeline": "nothing"}, "components.a.pipeline: 'nothing'"),
        ({"pipeline": "composite"}, "components.a.pipeline: 'composite'"),
        ({"pipeline": "math.concise"}, "judges whole groups"),
        ({"pipeline": "math", "settings": {"x": 1}}, r"components.a.settings.x"),
        ({"pipeline": "math", "weight": 0}, "needs a weight"),
    ],
)
def test_settings_of_components_are_checked_with_the_task(
    bench: Any, component: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        bench.judge("composite", "x", {}, components={"a": component})


class Snoop:
    """A confined handler that tries what a reader of hostile text must not be able to do."""

    def __init__(self, secret: int) -> None:
        self._secret = secret

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        found = []
        for attempt in (
            lambda: os.read(self._secret, 1),
            lambda: open("/etc/hostname").read(),  # noqa: SIM115
            os.fork,
            lambda: os.kill(os.getppid(), 0),
        ):
            try:
                attempt()
            except OSError:
                continue
            found.append("reached")
        evidence = Evidence(verdict=" ".join(found) or "nothing")
        return [scored(passed=True, settings=work.settings, evidence=evidence) for work in works]

    def close(self) -> None:
        """Nothing to release."""


def test_a_confined_stage_is_confined_inside_of_a_composite_too(bench: Any) -> None:
    [stage] = bench.pipelines["shape"].stages
    reader, writer = os.pipe()
    os.write(writer, b"x")
    child = isolation.ConfinedChild(stage, Snoop(reader), bench._context.sandbox)
    verdict = child.run(bench.work("shape", "x", {"length": 1}, length_max=5))
    os.close(reader)
    os.close(writer)
    assert isinstance(verdict, Ended)
    assert verdict.evidence.verdict == "nothing"


class Spin(ShapeHandler):
    """A handler that never ends."""

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        while works:
            pass
        return []


def test_a_confined_stage_without_an_end_is_a_limit(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "_CPU_SLACK_S", -1.5)
    [stage] = bench.pipelines["shape"].stages
    context: HandlerContext = bench._context
    child = isolation.ConfinedChild(stage, Spin(context), context.sandbox)
    verdict = child.run(bench.work("shape", "x", {"length": 1}, length_max=5))
    assert isinstance(verdict, Ended)
    assert verdict.outcome is Outcome.RESOURCE_LIMIT


class Dies(ShapeHandler):
    """Its process ends for some responses."""

    responses: tuple[str, ...] = ("odd",)

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        if any(work.response in self.responses for work in works):
            os._exit(3)
        return super().run(works)


def test_a_response_with_which_a_confined_process_dies_is_wrong(bench: Any) -> None:
    [stage] = bench.pipelines["shape"].stages
    context: HandlerContext = bench._context
    handler = Dies(context)
    child = isolation.ConfinedChild(stage, handler, context.sandbox)
    verdict = child.run(bench.work("shape", "odd", {"length": 1}, length_max=5))
    assert isinstance(verdict, Ended)
    assert (verdict.reward, verdict.evidence.verdict) == (0.0, "broke_the_run")
    handler.responses = ("odd", "", "0")
    with pytest.raises(RuntimeError, match="died"):
        child.run(bench.work("shape", "odd", {"length": 1}, length_max=5))


class Counting:
    """Permits of a host that counts who asks."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def take(self, tenant: str, provider: str, limits: RateLimits, tokens: int) -> float:
        del limits, tokens
        self.asked.append((tenant, provider))
        return 0.0


def test_components_share_the_rate_limits_of_all_workers(tmp_path: Path) -> None:
    permits = Counting()
    own = {"base_url": "http://127.0.0.1:9", "model": "m", "attempts_max": 1}
    verifiers = VerifierSettings.model_validate({"judges": {"one": own}})
    artifacts = LocalPipelines(scratch=tmp_path).artifacts
    context = HandlerContext(
        artifacts=artifacts,
        sandbox=SandboxSettings(),
        verifiers=verifiers,
        scratch=tmp_path,
        shared=tmp_path,
        permits=permits,
    )
    handler = CompositeHandler(context)
    settings: dict[str, Any] = {
        "components": {"judge": {"pipeline": "llm_judge", "settings": {"provider": "one"}}}
    }
    with LocalPipelines(scratch=tmp_path, verifiers=verifiers) as local:
        reference = {"components": {"judge": {"question": "?", "answer": "1"}}}
        work = local.work("composite", "x", reference, **settings)
        with pytest.raises(ProviderDown):
            handler.run([replace(work, tenant="t")])
    handler.close()
    assert ("t", "one") in permits.asked
