"""What tests and program share is inert data: programs that lie about it get no reward for it."""

from collections.abc import Callable

import pytest
from tests.fuzz.verdicts.code.crossings import CROSSINGS, Crossing

from assay.core.outcome import Outcome
from assay.core.verdict import Ended

Judge = Callable[..., Ended]
LIMITS = {"extraction": "raw", "cpu_s": 2, "blocked_s": 2}


@pytest.mark.parametrize("crossing", CROSSINGS, ids=[each.name for each in CROSSINGS])
def test_only_the_right_program_passes(judge: Judge, crossing: Crossing) -> None:
    reference = {"asserts": {"code": list(crossing.tests)}}
    ended = judge("code.python", crossing.right, reference, **LIMITS)
    assert ended.reward == 1.0, ended.evidence
    for program in crossing.wrong:
        ended = judge("code.python", program, reference, **LIMITS)
        assert ended.reward == 0.0, (program, ended.evidence)
        assert ended.outcome in (Outcome.SCORED, Outcome.RESOURCE_LIMIT)


def test_a_container_that_the_program_was_not_given_is_not_its_to_change(judge: Judge) -> None:
    program = (
        "class Box:\n    def __init__(s): s.items = []\n    def size(s): return len(s.items)\n"
    )
    code = "s = Box()\nmine = [1]\ns.items.append(mine)\nassert s.size() == 1 and mine == [1]"
    assert judge("code.python", program, {"asserts": {"code": [code]}}, **LIMITS).reward == 1.0


def test_tests_without_files_share_none(judge: Judge) -> None:
    program = "def f():\n    open('/tmp/x', 'w').close()\n    return 1\n"
    code = "import os\nassert f() == 1 and not os.access('/tmp/x', os.F_OK)"
    assert judge("code.python", program, {"asserts": {"code": [code]}}, **LIMITS).reward == 1.0
