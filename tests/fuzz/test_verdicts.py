"""A short, fixed run of the verdict fuzzer, and what it is held to itself.

The long run is a command: `python -m tests.fuzz.verdicts --seed N --minutes M`.
"""

import json
import random
import subprocess
import sys

import pytest
from tests.fuzz.verdicts.case import Case, Expected
from tests.fuzz.verdicts.findings import GENERATORS, draw, is_true, judge
from tests.fuzz.verdicts.platform import platform

from assay.client import Client
from assay.core.outcome import Outcome

SEED = 7
CASES = 500


async def test_no_verdict_of_a_fixed_run_is_untrue() -> None:
    cases = [(index, draw(SEED, index)) for index in range(CASES)]
    async with (
        platform() as addresses,
        Client(addresses.grpc) as client,
    ):
        report = await judge(client, cases, lambda _: None)
    assert report.cases == CASES
    found = [json.dumps(finding.as_json()) for finding in report.findings]
    assert not found, f"seed {SEED}:\n" + "\n".join(found)


@pytest.mark.parametrize("name", GENERATORS)
def test_a_case_is_drawn_again_by_seed_and_index(name: str) -> None:
    drawn = [draw(SEED, index, [name]) for index in range(200)]
    assert drawn == [draw(SEED, index, [name]) for index in range(200)]
    assert len({repr(case) for case in drawn}) > 15


@pytest.mark.parametrize("name", GENERATORS)
def test_references_and_settings_are_json(name: str) -> None:
    for index in range(200):
        case = draw(SEED, index, [name])
        json.dumps([case.reference, case.settings])


SOLVE = """
import json, sys
for program, calls in json.load(sys.stdin):
    namespace = {"__name__": "candidate"}
    exec(program, namespace)
    function = namespace.get(calls["function"])
    if function is None:
        function = getattr(namespace["Solution"](), calls["function"])
    for one in calls["cases"]:
        result = function(*one["args"])
        if json.loads(json.dumps(result)) != one["expected"]:
            sys.exit(f"{program}\\n{one} gave {result}")
"""


def test_right_programs_of_the_grammar_solve_their_own_calls() -> None:
    """The generator's own right answers are right, outside of any sandbox.

    In a process of their own: they ignore signals, set hooks and raise limits.
    """
    drawn = [draw(SEED, index, ["python"]) for index in range(600)]
    right = [
        (_program(case), case.reference["calls"])
        for case in drawn
        if case.expected is Expected.RIGHT and case.kind == "calls: right"
    ]
    assert len(right) > 20
    done = subprocess.run(
        [sys.executable, "-c", SOLVE],
        input=json.dumps(right),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _program(case: Case) -> str:
    response = case.response
    text = response if isinstance(response, str) else response.decode("utf-8", "replace")
    return text.rsplit("\n```", 1)[0].rsplit("```py", 1)[1].split("\n", 1)[1]


@pytest.mark.parametrize(
    ("expected", "outcome", "reward", "true"),
    [
        (Expected.RIGHT, Outcome.SCORED, 1.0, True),
        (Expected.RIGHT, Outcome.SCORED, 0.0, False),
        (Expected.RIGHT, Outcome.INFRA_FAILED, None, False),
        (Expected.WRONG, Outcome.SCORED, 0.0, True),
        (Expected.WRONG, Outcome.RESOURCE_LIMIT, 0.0, True),
        (Expected.WRONG, Outcome.SCORED, 1.0, False),
        (Expected.WRONG, Outcome.REJECTED_INVALID, None, False),
        (Expected.WRONG, Outcome.INFRA_FAILED, None, False),
        (Expected.EITHER, Outcome.SCORED, 1.0, True),
        (Expected.EITHER, Outcome.INFRA_FAILED, None, False),
        (Expected.UNJUDGED, Outcome.INFRA_FAILED, None, True),
        (Expected.UNJUDGED, Outcome.REJECTED_INVALID, None, False),
        (Expected.UNJUDGED, Outcome.SCORED, 0.0, False),
        (Expected.NOT_RIGHT, Outcome.REJECTED_INVALID, None, True),
        (Expected.NOT_RIGHT, Outcome.SCORED, 1.0, False),
    ],
)
def test_what_a_finding_is(
    expected: Expected, outcome: Outcome, reward: float | None, *, true: bool
) -> None:
    assert is_true(expected, outcome, reward) is true


def test_every_kind_of_expectation_is_drawn() -> None:
    rng = random.Random(SEED)
    drawn = {draw(rng.randint(0, 9), index).expected for index in range(2_000)}
    assert drawn == set(Expected)
