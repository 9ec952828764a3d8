"""An object of a class under test is no judge of its own result.

Its operators get operands of the tests (`2 * v`), so it may learn with what it is compared. What it
says about its difference from a value of the tests is not believed where it says that there is
none, and neither is an equality with whatever has the same class.
"""

import itertools

import pytest
from tests.verifiers.test_code_forgery import PYTHON, Judge, asserts

from assay.core.outcome import Outcome

RIGHT = """
import math
class Vec:
    def __init__(self, x, y):
        self.x, self.y = x, y
    def __abs__(self): return math.hypot(self.x, self.y)
    def __mul__(self, other):
        if isinstance(other, Vec):
            return self.x * other.x + self.y * other.y
        return Vec(self.x * other, self.y * other)
    __rmul__ = __mul__
    def __add__(self, other):
        return self if other == 0 else Vec(self.x + other.x, self.y + other.y)
    __radd__ = __add__
    def __sub__(self, other):
        if isinstance(other, Vec):
            return Vec(self.x - other.x, self.y - other.y)
        return Vec(self.x - other, self.y - other)
    def __neg__(self): return self * -1
    def __eq__(self, other):
        return isinstance(other, Vec) and (self.x, self.y) == (other.x, other.y)
    def __bool__(self): return bool(self.x or self.y)
"""
LIES = (
    "def __sub__(self, other): return 0.0",
    "def __sub__(self, other): return Vec(0, 0)",
    "def __sub__(self, other): return type('Float', (float,), {})(0)",
    "def __sub__(self, other): return __import__('fractions').Fraction(0)",
    "def __sub__(self, other): return -other * 0",
)
WRONG = """
class Vec:
    def __init__(self, x, y):
        self.x, self.y = 3, 4
    def __abs__(self): return Vec(3, 4)
    def __mul__(self, other): return Vec(3, 4)
    __rmul__ = __add__ = __radd__ = __neg__ = __abs__ = __mul__ = lambda self, *other: Vec(3, 4)
    {lie}
    __rsub__ = __sub__
    def __round__(self, *digits): return 0
    def __float__(self): return 0.0
    def __int__(self): return 0
    def __bool__(self): return False
    def __pow__(self, other): return 0
    def __eq__(self, other): return isinstance(other, Vec)
    def __hash__(self): return 1
"""
COMPARED = (
    "assert abs({} - {}) < 1e-9",
    "assert not {} - {}",
    "assert ({} - {}) ** 2 < 1e-9",
    "assert round({} - {}, 7) == 0",
    "assert float({} - {}) == 0",
    "import math\nassert math.isclose({} - {}, 0, abs_tol=1e-9)",
    "import unittest\nunittest.TestCase().assertAlmostEqual({}, {})",
    "import unittest\nunittest.TestCase().assertAlmostEqual({}, {}, delta=0.1)",
)
PAIRS = (("abs(v)", "5"), ("5", "abs(v)"), ("v * w", "11.0"), ("abs(v + w)", "7.21"))
RIGHT_TESTS = (
    "assert abs(abs(v) - 5) < 1e-9",
    "import unittest\nunittest.TestCase().assertAlmostEqual(abs(v), 5)",
    "assert v * w == 11 and (2 * v).x == 6 and (v - 1).y == 3",
    "assert sum([v, w]) == Vec(4, 6) and -v == Vec(-3, -4) and not v - v",
    "assert [v] == [Vec(3, 4)] and v != w and Vec(0, 0) == v - v",
    "assert abs((v - 1) * 2) > 7",
)
START = "v = Vec(3, 4)\nw = Vec(1, 2)\nassert v.x == 3\n"


@pytest.mark.parametrize("lie", LIES)
def test_a_class_that_says_that_it_does_not_differ_gets_nothing(judge: Judge, lie: str) -> None:
    wrong = WRONG.replace("{lie}", lie)
    for compared, pair in itertools.product(COMPARED, PAIRS):
        reference = asserts(START + compared.format(*pair))
        ended = judge(PYTHON, wrong, reference, extraction="raw")
        assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0), (compared, pair, ended)


@pytest.mark.parametrize("test", RIGHT_TESTS)
def test_a_right_class_passes(judge: Judge, test: str) -> None:
    ended = judge(PYTHON, RIGHT, asserts(START + test), extraction="raw")
    assert ended.reward == 1.0, ended


@pytest.mark.parametrize(
    "equality", ["True", "isinstance(other, P)", "type(other) is P", "hasattr(other, 'x')"]
)
@pytest.mark.parametrize("slots", ["", "__slots__ = ('x', 'y')", "__slots__ = ['x', 'y']"])
def test_what_equals_all_of_its_class_equals_nothing(
    judge: Judge, equality: str, slots: str
) -> None:
    wrong = f"""
class P:
    {slots}
    def __init__(self, x, y): self.x, self.y = x, y
    def __eq__(self, other): return {equality}
    def __add__(self, other): return P(0, 0)
"""
    reference = asserts("assert P(1, 2).x == 1\nassert P(1, 2) + P(3, 4) == P(4, 6)")
    ended = judge(PYTHON, wrong, reference, extraction="raw")
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0), ended


@pytest.mark.parametrize(
    "program",
    [
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int = 4\n    y: int = 6\n"
        "    def __add__(s, o): return P(s.x + o.x, s.y + o.y)\n",
        "from dataclasses import dataclass\n@dataclass(frozen=True, slots=True)\nclass P:\n"
        "    x: int\n    y: int\n    def __add__(s, o): return P(s.x + o.x, s.y + o.y)\n",
        "class P:\n    def __init__(s, x, y): s.x, s.y = x, y\n"
        "    def __add__(s, o): return P(s.x + o.x, s.y + o.y)\n"
        "    def __eq__(s, o): return str(s.x) == str(o.x) and s.y - o.y == 0\n",
        "class P:\n    __slots__ = 'both'\n    def __init__(s, x, y): s.both = (x, y)\n"
        "    x = property(lambda s: s.both[0])\n"
        "    def __add__(s, o): return P(*map(sum, zip(s.both, o.both)))\n"
        "    def __eq__(s, o): return s.both == o.both\n",
        "class P:\n    def __init__(s, x, y): s.x, s.y = x, y\n"
        "    def __add__(s, o): return P(s.x + o.x, s.y + o.y)\n"
        "    def __eq__(s, o): return vars(s) == vars(o)\n",
    ],
)
def test_right_equalities_hold(judge: Judge, program: str) -> None:
    reference = asserts("assert P(1, 2).x == 1\nassert P(1, 2) + P(3, 4) == P(4, 6) != P(4, 7)")
    ended = judge(PYTHON, program, reference, extraction="raw")
    assert ended.reward == 1.0, ended


CONTEXT = """
class Q:
    def __init__(self, value): self.value = value
    def __enter__(self): return self
    def __exit__(self, kind, *rest): return {suppresses}
"""
HELPERS = """
def check(value): assert value == 4
def both(value): check(value)
def demand(value):
    if value != 4: raise AssertionError(value)
def use(value): return value
"""


@pytest.mark.parametrize(
    "check",
    [
        "assert q.value == 4",
        "if q.value != 4: raise AssertionError",
        "if q.value != 4:\n        raise AssertionError('not four')",
        "check(q.value)",
        "both(q.value)",
        "demand(q.value)",
        "for _ in [1]: check(q.value)",
        "use(q.missing)\n    check(q.value)",
        "q.missing\n    if q.value != 4: raise AssertionError",
    ],
)
def test_no_context_of_a_program_hides_a_failure(judge: Judge, check: str) -> None:
    reference = asserts(f"{HELPERS}with Q(3) as q:\n    {check}")
    ended = judge(PYTHON, CONTEXT.format(suppresses="True"), reference, extraction="raw")
    assert (ended.outcome, ended.reward) == (Outcome.SCORED, 0.0), ended


@pytest.mark.parametrize(
    "block",
    [
        "raise ValueError('x')",
        "use(int('x'))",
        "raise ValueError\n    raise AssertionError('not reached')",
        "check(q.value)\n    raise ValueError",
        "use(q.value)",
    ],
)
def test_a_context_that_suppresses_an_error_passes(judge: Judge, block: str) -> None:
    reference = asserts(f"{HELPERS}with Q(4) as q:\n    {block}")
    right = CONTEXT.format(suppresses="kind is ValueError")
    ended = judge(PYTHON, right, reference, extraction="raw")
    assert ended.reward == 1.0, ended
