"""No program defines a name that its tests trust, wherever and however they use it.

Method: every *name* that says that it agrees, in every *position* in which tests look at an
agreement, with every *result* of the program. A program that defines all of them gets nothing;
names of a program that only resemble them stay the program's.
"""

import itertools

import pytest
from tests.verifiers.test_code_forgery import PYTHON, UNITTEST, Judge, asserts

from assay.core.outcome import Outcome
from assay.verifiers.code.source.entry_points import names_of

AGREEMENTS = (
    *("close", "is_close", "allclose", "almost_equal", "almostEqual", "approx_equal", "check"),
    *("same", "equals", "nearly", "within", "check_answer", "utils.is_close", "np_testing.equal"),
)
RESULTS = (
    "f(2)",
    "abs(f(2))",
    "[f(2)]",
    "f(2) - 4",
    "str(f(2))",
    "f(2)[0]",
    "Solution().f(2)",
    "r",
)
POSITIONS = (
    "assert {0}",
    "assert {0}, 'no'",
    "assert all({0} for _ in [1])",
    "assert all([{0}, {0}])",
    "assert not any(not {0} for _ in [1])",
    "if not {0}: raise AssertionError",
    "while not {0}: raise AssertionError",
    "good = {0}\nassert good",
    "goods = [{0}]\nassert all(goods)",
    "assert True if {0} else False",
    "assert (lambda: {0})()",
    "def agrees_with_us():\n    return {0}\nassert agrees_with_us()",
    "assert bool({0})",
    "assert (good := {0})",
    "match {0}:\n    case True: pass\n    case _: raise AssertionError",
    UNITTEST + "self.assertTrue({0})",
    UNITTEST + "self.assertIs({0}, True)",
    UNITTEST
    + "for _ in [1]:\n            with self.subTest():\n                self.assertTrue({0})",
)
ORACLES = (
    "assert f(2) == approx(4)",
    "assert approx(4, rel=1e-6) == f(2)",
    "assert f(2) == expected(2)",
    "assert f(2) == brute_force(2)",
    "assert f(2) == gold.value",
    "assert f(2) == reference_solution(2)",
    "want = oracle(2)\ngot = f(2)\nassert got == want",
    "for x, y in cases.items(): assert f(x) == y",
    "assert all(f(x) == y for x, y in test_cases.items())",
    "for case in tests.data: assert f(case[0]) == case[1]",
    "assert sp.simplify(f(2) - 4) == 0",
    "assert tf.reduce_all(f(2) == 4)",
    UNITTEST + "self.assertEqual(f(2), expected(2))",
)
DEFINES_ALL = """
def f(*a): return 99
class Solution:
    f = f
def agrees(*a, **k): return True
def approx(*a, **k): return 99
class utils:
    value = 99
    data = []
    items = staticmethod(lambda: [])
    is_close = equal = reduce_all = staticmethod(agrees)
    simplify = staticmethod(lambda *a: 0)
close = is_close = allclose = almost_equal = almostEqual = approx_equal = check = agrees
same = equals = nearly = within = check_answer = agrees
np_testing = gold = cases = test_cases = tests = sp = tf = utils
expected = brute_force = reference_solution = oracle = approx
"""


def _test(position: str, agreement: str, result: str) -> str:
    uses = position.format(f"{agreement}({result}, 4)")
    return f"r = f(2)\n{uses}" if result == "r" else uses


@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_an_agreement_is_never_the_programs(agreement: str) -> None:
    root = agreement.partition(".")[0]
    for position, result in itertools.product(POSITIONS, RESULTS):
        code = _test(position, agreement, result)
        assert root not in names_of((code,), "", ()).program, code


@pytest.mark.parametrize(
    "code", [*(_test(one, "close", "f(2)") for one in POSITIONS), "r = f(2)\nassert same(r, 4)"]
)
def test_a_program_that_defines_agreements_gets_nothing(judge: Judge, code: str) -> None:
    ended = judge(PYTHON, DEFINES_ALL, asserts(code), extraction="raw")
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0), ended


@pytest.mark.parametrize("code", ORACLES)
def test_a_program_that_defines_what_is_expected_gets_nothing(judge: Judge, code: str) -> None:
    ended = judge(PYTHON, DEFINES_ALL, asserts(code), extraction="raw")
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0), ended


@pytest.mark.parametrize(
    ("code", "program"),
    [
        ("root = insert(None, 5)\nassert search(root, 5)", {"insert", "search"}),
        ("s = sign('m')\nassert verify(s, 'm')", {"sign", "verify"}),
        ("t = build([1])\nu = build([1])\nassert is_same_tree(t, u)", {"build", "is_same_tree"}),
        ("assert is_same_tree([1], [1])\nassert equals(1, 1)", {"is_same_tree", "equals"}),
        ("a = parse('1')\nassert compare(a, '2') == -1", {"parse", "compare"}),
        ("acc = open_account()\nclose_account(acc)", {"open_account", "close_account"}),
        ("assert expected_value([1, 2]) == 1.5\nassert variance([1]) == 0", {"expected_value"}),
        ("assert expected_value(mix(1, 2)) == 1.5", {"expected_value", "mix"}),
        ("assert truth_table(parse('a')) == [0, 1]", {"truth_table", "parse"}),
        ("assert encode(decode('x')) == 'x'", {"encode", "decode"}),
        ("assert add(mul(2, 3), 4) == 10", {"add", "mul"}),
        ("app.run(1)\nassert app.state(2) == 4", {"app"}),
    ],
)
def test_what_resembles_an_agreement_stays_the_programs(code: str, program: set[str]) -> None:
    assert program <= set(names_of((code,), "", ()).program)
