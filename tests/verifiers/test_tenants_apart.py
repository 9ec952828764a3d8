"""A process judges for several tenants, and remembers for each what it has found out for it.

The result of a request has its CPU time: with a memory in common it would tell one tenant that
another has sent the same reference, or the same answer to it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.verifiers.local import LocalPipelines
from assay.verifiers.math import reading
from assay.verifiers.math.audit import Audits
from assay.verifiers.math.equality.comparison import Comparison
from assay.verifiers.sql.stage import SqlHandler
from assay.verifiers.text import match

SQL = {
    "databases": [{"setup": "CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1), (2);"}],
    "query": "SELECT n FROM t ORDER BY n",
}
CASES: list[tuple[type | object, str, str, str, dict[str, Any]]] = [
    (Audits, "_audit", "math", r"\boxed{x^2+1}", {"answers": ["1+x^2"]}),
    (reading, "_read", "math", r"\boxed{3y+7}", {"answers": ["7+3y"]}),
    (match.MatchHandler, "_failed_control", "exact", "Oslo", {"answers": ["Oslo"]}),
    (match, "_cannot_judge", "regex", "abc", {"pattern": "a[b]c"}),
    (SqlHandler, "_made", "sql", "SELECT n FROM t ORDER BY n", SQL),
]


@pytest.fixture
def judging(tmp_path: Path) -> Iterator[LocalPipelines]:
    """Handlers of their own, which remember nothing yet."""
    reading.forget()
    with LocalPipelines(scratch=tmp_path) as pipelines:
        yield pipelines


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[object, str], list[object]]:
    """Counts the calls of a function, which runs as it is."""

    def count(owner: object, name: str) -> list[object]:
        calls: list[object] = []
        original = getattr(owner, name)

        def called(*args: Any, **kwargs: Any) -> Any:
            calls.append(args)
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, called)
        return calls

    return count


@pytest.mark.parametrize(("owner", "name", "pipeline", "response", "reference"), CASES)
def test_what_one_tenant_has_sent_is_found_out_again_for_another(
    judging: LocalPipelines,
    counted: Callable[[object, str], list[object]],
    owner: object,
    name: str,
    pipeline: str,
    response: str,
    reference: dict[str, Any],
) -> None:
    calls = counted(owner, name)

    def spent(tenant: str) -> int:
        before = len(calls)
        ended = judging.judge_request(pipeline, response, reference, settings={}, tenant=tenant)
        assert ended.reward == 1.0
        return len(calls) - before

    spent("green")  # and what a handler does once
    first = spent("red")
    assert first > 0
    assert spent("red") == 0, "remembered"
    assert spent("blue") == first
    assert spent("blue") == spent("red") == 0


def test_an_answer_that_another_tenant_gave_is_compared_again(
    judging: LocalPipelines, counted: Callable[[object, str], list[object]]
) -> None:
    compared = counted(Comparison, "__init__")
    settings = {"reference_audit": "off"}
    reference = {"answers": [r"\frac{5}{9}"]}
    made = []
    for tenant in ("green", "red", "red", "blue", "blue"):
        before = len(compared)
        judging.judge_request("math", "#### 5/9", reference, settings=settings, tenant=tenant)
        made.append(len(compared) - before)
    assert made[1] > 0
    assert made[1:] == [made[1], 0, made[1], 0]


def test_a_tenant_cannot_evict_what_another_is_judged_by(
    judging: LocalPipelines, counted: Callable[[object, str], list[object]]
) -> None:
    """One that sends ever new references has its own audited again, and no one else's."""
    calls = counted(match.MatchHandler, "_failed_control")

    def judge(tenant: str, answer: str) -> None:
        reference = {"answers": [answer]}
        judging.judge_request("exact", "x", reference, settings={}, tenant=tenant)

    judge("quiet", "an answer")
    for number in range(match._REFERENCES_REMEMBERED_MAX + 100):
        judge("flood", f"{number}")
    before = len(calls)
    judge("quiet", "an answer")
    assert len(calls) == before
