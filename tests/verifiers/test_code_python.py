"""`code.python` with programs that mean no harm: three kinds of tests, limits, partial credit."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from assay.config.environment import SettingError
from assay.config.settings import VerifierSettings
from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.core.verdict import Ended
from assay.verifiers.local import LocalPipelines
from assay.verifiers.registry import load_pipelines

Judge = Callable[..., Ended]
PYTHON = "code.python"
ADD = {"tests": [{"stdin": "2 3\n", "stdout": "5\n"}, {"stdin": "0 0\n", "stdout": "0\n"}]}
ADDER = "a, b = map(int, input().split())\nprint(a + b)\n"


def calls(function: str, *cases: tuple[list[Any], Any]) -> dict[str, Any]:
    return {
        "calls": {
            "function": function,
            "cases": [{"args": args, "expected": expected} for args, expected in cases],
        }
    }


def asserts(*code: str, **more: Any) -> dict[str, Any]:
    return {"asserts": {"code": list(code), **more}}


# --- stdin and stdout --------------------------------------------------------------------------


def test_a_right_program_passes_all_tests(judge: Judge) -> None:
    ended = judge(PYTHON, f"Sure:\n```python\n{ADDER}```\nDone.", ADD)
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 1.0)
    evidence = ended.evidence
    assert (evidence.verdict, evidence.tests_passed, evidence.tests_total) == ("pass", 2, 2)
    assert evidence.extracted == ADDER
    assert 0 < ended.use.cpu_s < 5
    assert ended.use.memory_bytes_peak > 0


def test_the_first_failed_test_is_named(judge: Judge) -> None:
    ended = judge(PYTHON, "print(5)", ADD)
    assert (ended.reward, ended.evidence.failed_test) == (0.0, 1)
    assert ended.evidence.verdict == "wrong_answer"


def test_a_traceback_is_evidence(judge: Judge) -> None:
    ended = judge(PYTHON, "print(1 / 0)", ADD)
    assert ended.evidence.verdict == "runtime_error"
    assert "ZeroDivisionError" in ended.evidence.stderr_tail


def test_right_output_and_a_bad_exit_is_a_runtime_error(judge: Judge) -> None:
    ended = judge(PYTHON, ADDER + "raise SystemExit(3)", ADD)
    assert (ended.reward, ended.evidence.verdict) == (0.0, "runtime_error")


def test_a_main_guard_is_true_for_programs_and_false_for_functions(judge: Judge) -> None:
    guarded = "def f():\n    return 1\nif __name__ == '__main__':\n    print(5)\n    raise KeyError"
    assert judge(PYTHON, guarded, calls("f", ([], 1))).reward == 1.0
    assert "KeyError" in judge(PYTHON, guarded, ADD).evidence.stderr_tail


def test_partial_credit_is_the_fraction_of_tests(judge: Judge) -> None:
    ended = judge(PYTHON, "print(5)", ADD, partial_credit=True, reward_fail=-1.0)
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)
    assert (ended.evidence.tests_passed, ended.evidence.failed_test) == (1, 1)


def test_partial_credit_runs_the_tests_after_a_failed_one(judge: Judge) -> None:
    assert judge(PYTHON, "print(0)", ADD, partial_credit=True).evidence.tests_passed == 1
    assert judge(PYTHON, "print(0)", ADD).evidence.tests_passed == 0
    told = judge(PYTHON, "print(0)", ADD, stop_at_first_failure=False)
    assert (told.reward, told.evidence.tests_passed) == (0.0, 1)


def test_ten_megabytes_of_output_are_judged_right(judge: Judge) -> None:
    reference = {"tests": [{"stdout": "x" * 10_000_000}]}
    assert judge(PYTHON, "print('x' * 10_000_000)", reference).reward == 1.0


@pytest.mark.parametrize(
    ("program", "settings", "verdict"),
    [
        ("while True: pass", {"cpu_s": 0.5}, "cpu_limit"),
        ("import time; time.sleep(100)", {"cpu_s": 0.1}, "blocked_limit"),
        ("x = bytearray(10**10)\nx[::4096] = x[::4096]", {}, "memory_limit"),
        ("while True: print('x' * 10**6)", {"output_bytes": 10**6}, "output_limit"),
    ],
)
def test_a_broken_limit_has_its_own_outcome_and_reward(
    judge: Judge, program: str, settings: dict[str, Any], verdict: str
) -> None:
    ended = judge(PYTHON, program, ADD, reward_resource_limit=-0.25, **settings)
    if verdict == "memory_limit" and ended.evidence.verdict == "runtime_error":
        assert "MemoryError" in ended.evidence.stderr_tail
        return
    assert (ended.outcome, ended.reward) == (Outcome.RESOURCE_LIMIT, -0.25)
    assert ended.evidence.verdict == verdict


def test_all_tests_together_have_a_limit(judge: Judge) -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass\n" + ADDER
    reference = {"tests": ADD["tests"] * 10}
    ended = judge(PYTHON, burn, reference, total_cpu_s=1.0)
    assert ended.evidence.tests_passed < 10
    assert ended.outcome is Outcome.RESOURCE_LIMIT or ended.evidence.verdict == "not_run"


@pytest.mark.parametrize(
    ("response", "settings", "verdict"),
    [
        ("I cannot.", {"extraction": "fenced"}, "no_program"),
        ("```cpp\nint main(){}\n```", {}, "no_program"),
        (ADDER, {"extraction": "raw"}, "pass"),
        (f"```\n{ADDER}```", {}, "pass"),
        (f"```python\n{ADDER}```\n```python\nprint(1)\n```", {"block": "first"}, "pass"),
        (f"```python\n{ADDER}```\n```python\nprint(1)\n```", {}, "wrong_answer"),
        ("", {}, "wrong_answer"),
        ("print(5\0)", {}, "runtime_error"),
        ("print('\N{GRINNING FACE}'.encode('ascii'))", {}, "runtime_error"),
    ],
)
def test_extraction(judge: Judge, response: str, settings: dict[str, Any], verdict: str) -> None:
    assert judge(PYTHON, response, ADD, **settings).evidence.verdict == verdict


def test_stdin_may_hold_nul_and_output_any_bytes(judge: Judge) -> None:
    reference = {"tests": [{"stdin": "\0x", "stdout": "2"}]}
    program = "import sys\nprint(len(sys.stdin.read()))"
    assert judge(PYTHON, program, reference).reward == 1.0
    junk = "import sys\nsys.stdout.buffer.write(bytes(range(256)))"
    assert judge(PYTHON, junk, reference).evidence.verdict == "wrong_answer"


# --- calls -------------------------------------------------------------------------------------


def test_calls_compare_results_outside(judge: Judge) -> None:
    program = "def f(a, b=1):\n    return {'sum': a + b, 'pair': (a, b)}\n"
    right = ([1, 2], {"sum": 3, "pair": [1, 2]})
    assert judge(PYTHON, program, calls("f", right, ([5], {"sum": 6, "pair": [5, 1]}))).reward == 1
    ended = judge(PYTHON, program, calls("f", right, ([5], {"sum": 7, "pair": [5, 1]})))
    assert (ended.reward, ended.evidence.tests_passed, ended.evidence.failed_test) == (0, 1, 1)


@pytest.mark.parametrize(
    ("body", "expected", "passed"),
    [
        ("0.1 + 0.2", 0.3, True),
        ("0.31", 0.3, False),
        ("float('nan')", 0.3, False),
        ("True", 1, False),
        ("1", True, False),
        ("1.0", 1, True),
        ("'1'", 1, False),
        ("(1, [2])", [1, [2]], True),
        ("{1, 2}", [1, 2], False),
        ("{1: 'a'}", {"1": "a"}, True),
        ("None", None, True),
        ("(x for x in [1, 2])", [1, 2], True),
        ("[x for x in range(100000)]", list(range(100_000)), True),
        ("10 ** 400", 10**400, True),
        ("object()", None, False),
        ("'\\ud800'", "x", False),
    ],
)
def test_values_are_compared_by_type(judge: Judge, body: str, expected: Any, passed: bool) -> None:
    program = f"def f():\n    return {body}\n"
    assert judge(PYTHON, program, calls("f", ([], expected))).reward == float(passed)


def test_methods_and_the_class_solution(judge: Judge) -> None:
    program = "class Solution:\n    def f(self, x):\n        return x + 1\n"
    assert judge(PYTHON, program, calls("f", ([1], 2))).reward == 1.0
    assert judge(PYTHON, program, calls("Solution.f", ([1], 2))).reward == 1.0


def test_a_function_that_is_not_there(judge: Judge) -> None:
    ended = judge(PYTHON, "def g(): pass", calls("f", ([], None)))
    assert (ended.reward, ended.evidence.verdict) == (0.0, "missing_name")


def test_calls_share_one_process_and_partial_credit_counts_them(judge: Judge) -> None:
    program = "n = 0\ndef f():\n    global n\n    n += 1\n    return n\n"
    ended = judge(PYTHON, program, calls("f", ([], 1), ([], 9), ([], 3)), partial_credit=True)
    assert ended.reward == pytest.approx(2 / 3)


def test_one_call_that_loops_ends_the_run_at_its_own_limit(judge: Judge) -> None:
    program = "def f(n):\n    while n: pass\n    return n\n"
    reference = calls("f", ([0], 0), ([1], 1), ([0], 0))
    ended = judge(PYTHON, program, reference, cpu_s=0.5, partial_credit=True)
    assert ended.evidence.verdict == "cpu_limit"
    assert ended.reward == pytest.approx(1 / 3)
    assert ended.use.cpu_s < 3


@pytest.mark.parametrize("reference", [calls("f", ([], 1)), asserts("assert f() == 1")])
@pytest.mark.parametrize(
    ("program", "settings", "verdict"),
    [
        ("def f(): return len(bytearray(b'x') * (1 << 30)) and 1", {}, "memory_limit"),
        ("def f(): print('x' * 10**7)", {"output_bytes": 1_000_000}, "output_limit"),
        ("def f():\n    while True: pass", {"cpu_s": 0.3}, "cpu_limit"),
        ("x = bytearray(b'x') * (1 << 30)\ndef f(): return 1", {}, "memory_limit"),
    ],
)
def test_limits_of_functions(
    judge: Judge,
    program: str,
    settings: dict[str, Any],
    verdict: str,
    reference: dict[str, Any],
) -> None:
    limits = {"memory_bytes": 64 << 20, "reward_resource_limit": -0.5, **settings}
    ended = judge(PYTHON, program, reference, **limits)
    assert (ended.outcome, ended.reward) == (Outcome.RESOURCE_LIMIT, -0.5), ended
    assert ended.evidence.verdict == verdict


# --- asserts -----------------------------------------------------------------------------------

HONEST = [
    ("def f(x): return x * 2", "assert f(2) == 4"),
    ("def f(x): return x * 2", "assert f([1]) == [1, 1] and f('a') == 'aa'"),
    ("def f(a, *, b): return a - b", "assert f(3, b=1) == 2"),
    ("def f(xs): xs.sort()", "a = [3, 1]\nf(a)\nassert a == [1, 3]"),
    ("def f(d): d['k'] = d.pop('j')", "a = {'j': [1]}\nf(a)\nassert a == {'k': [1]}"),
    ("def f(m): m[0][0] = 9", "a = [[0] * 2] * 2\nf(a)\nassert a == [[9, 0], [9, 0]]"),
    ("def f(m): m[0].append(1)", "r = []\na = [r]\nf(a)\nassert r == [1] and a[0] is r"),
    ("def f(x): return x", "a = [1]\nassert f(a) is a and f((a,))[0] is a"),
    ("def f(s): s |= {3}", "a = {1}\nf(a)\nassert a == {1, 3}"),
    ("def f(b): b[0] = 0", "a = bytearray(b'xy')\nf(a)\nassert a == b'\\0y'"),
    (
        "def f(): raise ValueError('no', 3)",
        "try:\n    f()\n    assert 0\nexcept ValueError as e:\n    assert e.args == ('no', 3)",
    ),
    (
        "class Odd(KeyError):\n    def __init__(s, n): s.n = n; super().__init__(n)\n"
        "def f(): raise Odd(7)",
        "try:\n    f()\n    raise SystemExit\nexcept Odd as e:\n    assert e.n == 7",
    ),
    (
        "class Odd(KeyError): pass\ndef f(): raise Odd(7)",
        "try:\n    f()\n    raise SystemExit\nexcept KeyError:\n    pass",
    ),
    (
        "class P:\n    def __init__(s, x): s.x = x\n    def twice(s): return s.x * 2",
        "p = P(4)\nassert p.twice() == 8 and p.x == 4\np.x = 5\nassert p.twice() == 10",
    ),
    (
        "class S:\n    def __init__(s): s.d = []\n    def push(s, v): s.d.append(v)\n"
        "    def __len__(s): return len(s.d)\n    def __getitem__(s, i): return s.d[i]",
        "s = S()\nassert not s\ns.push(1)\nassert len(s) == 1 and s[0] == 1 and list(s) == [1]",
    ),
    (
        "class P:\n    def __repr__(s): return 'P!'",
        "assert str(P()) == repr(P()) == f'{P()}' == 'P!'",
    ),
    ("class A: pass\nclass B(A): pass", "assert isinstance(B(), A) and not isinstance(A(), B)"),
    ("class A: pass\nclass B(A): pass", "assert issubclass(B, A) and not isinstance(3, A)"),
    (
        "import enum\nclass C(enum.Enum):\n    R = 1\ndef f(): return C.R",
        "assert f() is C.R == C.R",
    ),
    (
        "import itertools\ndef f(): return itertools.count(1)",
        "import itertools\nassert list(itertools.islice(f(), 3)) == [1, 2, 3]",
    ),
    ("def f():\n    yield 1\n    yield [2]", "assert list(f()) == [1, [2]] and next(f()) == 1"),
    (
        "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(): return P(1, 2)",
        "assert f() == (1, 2) and f().y == 2",
    ),
    (
        "from collections import Counter\ndef f(s): return Counter(s)",
        "assert f('aab') == {'a': 2, 'b': 1}",
    ),
    (
        "from fractions import Fraction\ndef f(): return Fraction(1, 3)",
        "from fractions import Fraction\nassert f() * 3 == 1",
    ),
    (
        "import datetime\ndef f(d): return d + datetime.timedelta(days=1)",
        "import datetime\nassert f(datetime.date(2024, 2, 28)) == datetime.date(2024, 2, 29)",
    ),
    ("def f(g, x): return g(g(x))", "assert f(lambda x: x + 1, 3) == 5"),
    ("def f(g, x): return g(x)", "assert f(str, 3) == '3' and f(len, [1]) == 1"),
    (
        "def f(g):\n    try:\n        g()\n    except ValueError as e:\n        return str(e)",
        "def g(): raise ValueError('mine')\nassert f(g) == 'mine'",
    ),
    (
        "def f(n, again):\n    return 0 if n == 0 else again(n - 1) + 1",
        "def again(n): return f(n, again)\nassert f(20, again) == 20",
    ),
    ("def outer():\n    return lambda x: x + 1", "assert outer()(1) == 2"),
    ("def f(xs): return sorted(xs)", "assert sorted([3, 1], key=lambda x: f([x])[0]) == [1, 3]"),
    ("def f(it): return [x + 1 for x in it]", "assert f(iter([1])) == f({1: 2}.keys()) == [2]"),
    (
        "async def f(x): return x + 1",
        "import asyncio\nasync def main(): return await f(1)\nassert asyncio.run(main()) == 2",
    ),
    (
        "class T:\n    def __enter__(s): return 5\n    def __exit__(s, *a): s.done = True",
        "t = T()\nwith t as v:\n    assert v == 5\nassert t.done",
    ),
    (
        "def f(): return float('inf'), -0.0, 1e300, 10 ** 50, 1j, b'\\xff', None, ..., range(3)",
        "assert f() == (float('inf'), -0.0, 1e300, 10 ** 50, 1j, b'\\xff', None, ..., range(3))",
    ),
    ("LIMIT = {'a': 1}", "assert LIMIT == {'a': 1}"),
    ("def sum(a, b): return a * b\ndef f(): return 3", "assert sum([1, 2]) == f()"),
    ("def sum(a, b): return a * b", "assert sum(2, 3) == 6"),
    (
        "def f(): return 1",
        "from solution import f\nimport solution\nassert f() == solution.f() == 1",
    ),
    (
        "def f(): return 1\ndef abs(x): return 0",
        "from solution import *\nassert f() == 1 and abs(-5) == 5",
    ),
    (
        "import sys\ndef f():\n    print('noise')\n    sys.stderr.write('noise')\n    return 1",
        "assert f() == 1",
    ),
    ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n", "assert P(3).x == 3"),
    ("import typing\ndef f(x: 'typing.List[int]') -> int: return x[0]", "assert f([4]) == 4"),
    ("x = []\nx.append(x)\ndef f(): return x", "a = f()\nassert a[0] is a"),
]


@pytest.mark.parametrize(("program", "code"), HONEST)
def test_honest_programs_pass_as_if_they_were_in_the_same_process(
    judge: Judge, program: str, code: str
) -> None:
    ended = judge(PYTHON, program, asserts(code))
    assert ended.evidence.verdict == "pass", ended.evidence


WRONG = [
    ("def f(x): return x", "assert f(1) == 2", "wrong_answer"),
    ("def f(x): return None", "assert f(1)", "wrong_answer"),
    ("def f(x): return str(x)", "assert f(1) == 1", "wrong_answer"),
    ("def g(x): return x", "assert f(1) == 1", "runtime_error"),
    ("def f(x): return x", "assert f(1).real == 1 and f(1) == 2", "wrong_answer"),
    ("def f(x): raise ValueError(x)", "assert f(1) == 1", "runtime_error"),
    ("def f(x):\n    return f(x)", "assert f(1) == 1", "runtime_error"),
    ("def f(:", "assert f(1) == 1", "runtime_error"),
    ("raise RuntimeError", "assert True", "runtime_error"),
    ("", "assert f(1) == 1", "runtime_error"),
    (
        "def f():\n    a = []\n    for _ in range(500): a = [a]\n    return a",
        "assert f()",
        "runtime_error",
    ),
]


@pytest.mark.parametrize(("program", "code", "verdict"), WRONG)
def test_wrong_programs_fail(judge: Judge, program: str, code: str, verdict: str) -> None:
    ended = judge(PYTHON, program, asserts(code))
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)
    assert ended.evidence.verdict == verdict, ended.evidence


def test_each_entry_is_a_test_and_they_share_a_namespace(judge: Judge) -> None:
    reference = asserts("a = f(1)\nassert a == 1", "assert a == 2", "assert f(a) == 1")
    ended = judge(PYTHON, "def f(x): return x", reference, partial_credit=True)
    assert ended.reward == pytest.approx(2 / 3)
    assert ended.evidence.failed_test == 1
    assert ended.evidence.error.startswith("tests[1]:1: AssertionError")


def test_names_of_the_program_may_be_preferred_to_builtins(judge: Judge) -> None:
    reference = asserts("assert sum(2, 3) == 6", functions=["sum"])
    assert judge(PYTHON, "def sum(a, b): return a * b", reference).reward == 1.0


def test_setup_is_trusted_and_shadowed_only_by_the_named_functions(judge: Judge) -> None:
    setup = "def helper(x): return x + 1\ndef f(x): return 0\n"
    program = "def helper(x): return 42\ndef f(x): return x\n"
    reference = asserts("assert helper(1) == 2 and f(5) == 5", setup=setup, functions=["f"])
    assert judge(PYTHON, program, reference).reward == 1.0


def test_setup_may_use_the_programs_classes(judge: Judge) -> None:
    reference = asserts("assert root.value == 3", setup="root = Node(3)")
    assert (
        judge(PYTHON, "class Node:\n    def __init__(s, v): s.value = v", reference).reward == 1.0
    )
    ended = judge(PYTHON, "x = 1", reference)
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0)


@pytest.mark.parametrize(
    "reference",
    [
        asserts("assert f(1 =="),
        asserts("assert f(1)", setup="1 / 0"),
        asserts("import math\nassert f(math)"),
        asserts("x = " + "(" * 300 + ")" * 300),
    ],
)
def test_tests_that_cannot_be_run_are_invalid_and_give_no_reward(
    judge: Judge, reference: dict[str, Any]
) -> None:
    ended = judge(PYTHON, "def f(x): return x", reference)
    assert (ended.outcome, ended.reward) == (Outcome.REJECTED_INVALID, None)
    assert ended.evidence.error


def test_a_prompt_is_continued_by_an_indented_response_and_precedes_a_whole_program(
    judge: Judge,
) -> None:
    reference = {
        "prompt": "from typing import List\n\ndef f(x: List[int]) -> int:\n    '''Sum.'''\n",
        "entry_point": "f",
        "test": "def check(candidate):\n    assert candidate([1, 2]) == 3\n",
    }
    assert judge(PYTHON, "    return sum(x)\n", reference).reward == 1.0
    assert judge(PYTHON, "def f(x: List[int]):\n    return sum(x)\n", reference).reward == 1.0
    future = "from __future__ import (\n    annotations,\n)  # types\n"
    whole = f"# sum\n{future}def f(x: Missing):\n    return sum(x)\n"
    assert judge(PYTHON, whole, reference).reward == 1.0
    assert judge(PYTHON, "    return 0\n", reference).reward == 0.0
    assert judge(PYTHON, "", reference).reward == 0.0


@pytest.mark.parametrize(
    ("prompt", "right"),
    [
        ('def f(x):\n    """Twice."""', "    return 2 * x"),
        ("def f(x):\n    '''Twice.'''  ", "\n    return 2 * x"),
        ("def f(x):", "  return 2 * x"),
        ("def f(x):\n    # twice", "    return 2 * x"),
        ("def f(x):\n    return", " 2 * x"),
        ("def f(x):\n    y = 2  # twice\n", "    return y * x"),
    ],
)
def test_a_prompt_without_its_last_line_feed_is_continued(
    judge: Judge, prompt: str, right: str
) -> None:
    test = "def check(candidate):\n    assert candidate(2) == 4\n"
    reference = {"prompt": prompt, "entry_point": "f", "test": test}
    assert judge(PYTHON, right, reference).reward == 1.0
    assert judge(PYTHON, right.replace("2", "3").replace("y *", "3 *"), reference).reward == 0.0


@pytest.mark.parametrize(
    "right",
    [
        "return 2 * x",
        "y = x\n    return 2 * y\n",
        "if x:\n        return 2 * x\n    return 0",
        "for _ in range(9):\n        return 2 * x",
        "```python\nreturn 2 * x\n```",
        "```\ny = x\n    return 2 * y\n```",
    ],
)
def test_the_first_line_of_a_continuation_may_have_lost_its_indentation(
    judge: Judge, right: str
) -> None:
    test = "def check(candidate):\n    assert candidate(2) == 4\n"
    for prompt in ('def f(x):\n    """Twice."""\n', "def f(x):\n"):
        reference = {"prompt": prompt, "entry_point": "f", "test": test}
        assert judge(PYTHON, right, reference).reward == 1.0
        assert judge(PYTHON, right.replace("2 *", "3 *"), reference).reward == 0.0
    method = {"prompt": "class A:\n    def f(self, x):\n        'Twice.'\n", "entry_point": "A().f"}
    assert judge(PYTHON, "return 2 * x", {**method, "test": test}).reward == 1.0


# --- forms of data sets ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "reference"),
    [
        (ADDER, {"inputs": ["1 2\n"], "outputs": ["3\n"]}),
        (ADDER, {"inputs": [["1 2", ""]], "outputs": [["3"]]}),
        ("def f(a, b): return a + b", {"fn_name": "f", "inputs": [[1, 2]], "outputs": [[3]]}),
        ("def f(a, b): return a + b", {"fn_name": "f", "inputs": ["1\n2"], "outputs": ["3"]}),
        ("def f(a, b): return [a, b]", {"fn_name": "f", "inputs": [[1, 2]], "outputs": [[1, 2]]}),
        ("def f(a): return a", {"inputs": [], "outputs": [], "assert_case": ["assert f(1) == 1"]}),
        ("def f(a): return a", {"test_list": ["assert f(1) == 1"], "test_setup_code": "import re"}),
        (ADDER, {"test": [{"input": {"stdin": "1 2"}, "output": {"stdout": "3"}}]}),
    ],
)
def test_references_of_known_data_sets(
    judge: Judge, program: str, reference: dict[str, Any]
) -> None:
    assert judge(PYTHON, program, reference).reward == 1.0


@pytest.mark.parametrize(
    ("reference", "field"),
    [
        ({}, "reference"),
        ({"tests": []}, "reference"),
        ({"tests": [{"stdin": "x"}]}, "reference.tests[0].stdout"),
        ({"tests": [{"stdin": 3, "stdout": ""}]}, "reference.tests[0].stdin"),
        ({"inputs": ["1"], "outputs": []}, "reference.outputs"),
        ({"inputs": ["1"], "outputs": [3]}, "reference.tests[0].stdout"),
        ({"calls": {"function": "f()", "cases": [{"expected": 1}]}}, "reference.calls.function"),
        ({"calls": {"function": "f", "cases": []}}, "reference.calls.cases"),
        ({"calls": {"function": "f", "cases": [{}]}}, "reference.calls.cases[0].expected"),
        ({"asserts": {"code": ["x\0"]}}, "reference.asserts.code"),
        ({"test": [3]}, "reference.tests[0]"),
        ({"fn_name": "f", "inputs": ["{"], "outputs": ["1"]}, "reference.inputs[0]"),
        ({**ADD, **calls("f", ([], 1))}, "reference"),
    ],
)
def test_a_reference_that_says_nothing_is_refused_with_its_field(
    judge: Judge, reference: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        judge(PYTHON, "x = 1", reference)
    assert caught.value.field == field


# --- packages that the operator offers ----------------------------------------------------------

NUMPY = "import numpy as np\ndef total(xs):\n    return int(np.array(xs).sum())\n"


@pytest.fixture(scope="module")
def judge_with_packages(new_bench: Callable[[VerifierSettings], LocalPipelines]) -> Iterator[Judge]:
    with new_bench(VerifierSettings(program_packages=("numpy",))) as made:
        yield made.judge


def test_a_directory_of_packages_can_be_offered_whole(
    new_bench: Callable[[VerifierSettings], LocalPipelines],
) -> None:
    packages = Path(numpy.__file__).parents[1]
    with new_bench(VerifierSettings(program_paths=(packages,))) as made:
        assert made.judge(PYTHON, NUMPY, calls("total", ([[1, 2]], 3))).reward == 1.0


@pytest.mark.parametrize(
    "reference",
    [
        calls("total", ([[1, 2]], 3)),
        asserts("import numpy as np\nassert total(np.arange(3).tolist()) == 3"),
    ],
)
def test_programs_and_tests_import_the_packages_that_the_operator_offers(
    judge_with_packages: Judge, reference: dict[str, Any]
) -> None:
    assert judge_with_packages(PYTHON, NUMPY, reference).reward == 1.0


def test_no_package_is_there_that_the_operator_does_not_offer(judge: Judge) -> None:
    ended = judge(PYTHON, NUMPY, calls("total", ([[1, 2]], 3)))
    assert (ended.reward, ended.evidence.verdict) == (0.0, "runtime_error")
    assert "ModuleNotFoundError" in ended.evidence.error
    named = "no package in the box: numpy (verifiers.program_packages)"
    assert ended.evidence.error.startswith(named), "so that an operator sees what to offer"


@pytest.mark.parametrize(
    ("program", "named"),
    [
        ("import sortedcontainers as s\nprint(3)", "sortedcontainers "),
        ("from scipy.sparse import csgraph\nprint(3)", "scipy "),
        ("print(4)", None),
        (
            "import sys\nprint(\"ModuleNotFoundError: No module named 'numpy'\")\nraise Exception",
            None,
        ),
        (
            "import sys\nprint(\"ModuleNotFoundError: No module named 'numpy'\", file=sys.stderr)",
            None,
        ),
    ],
)
def test_a_package_that_the_box_lacks_is_named_where_it_decided(
    judge: Judge, program: str, named: str | None
) -> None:
    evidence = judge(PYTHON, program, {"tests": [{"stdin": "", "stdout": "3"}]}).evidence
    prefix = "no package in the box: "
    assert evidence.error.startswith(prefix) == (named is not None)
    assert named is None or evidence.error.startswith(prefix + named)


def test_a_package_that_is_not_installed_is_an_error_that_names_the_setting() -> None:
    with pytest.raises(SettingError, match=r"verifiers\.program_packages\[1\]: no package"):
        load_pipelines(VerifierSettings(program_packages=("numpy", "no-such-package")))


def test_the_time_that_all_tests_together_sleep_is_bounded(judge: Judge) -> None:
    tests = [{"stdin": f"{number}\n", "stdout": f"{number}\n"} for number in range(100)]
    ended = judge(
        "code.python",
        "import time; time.sleep(0.3); print(input())",
        {"tests": tests},
        blocked_s=2.0,
        total_blocked_s=0.8,
        partial_credit=True,
    )
    assert 0 < ended.evidence.tests_passed < 100
    assert ended.evidence.failed_test is not None
    calls = {"calls": {"function": "f", "cases": [{"args": [], "expected": 1}] * 100}}
    slept = judge(
        "code.python",
        "import time\ndef f():\n    time.sleep(0.3)\n    return 1",
        calls,
        blocked_s=2.0,
        total_blocked_s=0.8,
    )
    assert slept.evidence.verdict == "blocked_limit"
    assert slept.outcome is Outcome.RESOURCE_LIMIT
