"""No value of a program decides a comparison, and no program makes itself unscorable.

Method: programs are put together from parts that were not made for each other. A *trick* is a value
that tries to be equal to everything, or an act that tries to leave no verdict; a *form* is a way in
which data sets write tests. Every trick meets every form; a seeded generator adds classes with
dunder methods and tests with comparisons that no one wrote by hand. Wrong programs get
`reward_fail` or `reward_resource_limit`, never nothing; right ones get `reward_pass`.
"""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from assay.core.outcome import Outcome
from assay.core.verdict import Ended

Judge = Callable[..., Ended]
PYTHON = "code.python"
SEED = 20_261_122
CASES = 60


def asserts(*code: str, **more: Any) -> dict[str, Any]:
    return {"asserts": {"code": list(code), **more}}


UNITTEST = "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        "
FORMS = {
    "calls": {"calls": {"function": "f", "cases": [{"args": [2], "expected": 4}]}},
    "equal": asserts("assert f(2) == 4"),
    "equal, turned": asserts("assert 4 == f(2) and not 4 != f(2)"),
    "in": asserts("assert f(2) in (4, 8)"),
    "near": asserts("assert abs(f(2) - 4) < 1e-6"),
    "near, turned": asserts("assert abs(4 - f(2)) < 1e-6"),
    "isclose, undefined": asserts("assert isclose(f(2), 4)"),
    "math, undefined": asserts("assert math.isclose(f(2), 4)"),
    "text": asserts("assert str(f(2)) == f'{f(2)}' == '4'"),
    "inside": asserts("assert [f(2)] == [4] and {'a': (f(2),)} == {'a': (4,)}"),
    "set": asserts("assert {f(2)} == {4}"),
    "dict": asserts("assert {4: True}.get(f(2))"),
    "sorted": asserts("assert sorted([f(2), 4]) == [4, 4]"),
    "between": asserts("assert 4 <= f(2) <= 4"),
    "operator": asserts("import operator\nassert operator.eq(f(2), 4)"),
    "copied": asserts("import copy\nassert copy.deepcopy(f(2)) == 4"),
    "instance": asserts("assert isinstance(f(2), int) and f(2) == 4"),
    "HumanEval": {
        "prompt": "def f(x):\n    '''Twice.'''\n",
        "entry_point": "f",
        "test": "def check(candidate):\n    assert candidate(2) == 4\n",
    },
    "MBPP": {"test_list": ["assert f(2) == 4", "assert f(3) == 6"]},
    "TACO": {"fn_name": "f", "inputs": [[2]], "outputs": [4]},
    "assertEqual": asserts(UNITTEST + "self.assertEqual(f(2), 4)"),
    "assertAlmostEqual": asserts(UNITTEST + "self.assertAlmostEqual(f(2), 4)"),
    "assertIn": asserts(UNITTEST + "self.assertIn(f(2), [4])\nunittest.main()"),
}
DUNDERS = (
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__len__"),
    *("__add__", "__sub__", "__radd__", "__rsub__", "__abs__", "__neg__", "__round__", "__bool__"),
    *("__hash__", "__str__", "__repr__", "__format__", "__iter__", "__getattr__", "__call__"),
    *("__instancecheck__", "__class_getitem__", "__index__", "__reduce__", "__getitem__"),
)
BASES = ("object", "int", "str", "tuple", "list", "dict", "float", "set", "Exception", "type")


def trick(name: str, base: str, members: str) -> str:
    made = {"int": "A(5)", "float": "A(5)", "type": "A('B', (), {})"}.get(base, "A()")
    return f"class A({base}):\n{members}\ndef {name}(x): return {made}\n"


ALWAYS = "\n".join(
    f"    {name} = lambda *a, **k: {'hash(4)' if name == '__hash__' else True}"
    for name in DUNDERS
    if name != "__getattr__"
)
TRICKS = {
    **{f"a {base} equal to all": trick("f", base, ALWAYS) for base in BASES},
    "fields that are methods": (
        "class T(tuple):\n    _fields = ('__eq__', '__len__', '__sub__', '__rsub__', '__hash__')\n"
        "def f(x): return T([lambda *a: True] * 5)"
    ),
    "fields of a base class": (
        "class B(tuple):\n    _fields = ('count', 'index', '__class__', 'a.b', 'a')\n"
        "class T(B): pass\ndef f(x): return T([lambda *a: 4] * 5)"
    ),
    "a class": "class M(type):\n    __eq__ = lambda *a: True\n    __hash__ = type.__hash__\n"
    "class f(metaclass=M):\n    def __init__(s, x): pass\n    __eq__ = lambda *a: True",
    "names of the library": (
        "class math: isclose = lambda *a, **k: True\nisclose = abs = len = lambda *a, **k: True\n"
        "import builtins\nbuiltins.abs = builtins.sorted = builtins.str = lambda *a: 4\n"
        "def f(x): return 5\ndef check(c): pass\n"
    ),
    "an exception": "class E(AssertionError):\n    __eq__ = lambda *a: True\ndef f(x): raise E(4)",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("program", TRICKS.values(), ids=TRICKS.keys())
def test_no_value_of_a_program_decides_a_comparison(
    judge: Judge, program: str, form: dict[str, Any]
) -> None:
    ended = judge(PYTHON, program, form, extraction="raw", cpu_s=1.0)
    assert ended.reward == 0.0, ended


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_the_right_program_passes_in_every_form(judge: Judge, form: dict[str, Any]) -> None:
    ended = judge(PYTHON, "def f(x):\n    return x * 2\n", form, cpu_s=1.0)
    assert ended.reward == 1.0, ended


def generated(pick: random.Random) -> tuple[str, dict[str, Any]]:
    """A class with some dunder methods that lie, and a test with an expected value."""
    answers = ("True", "False", "4", "5", "'4'", "NotImplemented", "a[-1]", "a[0]", "1 / 0", "[4]")
    members = [
        f"    {name} = lambda *a, **k: {pick.choice(answers)}"
        for name in pick.sample(DUNDERS, pick.randint(1, 8))
    ]
    base = pick.choice(BASES)
    forms = sorted(FORMS)
    return trick("f", base, "\n".join(members)), FORMS[pick.choice(forms)]


def test_generated_tricks_earn_nothing_and_are_scored(judge: Judge) -> None:
    for case in range(CASES):
        program, form = generated(random.Random(f"{SEED} {case}"))
        ended = judge(PYTHON, program, form, extraction="raw", cpu_s=1.0)
        assert ended.reward == 0.0, (case, program, form, ended)


# --- no verdict --------------------------------------------------------------------------------

ODD_CLASS = (
    "class M(type):\n    __name__ = __mro__ = __module__ = property(lambda s: 1 / 0)\n"
    "class E(Exception, metaclass=M):\n    args = property(lambda s: 1 / 0)\n"
    "    def __str__(s): raise E()\n    __repr__ = __str__\n"
)
BREAKERS = {
    "Solution wants arguments": "class Solution:\n    def __init__(s, n): pass\n    def f(s, x): 1",
    "Solution raises": "class Solution:\n    def __new__(c): raise SystemExit(0)",
    "unprintable at load": ODD_CLASS + "raise E()",
    "unprintable in a call": ODD_CLASS + "def f(x): raise E()",
    "huge text at load": "raise ValueError('x' * (40 << 20))",
    "huge text in a call": "def f(x): raise ValueError('x' * (40 << 20))",
    "a million arguments": "def f(x): raise ValueError(*range(10**6))",
    "surrogates": "def f(x): raise type('\\ud800', (Exception,), {})('\\udfff')",
    "surrogates in the source": "x = '\ud800'\ndef f(x): return 5",
    "a NUL": "\0",
    "too large": "def f(x): return 'x' * (40 << 20)",
    "lengths that lie": (
        "class L(list):\n    def __len__(s): return -1\n    def __iter__(s): raise MemoryError\n"
        "def f(x): return L([5])"
    ),
    "without end": "import itertools\ndef f(x): return itertools.count(5)",
    "deep": "def f(x):\n    a = []\n    for _ in range(10**5): a = [a]\n    return a",
    "cyclic": "def f(x):\n    a = []\n    a.append({1: a})\n    return a",
    "a huge integer": "def f(x): return 10 ** 10**6",
    "a huge decimal": "import decimal\ndef f(x): return decimal.Decimal('1e999999999')",
    "SystemExit": "def f(x): raise SystemExit(0)",
    "KeyboardInterrupt": "def f(x): raise KeyboardInterrupt",
    "StopIteration": "def f(x): raise StopIteration(4)",
    "its own BaseException": "class B(BaseException): pass\ndef f(x): raise B()",
    "leaves": "import os\ndef f(x): os._exit(0)",
    "closes all": "import os\ndef f(x): os.closerange(0, 1000)",
    "kills all": "import os\ndef f(x): os.kill(-1, 9)",
    "garbage": (
        "import os\ndef f(x):\n    for n in range(3, 64):\n"
        "        try: os.write(n, b'\\xff' * 99)\n        except OSError: pass"
    ),
    "clears our modules": (
        "import sys\nfor name, module in list(sys.modules.items()):\n"
        "    if 'assay' in name or name == 'referee': vars(module).clear()\ndef f(x): return 5"
    ),
    "hashes that raise": (
        "class A:\n    def __hash__(s): raise SystemExit\ndef f(x): return {A(): 4}"
    ),
    "hashes that change": (
        "class A:\n    n = 0\n    def __hash__(s): A.n += 1; return A.n\n"
        "    def __eq__(s, o): return True\ndef f(x): return [{A(), A()}, A()]"
    ),
    "a module": "import sys\ndef f(x): return sys",
}


@pytest.mark.parametrize("form", ["calls", "equal", "sorted", "assertEqual", "stdin", "iterates"])
@pytest.mark.parametrize("program", BREAKERS.values(), ids=BREAKERS.keys())
def test_no_program_makes_itself_unscorable(judge: Judge, program: str, form: str) -> None:
    more = {
        "stdin": {"tests": [{"stdin": "2", "stdout": "4"}]},
        "iterates": asserts("assert sorted(f(2)) == [4]", "assert len(f(2)) == 1"),
    }
    reference = {**FORMS, **more}[form]
    ended = judge(PYTHON, program, reference, extraction="raw", cpu_s=0.3)
    assert ended.outcome in {Outcome.SCORED, Outcome.RESOURCE_LIMIT}
    assert ended.reward == 0.0
    evidence = [ended.evidence.extracted, ended.evidence.error, ended.evidence.stderr_tail]
    json.dumps(evidence, ensure_ascii=False).encode("utf-8")


# --- right programs ----------------------------------------------------------------------------

RIGHT = [
    (
        "from collections import deque\ndef f(x): return deque(x)",
        "from collections import deque\nassert f([1, 2]) == deque([1, 2])\n"
        "assert f([1])[0] == 1 and len(f([1, 2])) == 2 and f([3]).popleft() == 3",
    ),
    (
        "from collections import Counter\ndef f(x): return Counter(x)",
        "assert f('aab') == {'a': 2, 'b': 1} and f('aab').most_common(1) == [('a', 2)]",
    ),
    (
        "from collections import OrderedDict\ndef f(x): return OrderedDict(sorted(x.items()))",
        "from collections import OrderedDict\n"
        "assert f({'b': 1, 'a': 2}) == OrderedDict([('a', 2), ('b', 1)])\n"
        "assert f({'b': 1, 'a': 2}) != OrderedDict([('b', 1), ('a', 2)])",
    ),
    (
        "from collections import defaultdict\ndef f(): return defaultdict(list, a=[1])",
        "assert f() == {'a': [1]} and f()['b'] == []",
    ),
    (
        "from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n    name: str = 'a'\n"
        "def f(x): return P(x)",
        "import copy\nr = f(3)\nassert r == (3, 'a') and r.x == 3 and r._asdict()['name'] == 'a'\n"
        "assert str(r) == \"P(x=3, name='a')\" and r._replace(x=5).x == copy.deepcopy(r).x + 2",
    ),
    (
        "from dataclasses import dataclass\n@dataclass(frozen=True, order=True)\nclass P:\n"
        "    x: int\ndef f(x): return P(x)",
        "assert f(1) == P(1) and f(1) != P(2) and f(1) in [P(1)] and len({P(1), f(1)}) == 1\n"
        "assert P(1) < P(2) and max(P(1), P(3)).x == 3 and repr(f(1)) == 'P(x=1)'",
    ),
    (
        "class V:\n    def __init__(s, x): s.x = x\n    def __add__(s, o): return V(s.x + o.x)\n"
        "    def __eq__(s, o): return s.x == o.x\n    def __abs__(s): return abs(s.x)\n"
        "    def __format__(s, form): return format(s.x, form)\n    def __float__(s): return s.x",
        "assert V(1) + V(2) == V(3) and abs(V(-2)) == 2 and f'{V(1.0):.2f}' == '1.00'\n"
        "assert float(V(2.5)) == 2.5",
    ),
    (
        "from enum import IntEnum\nclass C(IntEnum):\n    A = 1\ndef f(): return C.A",
        "assert f() == 1 and f() == C.A",
    ),
    (
        "def f(d): return d.keys()\ndef g(d): return d.items()",
        "assert f({'a': 1}) == {'a'} and sorted(g({'a': 1})) == [('a', 1)]",
    ),
    (
        "def f(d): d.appendleft(1)",
        "from collections import deque\nd = deque([2], maxlen=5)\nf(d)\nassert d == deque([1, 2])",
    ),
    (
        "def f(c): c['a'] += 1",
        "from collections import Counter\nc = Counter('a')\nf(c)\nassert c == Counter('aa')",
    ),
    (
        "class S:\n    def __init__(s): s.d = []\n    def push(s, x): s.d.append(x)\n"
        "    def pop(s): return s.d.pop()\n    def __len__(s): return len(s.d)\n"
        "    def __iter__(s): return iter(s.d)",
        "import unittest\nclass T(unittest.TestCase):\n    def setUp(self): self.s = S()\n"
        "    def test_push(self):\n        self.s.push(2)\n        self.assertIn(2, self.s)\n"
        "        self.assertEqual(len(self.s), 1)\n        self.assertIsInstance(self.s, S)\n"
        "    def test_pop(self):\n        with self.assertRaises(IndexError): self.s.pop()\n"
        "if __name__ == '__main__':\n    unittest.main()",
    ),
    (
        "import re\nfrom statistics import NormalDist\nfrom zoneinfo import ZoneInfo\n"
        "def f(): return re.compile('a+', re.I), ZoneInfo('Europe/Berlin'), NormalDist(1, 2)",
        "import re, statistics, zoneinfo\nassert f() == (re.compile('a+', re.I), "
        "zoneinfo.ZoneInfo('Europe/Berlin'), statistics.NormalDist(1, 2))\n"
        "assert f()[0].match('AA')",
    ),
    (
        "%%time\n!pip install numpy\ndef f(): return 4",
        "assert f() == 4",
    ),
    (
        "class Counter:\n    def __init__(s): s.n = 0\n    def inc(s): s.n += 1",
        "c = Counter()\nc.inc()\nassert c.n == 1",
    ),
]


@pytest.mark.parametrize(("program", "code"), RIGHT)
def test_right_programs_pass_whatever_type_they_return(
    judge: Judge, program: str, code: str
) -> None:
    ended = judge(PYTHON, program, asserts(code))
    assert ended.evidence.verdict == "pass", ended.evidence


def test_test_cases_that_no_one_runs_are_run(judge: Judge) -> None:
    reference = asserts(UNITTEST + "self.assertEqual(f(2), 4)")
    ended = judge(PYTHON, "def f(x): return x * 3", reference)
    assert (ended.reward, ended.evidence.verdict) == (0.0, "wrong_answer")


def test_an_equality_that_holds_with_anything_holds_with_nothing(judge: Judge) -> None:
    program = "class P:\n    def __init__(s, x): pass\n    def __eq__(s, o): return True\nf = P"
    assert judge(PYTHON, program, asserts("assert f(1) == P(2)")).reward == 0.0


def test_an_expected_integer_is_met_by_an_equal_number_only(judge: Judge) -> None:
    reference = {"calls": {"function": "f", "cases": [{"expected": 123_456_789}]}}
    assert judge(PYTHON, "def f(): return 123456700.0", reference).reward == 0.0
    assert judge(PYTHON, "def f(): return 123456789.0", reference).reward == 1.0


LYING_CONTAINER = """
class C:
    def __len__(self): return {said}
    def __iter__(self): return iter({given})
def f(x): return C()
"""


@pytest.mark.parametrize(
    ("said", "given", "reward"),
    [(2, "()", 0.0), (2, "[1]", 0.0), (2, "[1, 2]", 1.0), (2, "[1, 2, 3]", 0.0), (0, "()", 0.0)],
)
def test_an_object_holds_as_many_items_as_it_says(
    judge: Judge, said: int, given: str, reward: float
) -> None:
    test = "assert len(f(0)) == 2 and all(a == b for a, b in zip(f(0), [1, 2, 3]))"
    ended = judge(
        PYTHON, LYING_CONTAINER.format(said=said, given=given), {"asserts": {"code": [test]}}
    )
    assert ended.reward == reward, ended


def test_a_container_that_is_emptied_while_it_is_read_passes(judge: Judge) -> None:
    program = (
        "class Q:\n    def __init__(self): self.items = [1, 2, 3]\n"
        "    def __len__(self): return len(self.items)\n"
        "    def __iter__(self):\n        while self.items: yield self.items.pop(0)\n"
    )
    for test in (
        "q = Q()\nassert list(q) == [1, 2, 3]\nassert len(q) == 0",
        "q = Q()\nit = iter(q)\nassert next(it) == 1\nassert len(q) == 2 and q",
        "q = Q()\nfor x in q:\n    n = len(q)\nassert n == 0 and not q",
        "q = Q()\nassert len(q) == 3\nassert [x for x in q] == [1, 2, 3]\nassert list(q) == []",
        "q = Q()\nassert q and len(q) == 3 and sorted(q) == [1, 2, 3] and not q",
    ):
        assert judge(PYTHON, program, {"asserts": {"code": [test]}}).reward == 1.0, test


@pytest.mark.parametrize(
    "test",
    [
        "import asyncio\nassert asyncio.run(f(1)) == 2",
        "import asyncio\nasync def main():\n    return await asyncio.gather(f(1), f(2))\n"
        "assert asyncio.run(main()) == [2, 3]",
    ],
)
def test_coroutines_of_the_program_run_where_the_tests_run_them(judge: Judge, test: str) -> None:
    tests = {"asserts": {"code": [test]}}
    assert judge(PYTHON, "async def f(x): return x + 1", tests).reward == 1.0
    assert judge(PYTHON, "async def f(x): return x", tests).reward == 0.0


def test_tests_that_derive_from_the_programs_class_are_refused(judge: Judge) -> None:
    tests = {"asserts": {"code": ["class D(B):\n    pass\nassert D().g() == 1"]}}
    ended = judge(PYTHON, "class B:\n    def g(self): return 1", tests)
    assert (ended.outcome, ended.reward) == (Outcome.REJECTED_INVALID, None)
    assert "derive" in ended.evidence.error
