"""Time of tests of a function: from each request to its answer, wherever the samples fall.

Programs stay far below or above their limit, so that a busy machine changes nothing.
"""

from collections.abc import Callable
from typing import Any

import pytest

from assay.core.verdict import Ended

Judge = Callable[..., Ended]
LIMIT_S = 0.4
SLEEPS = {
    "once": "time.sleep({s})",
    "in slices": "for _ in range(20): time.sleep({s} / 20)",
    "in a thread": (
        "t = threading.Thread(target=time.sleep, args=({s},))\n    t.start()\n    t.join()"
    ),
    "in a child": (
        "pid = os.fork()\n    if pid == 0:\n        time.sleep({s})\n        os._exit(0)\n"
        "    os.waitpid(pid, 0)"
    ),
}


def program(how: str, seconds: float) -> str:
    """`f(1)` returns at once, `f(2)` sleeps first."""
    return (
        "import os, threading, time\n"
        f"def rest():\n    {SLEEPS[how].format(s=seconds)}\n"
        "def f(x):\n    if x == 2:\n        rest()\n    return 2 * x\n"
    )


def calls(*arguments: int) -> dict[str, Any]:
    cases = [{"args": [x], "expected": 2 * x} for x in arguments]
    return {"calls": {"function": "f", "cases": cases}}


@pytest.mark.parametrize("how", SLEEPS)
@pytest.mark.parametrize(("share", "verdict"), [(0.3, "pass"), (3.0, "blocked_limit")])
def test_each_call_has_the_time_of_one_test(
    judge: Judge, how: str, share: float, verdict: str
) -> None:
    reference = calls(1, 2, 1, 1, 1, 1, 1, 1)
    ended = judge("code.python", program(how, share * LIMIT_S), reference, blocked_s=LIMIT_S)
    assert ended.evidence.verdict == verdict
    assert ended.evidence.failed_test == (None if verdict == "pass" else 1)


def test_a_test_that_sleeps_a_little_in_each_request_is_counted_whole(judge: Judge) -> None:
    slow = "import time\ndef f(x):\n    time.sleep(0.03)\n    return 2 * x\n"
    once, often = "assert f(2) == 4", "for _ in range(40):\n    assert f(2) == 4"
    reference = {"asserts": {"code": [once, often, *[once] * 8]}}
    ended = judge("code.python", slow, reference, blocked_s=LIMIT_S)
    assert (ended.evidence.verdict, ended.evidence.failed_test) == ("blocked_limit", 1)


def test_the_time_of_the_tests_own_code_is_not_the_programs(judge: Judge) -> None:
    code = (
        "import time\ndef slowly(x):\n    time.sleep(0.1)\n    return x\n"
        "for _ in range(8):\n    assert f(slowly) == 7\n    time.sleep(0.05)\n"
    )
    reference = {"asserts": {"code": [code, *["assert f(abs) == 7"] * 9]}}
    ended = judge("code.python", "def f(g):\n    return g(7)\n", reference, blocked_s=LIMIT_S)
    assert ended.reward == 1.0, ended.evidence
