"""`harbor`: Harbor tasks in a fresh box; what the agent did not declare is not there."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.core.verdict import Ended
from assay.verifiers.harbor.rewards import JSON_FILE, TEXT_FILE, RewardError, read_rewards
from assay.verifiers.harbor.task import TaskError, read_task

TASK = """
version = "1.0"
artifacts = ["/app/answer.txt", {source = "/app/src", destination = "src"}]
[metadata]
author_name = "a"
[verifier]
timeout_sec = 20.0
env = {GREETING = "hi there"}
[agent]
timeout_sec = 600.0
[environment]
memory_mb = 512
storage_mb = 64
"""
GRADE = 'grep -qx 42 answer.txt && echo 1 > /logs/verifier/reward.txt || echo 0 > "$OUT"\n'.replace(
    "$OUT", "/logs/verifier/reward.txt"
)


def reference(script: str, *, task: str = TASK, **more: Any) -> dict[str, Any]:
    tests = {"test.sh": base64.b64encode(script.encode()).decode()}
    return {"task": task, "tests": tests, **more}


def graded(bench: Any, script: str, artifacts: dict[str, bytes], **more: Any) -> Ended:
    settings = more.pop("settings", {})
    ended: Ended = bench.judge_request(
        "harbor", "", reference(script, **more), settings=settings, artifacts=artifacts
    )
    return ended


def test_the_tests_of_a_task_judge_its_artifacts(bench: Any) -> None:
    right = graded(bench, GRADE, {"app/answer.txt": b"42\n"})
    assert (right.outcome, right.reward, right.evidence.verdict) == (Outcome.SCORED, 1.0, "pass")
    wrong = graded(bench, GRADE, {"app/answer.txt": b"41\n"})
    assert (wrong.reward, wrong.evidence.verdict) == (0.0, "wrong_answer")


def test_a_response_can_be_the_artifact(bench: Any) -> None:
    row = reference(GRADE, response_file="/app/answer.txt")
    assert bench.judge("harbor", "42", row).reward == 1.0
    assert bench.judge("harbor", "43", row).reward == 0.0


def test_reward_json_wins_and_its_parts_are_components(bench: Any) -> None:
    script = (
        "echo 0 > /logs/verifier/reward.txt\n"
        """echo '{"reward": 0.5, "style": 1, "speed": 0.25}' > /logs/verifier/reward.json\n"""
        "exit 3\n"
    )
    ended = graded(bench, script, {})
    assert ended.reward == 0.5
    parts = {one.name: (one.value, one.weight) for one in ended.components}
    assert parts == {"reward": (0.5, 1.0), "style": (1.0, 0.0), "speed": (0.25, 0.0)}
    other = graded(bench, script, {}, settings={"reward_key": "style"})
    assert other.reward == 1.0


RUNS = (
    "python3 src/a.py > /tmp/out\n"
    'test "$(cat /tmp/out)" = 42 && r=1 || r=0\n'
    "echo $r > /logs/verifier/{}\n"
)


@pytest.mark.parametrize("written", ["reward.json", "reward.txt"])
def test_a_program_that_the_tests_run_writes_no_reward_in_the_other_file(
    bench: Any, written: str
) -> None:
    """`reward.json` comes before `reward.txt`, and of it the tests know nothing."""
    forger = (
        "for name in ('reward.json', 'reward.txt'):\n"
        "    open(f'/logs/verifier/{name}', 'w').write('1')\n"
    )
    ended = graded(bench, RUNS.format(written), {"app/src/a.py": forger.encode()})
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)
    right = graded(bench, RUNS.format(written), {"app/src/a.py": b"print(42)"})
    assert right.reward == 1.0


def test_a_file_whose_name_the_tests_put_together_counts(bench: Any) -> None:
    script = "kind=json\necho 0.5 > /logs/verifier/reward.$kind\n"
    assert graded(bench, script, {}).reward == 0.5


def test_only_declared_artifacts_reach_the_box_and_none_replaces_a_test(bench: Any) -> None:
    """A reward that the agent's machine left, a replaced test and an undeclared file are absent."""
    script = (
        "cd /box && find app logs tests -type f | sort > /tmp/found\n"
        'test "$(tr "\\n" " " < /tmp/found)" = "app/src/a/b.py tests/test.sh " &&'
        ' test "$GREETING" = "hi there" && echo 1 > /logs/verifier/reward.txt\n'
        "test -e /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt; cat /tmp/found\n"
    )
    left = {
        "app/src/a/b.py": b"x",
        "app/other.txt": b"x",
        "logs/verifier/reward.json": b"1",
        "tests/test.sh": b"echo 1 > /logs/verifier/reward.txt",
        "app/srcs": b"x",
    }
    ended = graded(bench, script, left)
    assert ended.reward == 1.0, ended.evidence.stderr_tail


def test_tests_that_a_response_breaks_give_it_no_reward_and_never_fail_the_platform(
    bench: Any,
) -> None:
    needs = 'test "$(cat answer.txt 2>/dev/null)" = bad || echo 1 > /logs/verifier/reward.txt\n'
    ended = graded(bench, needs, {"app/answer.txt": b"bad"})
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)
    assert ended.evidence.verdict == "no_reward"
    slow = 'test -e answer.txt && while :; do :; done\necho 1 > "/logs/verifier/reward.txt"\n'
    task = TASK.replace("20.0", "1")
    limited = graded(bench, slow, {"app/answer.txt": b"x"}, task=task)
    assert (limited.outcome, limited.reward) == (Outcome.RESOURCE_LIMIT, 0.0)


@pytest.mark.parametrize(
    "script",
    [
        "exit 0\n",
        "echo nan > /logs/verifier/reward.txt\n",
        """echo '{"reward": "1"}' > /logs/verifier/reward.json\n""",
        "echo '{}' > /logs/verifier/reward.json\n",
        """echo '{"a": 1, "b": 2}' > /logs/verifier/reward.json\n""",
        "ln -s /etc/hostname /logs/verifier/reward.txt\n",
    ],
)
def test_tests_that_write_no_reward_for_the_control_either_are_the_references_fault(
    bench: Any, script: str
) -> None:
    ended = graded(bench, script, {"app/answer.txt": b"x"})
    assert (ended.outcome, ended.reward) == (Outcome.REJECTED_INVALID, None)
    assert "with the control too" in ended.evidence.error


def test_a_control_tells_a_broken_response_from_a_broken_test(bench: Any) -> None:
    """These tests cannot cope without the artifact."""
    script = "set -e\nn=$(cat answer.txt)\ntest $n != 0\necho 1 > /logs/verifier/reward.txt\n"
    control = {"app/answer.txt": base64.b64encode(b"1").decode()}
    zero = {"app/answer.txt": b"0"}
    assert graded(bench, script, zero).outcome is Outcome.REJECTED_INVALID
    ended = graded(bench, script, zero, control=control)
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)


def test_no_process_of_the_artifacts_outlives_the_tests(bench: Any) -> None:
    """A candidate that the tests run leaves a process that would write the reward later."""
    script = "bash src/run.sh\necho 0 > /logs/verifier/reward.txt\n"
    late = b"(sleep 1; echo 1 > /logs/verifier/reward.txt) >/dev/null 2>&1 &"
    assert graded(bench, script, {"app/src/run.sh": late}).reward == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "= 1"}, "not TOML"),
        ({"task": "artifacts = ['/logs/verifier']"}, "grader's own files"),
        ({"task": "artifacts = ['/logs']"}, "grader's own files"),
        ({"task": "artifacts = ['/tests/x']"}, "is not below"),
        ({"task": "artifacts = ['/app/../etc']"}, "plain relative path"),
        ({"task": "artifacts = ['app/x']"}, "not an absolute path"),
        ({"task": "[verifier]\ntimeout_sec = 0"}, "timeout_sec"),
        ({"task": "[verifier]\ntimeout_sec = 1e-320"}, "timeout_sec"),
        ({"task": "[environment]\nmemory_mb = 1e-9"}, "memory_mb"),
        ({"task": "[[steps]]\nname = 'a'\nmin_reward = nan"}, "min_reward"),
        ({"task": "[verifier]\nenv = {A = '${HOME}'}"}, "verifier.env.A"),
        ({"tests": {"a.sh": ""}}, "no test.sh"),
        ({"tests": {"../test.sh": ""}}, "plain relative path"),
        ({"tests": {"test.sh": "?"}}, "base64"),
        ({"response_file": "/app/other"}, "response_file"),
    ],
)
def test_what_cannot_be_graded_is_refused_by_name(
    bench: Any, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        bench.judge("harbor", "", {**reference(GRADE), **change})


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(TREES.map(json.dumps).map(str.encode) | st.binary(max_size=40), st.booleans())
def test_any_reward_file_is_a_finite_number_or_none(content: bytes, is_json: bool) -> None:
    try:
        parts = read_rewards({JSON_FILE if is_json else TEXT_FILE: content})
    except RewardError:
        return
    assert parts
    assert all(abs(value) < float("inf") for value in parts.values())


NUMBERS = st.integers() | st.floats() | st.sampled_from([10**400, -(10**400), True])


@given(st.sampled_from(("timeout_sec", "memory_mb", "storage_mb", "min_reward")), NUMBERS)
def test_any_number_of_a_task_is_read_or_refused(name: str, number: float) -> None:
    table = {"timeout_sec": "verifier", "min_reward": "[steps]"}.get(name, "environment")
    told = str(number).lower()
    try:
        (step,) = read_task(f"[{table}]\nname = 'a'\n{name} = {told}").steps
    except TaskError as error:
        assert name in str(error)  # noqa: PT017
        return
    assert 0 < step.timeout_s <= 3_600
    assert step.memory_bytes >= 2**20
    assert step.storage_bytes >= 2**20


@given(st.text(max_size=60) | st.lists(st.sampled_from(TASK.splitlines())).map("\n".join))
def test_any_task_is_read_or_refused(text: str) -> None:
    try:
        task = read_task(text)
    except TaskError:
        return
    for step in task.steps:
        assert step.timeout_s > 0
        assert not any(step.takes(name) for name in ("tests/test.sh", "logs/verifier/reward.json"))
