"""`harbor`, tasks of several steps: each is graded in a box of its own, from what it left."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.core.verdict import Ended
from assay.verifiers.harbor.task import STEPS_MAX, TIMEOUT_S_MAX, TaskError, read_task

TASK = """
artifacts = ["/app/answer.txt"]
[verifier]
timeout_sec = 20.0
env = {WORD = "task", OTHER = "kept"}
[environment]
memory_mb = 256
storage_mb = 64
[[steps]]
name = "01-draft"
artifacts = ["/app/draft"]
[[steps]]
name = "02-final"
min_reward = 0.5
[steps.verifier]
env = {WORD = "step"}
[[steps]]
name = "03-more"
"""
FROM_ANSWER = "cat answer.txt > /logs/verifier/reward.txt\n"


def encoded(files: dict[str, str]) -> dict[str, str]:
    return {name: base64.b64encode(content.encode()).decode() for name, content in files.items()}


def reference(**more: Any) -> dict[str, Any]:
    return {"task": TASK, "tests": encoded({"test.sh": FROM_ANSWER}), **more}


def answers(*given: str) -> dict[str, bytes]:
    """What each step left in `answer.txt`."""
    names = ("01-draft", "02-final", "03-more")
    return {f"steps/{name}/app/answer.txt": one.encode() for name, one in zip(names, given)}  # noqa: B905 - later steps leave nothing


def graded(bench: Any, artifacts: dict[str, bytes], row: dict[str, Any], **settings: Any) -> Ended:
    ended: Ended = bench.judge_request("harbor", "", row, settings=settings, artifacts=artifacts)
    return ended


def parts(ended: Ended) -> dict[str, tuple[float, float]]:
    return {one.name: (one.value, one.weight) for one in ended.components}


def test_the_reward_is_the_mean_of_the_steps_which_are_components(bench: Any) -> None:
    ended = graded(bench, answers("0.25", "1", "0.5"), reference())
    assert (ended.outcome, ended.evidence.verdict) == (Outcome.SCORED, "wrong_answer")
    assert ended.reward == pytest.approx(1.75 / 3)
    assert parts(ended) == {
        "reward": (pytest.approx(1.75 / 3), 1.0),
        "steps/01-draft": (0.25, 0.0),
        "steps/02-final": (1.0, 0.0),
        "steps/03-more": (0.5, 0.0),
    }
    assert graded(bench, answers("1", "1", "1"), reference()).evidence.verdict == "pass"


def test_rewards_whose_sum_is_no_number_cost_the_task_none(bench: Any) -> None:
    ended = graded(bench, answers("1.7e308", "1.7e308", "-1.7e308"), reference())
    assert ended.outcome is Outcome.SCORED
    assert ended.reward == pytest.approx(1.7e308 / 3)


def test_by_final_the_last_step_counts_alone(bench: Any) -> None:
    row = reference(task='multi_step_reward_strategy = "final"\n' + TASK)
    assert graded(bench, answers("0", "1", "0.75"), row).reward == 0.75
    assert graded(bench, answers("1", "0.25", "1"), row).reward == 0.25, "the gate was closed"


def test_below_its_least_reward_a_step_is_the_last_one(bench: Any) -> None:
    ended = graded(bench, answers("1", "0.4", "1"), reference())
    assert ended.reward == pytest.approx(1.4 / 2)
    assert "steps/03-more" not in parts(ended)


def test_each_named_reward_has_a_gate_of_its_own(bench: Any) -> None:
    task = TASK.replace("min_reward = 0.5", "min_reward = {style = 0.5, speed = 0.5}")
    script = 'echo "{\\"reward\\": 1, $(cat answer.txt)}" > /logs/verifier/reward.json\n'
    row = reference(task=task, tests=encoded({"test.sh": script}))
    both = '"style": 0.5, "speed": 1'
    ended = graded(bench, answers(both, both, both), row)
    assert parts(ended)["style"] == (0.5, 0.0)
    assert "steps/03-more" in parts(ended)
    for closed in ('"style": 0.5, "speed": 0.4', '"style": 1'):
        assert "steps/03-more" not in parts(graded(bench, answers(both, closed, both), row))


def test_a_step_that_was_left_without_files_is_graded_too(bench: Any) -> None:
    """Otherwise not to reach a step would be worth more than to fail it."""
    script = 'test -e answer.txt; echo "$((1 - $?))" > /logs/verifier/reward.txt\n'
    row = reference(tests=encoded({"test.sh": script}))
    assert graded(bench, answers("x", "x"), row).reward == pytest.approx(2 / 3)


def test_each_step_has_a_fresh_box_its_own_artifacts_tests_and_variables(bench: Any) -> None:
    """What a step's tests leave is gone in the next; a step's tests lie over those of the task."""
    shared = (
        "cd /box; find app tests -type f | sort | tr '\\n' ' ' > /tmp/found; cat /tmp/found >&2\n"
        'wanted="$(cat /tests/wanted) task"\n'
        'test "$(cat /tmp/found)$WORD" = "$wanted" && test "$OTHER" = kept\n'
        'echo "$((1 - $?))" > /logs/verifier/reward.txt; touch app/left tests/left\n'
    )
    own = shared.replace(' task"', ' step"')
    common = "tests/helper tests/test.sh tests/wanted"
    row = reference(
        tests=encoded({"test.sh": shared, "helper": "", "wanted": f"app/answer.txt {common}"}),
        steps={
            "01-draft": encoded({"wanted": f"app/draft/a.md {common}"}),
            "02-final": encoded({"test.sh": own}),
        },
    )
    files = {
        "steps/01-draft/app/draft/a.md": b"x",
        "steps/01-draft/app/other": b"undeclared",
        "steps/02-final/app/answer.txt": b"x",
        "steps/02-final/app/draft/a.md": b"of another step",
        "steps/03-more/app/answer.txt": b"x",
        "steps/03-more/tests/test.sh": b"echo 1 > /logs/verifier/reward.txt",
        "app/answer.txt": b"of no step",
    }
    ended = graded(bench, files, row)
    assert ended.reward == 1.0, ended.evidence.stderr_tail


def test_a_step_whose_tests_a_response_breaks_counts_and_closes_its_gate(bench: Any) -> None:
    row = reference(control=encoded({f"steps/{s}/app/answer.txt": "1" for s in STEPS}))
    ended = graded(bench, answers("nan", "1", "1"), row)
    assert (ended.outcome, ended.evidence.verdict) == (Outcome.SCORED, "no_reward")
    assert ended.reward == pytest.approx(2 / 3)
    assert ended.evidence.error.startswith("01-draft: reward.txt")
    closed = graded(bench, answers("1", "nan", "1"), row)
    assert closed.reward == pytest.approx(1 / 2)
    ended = graded(bench, answers("nan", "1", "1"), row, reward_fail=-1.0)
    assert ended.reward == pytest.approx(1 / 3)


def test_a_step_over_a_limit_is_the_responses_fault(bench: Any) -> None:
    task = TASK.replace("timeout_sec = 20.0", "timeout_sec = 1")
    script = "test -e answer.txt && while :; do :; done\necho 1 > /logs/verifier/reward.txt\n"
    row = reference(task=task, steps={"01-draft": encoded({"test.sh": script})})
    ended = graded(bench, answers("x", "1", "1"), row)
    assert ended.outcome is Outcome.RESOURCE_LIMIT
    assert ended.reward == pytest.approx(2 / 3)


def test_a_step_that_writes_no_reward_for_the_control_either_is_the_references_fault(
    bench: Any,
) -> None:
    row = reference(control=encoded({"steps/02-final/app/answer.txt": "none"}))
    ended = graded(bench, answers("1", "none", "1"), row)
    assert (ended.outcome, ended.reward) == (Outcome.REJECTED_INVALID, None)
    assert ended.evidence.error.startswith("reference.steps.02-final: with the control too")


STEPS = ("01-draft", "02-final", "03-more")
ONE = "[[steps]]\nname = 'a'\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "steps = 1"}, "steps: not a list"),
        ({"task": "steps = [1]"}, "steps.name"),
        ({"task": "[[steps]]\n"}, "steps.name"),
        ({"task": "[[steps]]\nname = '../a'"}, "steps.name"),
        ({"task": "[[steps]]\nname = 'a b'"}, "steps.name"),
        ({"task": ONE + "[[steps]]\nname = 'A'"}, "'A' occurs twice"),
        ({"task": (ONE * (STEPS_MAX + 1))}, f"at most {STEPS_MAX}"),
        ({"task": "multi_step_reward_strategy = 'best'\n" + ONE}, "multi_step_reward_strategy"),
        ({"task": ONE + "min_reward = '1'"}, "steps.a: min_reward"),
        ({"task": ONE + "min_reward = nan"}, "steps.a: min_reward"),
        ({"task": ONE + "artifacts = ['/tests/x']"}, "steps.a: artifacts"),
        ({"task": ONE + "[steps.verifier]\nenv = {A = '${B}'}"}, r"steps.a: verifier.env.A"),
        ({"steps": {"04-none": {}}}, "no step '04-none'"),
        ({"steps": {"01-draft": {"../x": ""}}}, "plain relative path"),
        ({"steps": {"01-draft": {"x": "?"}}}, "base64"),
        ({"tests": {}, "steps": {"01-draft": {"test.sh": ""}}}, "steps.02-final: no test.sh"),
        ({"response_file": "/app/answer.txt"}, "response_file"),
    ],
)
def test_what_cannot_be_graded_is_refused_by_name(
    bench: Any, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        bench.judge("harbor", "", {**reference(), **change})


TIMES = st.none() | st.floats(1, 10_000)


@given(st.lists(TIMES, min_size=1, max_size=STEPS_MAX), TIMES)
def test_the_times_of_all_steps_are_bounded_together(
    times: list[float | None], usual: float | None
) -> None:
    def line(seconds: float | None) -> str:
        return "" if seconds is None else f"timeout_sec = {seconds!r}\n"

    steps = "".join(
        f"[[steps]]\nname = 's{at}'\n[steps.verifier]\n{line(one)}" for at, one in enumerate(times)
    )
    found = [one.timeout_s for one in read_task(f"[verifier]\n{line(usual)}{steps}").steps]
    wanted = [min(one or usual or 600.0, TIMEOUT_S_MAX) for one in times]
    assert sum(found) <= TIMEOUT_S_MAX * (1 + 1e-9)
    scale = min(1.0, TIMEOUT_S_MAX / sum(wanted))
    assert found == pytest.approx([scale * one for one in wanted])


@given(st.lists(st.sampled_from([*TASK.splitlines(), "[steps]", "[[steps]]", "steps = []"])))
def test_any_mixture_of_lines_is_read_or_refused(lines: list[str]) -> None:
    try:
        task = read_task("\n".join(lines))
    except TaskError:
        return
    assert task.steps
    assert task.has_steps == all(step.name for step in task.steps)
    assert len({step.name for step in task.steps}) == len(task.steps)
