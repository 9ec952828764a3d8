"""Cases of `code.python`: problems, the forms that their tests are written in, and candidates."""

import random
from typing import Any, Final

from tests.fuzz.verdicts.case import Case, Expected, one_of
from tests.fuzz.verdicts.code.hostile import LAZY_SPOILERS, names_program, spoiler, value_program
from tests.fuzz.verdicts.code.problems import PROBLEMS, Problem

_SETTINGS: Final = {"cpu_s": 1.0, "memory_bytes": 256 << 20}
_EQUALITIES: Final = (
    "assert {e} == {v}",
    "assert {v} == {e}",
    "assert not ({e} != {v})",
    "assert {e} in [{v}]",
    "assert {e} in ({v}, {v})",
    "assert ({e}, 1) == ({v}, 1)",
    "assert [{e}] == [{v}]",
    "assert {{'k': {e}}} == {{'k': {v}}}",
    "assert [{v}].count({e}) == 1",
    "assert [{v}].index({e}) == 0",
    "out = {e}\nassert out == {v} and not out != {v}",
    "try:\n    out = {e}\nexcept Exception:\n    out = None\nassert out == {v}, 'no'",
    "import operator\nassert operator.eq({e}, {v})",
    "assert all(map(lambda _: {e} == {v}, [0]))",
    "assert list(map(lambda _: {e}, [0])) == [{v}]",
    "for out, wanted in zip(map(lambda _: {e}, [0]), [{v}]):\n    assert out == wanted",
    "assert not any(map(lambda _: {e} != {v}, [0]))",
    "assert next(map(lambda _: {e}, [0]), {v}) == {v}",
    "for _ in iter(lambda: {e}, {v}):\n    raise AssertionError",
    "import contextlib\nwith contextlib.nullcontext({e}) as out:\n    assert out == {v}",
    "import threading\nfound = []\nt = threading.Thread(target=lambda: found.append({e}))\nt.start()\n"
    "t.join()\nassert found == [{v}]",
    "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as pool:\n"
    "    assert list(pool.map(lambda _: {e}, [0])) == [{v}]",
    "assert all(a == b for a, b in zip([{e}], [{v}], strict=True))",
    "match {e}:\n    case out if out == {v}:\n        pass\n    case _:\n        raise AssertionError",
)
_EXACT: Final = (
    "assert str({e}) == {s} and {e} == {v}",
    "assert repr({e}) == {r}",
    'assert f"{{{e}}}" == {s} and {e} == {v}',
    "assert '%s' % ({e},) == {s} and {e} == {v}",
    "assert type({e}) is type({v}) and {e} == {v}",
    "import json\nassert json.dumps({e}) == json.dumps({v})",
    "import copy\nassert copy.deepcopy({e}) == {v}",
)
_OF_NUMBERS: Final = (
    "assert abs({e} - {v}) < 1e-6",
    "assert abs({v} - {e}) < 1e-6",
    "import math\nassert math.isclose({e}, {v})",
    "from math import isclose\nassert isclose({e}, {v}, rel_tol=1e-9)",
    "assert round({e}, 6) == round({v}, 6)",
    "assert {v} - 1e-6 <= {e} <= {v} + 1e-6",
    "assert -1e-6 < {e} - {v} < 1e-6",
    "assert float({e}) == float({v}) and {e} == {v}",
    "assert hash({e}) == hash({v})",
    "assert max({e}, {v}) - min({e}, {v}) < 1e-6",
    "assert {{{e}: 1}} == {{{v}: 1}}",
)
_OF_LISTS: Final = (
    "assert len({e}) == {n} and list({e}) == {v}",
    "assert sorted({e}) == sorted({v}) and {e} == {v}",
    "assert [x for x in {e}] == {v}",
    "assert tuple({e}) == tuple({v})",
    "assert len({e}) == len({v}) and all(a == b for a, b in zip({e}, {v}))",
)
_UNDEFINED: Final = (
    "assert isclose({e}, {v}, rel_tol=0.0, abs_tol=1e-9)",
    "assert math.isclose(float({e}), 0.125)",
    "assert np.allclose({e}, {v})",
    "assert approx({e}) == {v}",
    "assertEqual({e}, {v})",
    "check({e}, {v})",
)
_CONSTRUCTORS: Final = (
    "def __init__(self, n):\n        self.n = n",
    "def __init__(self, *, key):\n        pass",
    "def __init__(self):\n        raise KeyError(self)",
    "def __init__(self):\n        return 5",
    "def __new__(cls):\n        raise SystemExit(0)",
    "__init__ = 5",
    "__init__ = property(lambda self: 1 / 0)",
)
"""Of a class `Solution` that cannot be made without arguments, or at all."""
_UNITTEST: Final = """
import unittest
class Tests(unittest.TestCase):
    def test_it(self):
        {assertion}
result = unittest.TestResult()
unittest.defaultTestLoader.loadTestsFromTestCase(Tests).run(result)
assert result.wasSuccessful() and result.testsRun == 1
"""
_ASSERTIONS: Final = (
    "self.assertEqual({e}, {v})",
    "self.assertEqual({v}, {e})",
    "self.assertTrue({e} == {v})",
    "self.assertFalse({e} != {v})",
    "self.assertIn({e}, [{v}])",
    "self.assertListEqual([{e}], [{v}])",
    "self.assertCountEqual([{e}], [{v}])",
    "self.assertDictEqual({{1: {e}}}, {{1: {v}}})",
    "self.assertSequenceEqual([{e}], [{v}])",
)


def python_case(rng: random.Random) -> Case:
    """Draw a problem, the form of its tests, and a candidate."""
    problem = rng.choice(PROBLEMS)
    function = rng.choice(("f", "solve", "get_it", "compute_value"))
    form = one_of(rng, {"calls": 3, "asserts": 5, "human_eval": 1.5, "mbpp": 1.5, "undefined": 0.4})
    exact = rng.random() < 0.5
    kind, program, expected = _candidate(rng, problem, function, exact=exact, form=form)
    tests = reference(rng, problem, function, form=form, exact=exact)
    if form == "undefined":
        expected = Expected.NOT_RIGHT
    return Case(
        pipeline="code.python",
        kind=f"{form}: {kind}",
        response=_wrapped(rng, program, honest=expected is Expected.RIGHT),
        reference=tests,
        expected=expected,
        settings=_SETTINGS,
    )


def _candidate(
    rng: random.Random, problem: Problem, function: str, *, exact: bool, form: str
) -> tuple[str, str, Expected]:
    if form == "undefined" and rng.random() < 0.7:
        return "names", names_program(rng, function), Expected.WRONG
    shares = {"right": 3, "wrong": 1, "value": 4, "spoiler": 2}
    if form == "undefined":
        del shares["right"]  # a name that the standard library has may be found there
    kind = one_of(rng, shares)
    if kind == "value":
        return "agreeable value", value_program(rng, function), Expected.WRONG
    if kind == "spoiler":
        name, program = spoiler(rng, function)
        while name.split()[0] in LAZY_SPOILERS and rng.random() < 0.9:
            name, program = spoiler(rng, function)
        return name, program, Expected.WRONG
    if kind == "wrong" and rng.random() < 0.1:  # a NUL is no part of Python
        whole = _defined(rng, problem, function, rng.choice(problem.right), "")
        return (
            "NUL",
            rng.choice(("0\0{}", "\0{}", "# \0\n{}", "{}#\0")).format(whole),
            Expected.WRONG,
        )
    if kind == "wrong" and form == "calls" and rng.random() < 0.3:
        whole = _defined(rng, problem, function, rng.choice(problem.right), "class")
        head, _, methods = whole.partition("\n")
        constructor = rng.choice(_CONSTRUCTORS)
        return "constructor", f"{head}\n    {constructor}\n{methods}", Expected.WRONG
    if kind == "wrong":
        return kind, _defined(rng, problem, function, rng.choice(problem.wrong), ""), Expected.WRONG
    subclass = not exact and bool(problem.alike) and rng.random() < 0.3
    body = rng.choice(problem.alike if subclass else problem.right)
    how = "class" if form == "calls" and rng.random() < 0.3 else ""
    kind = "right, of a subclass" if subclass else "right"
    return kind, _defined(rng, problem, function, body, how), Expected.RIGHT


def _defined(rng: random.Random, problem: Problem, function: str, body: str, how: str) -> str:
    p = problem.parameters
    if how == "class":
        method = "".join(
            f"    {line}\n" for line in f"def {function}(self, {p}):\n    {body}".split("\n")
        )
        return f"class Solution:\n{method}"
    plain = f"def {function}({p}):\n    {body}\n"
    extra = rng.choice(
        (
            "",
            "",
            "import sys\nprint('loading', file=sys.stderr)\nprint('noise')\n",
            f"import functools\n_inner = {function}\n@functools.wraps(_inner)\n"
            f"def {function}(*a, **k):\n    print('called')\n    return _inner(*a, **k)\n",
            f"class _C:\n    def __call__(self, *a):\n        return _f(*a)\n_f = {function}\n{function} = _C()\n",
            "if __name__ == '__main__':\n    print(int(input()) + 1)\n",
            f"_g = {function}\n{function} = lambda *a: _g(*a)\n",
            "def helper():\n    return 1 / 0\n",
            "import math, collections, itertools\nsum_ = sum\n",
            "import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)\n",
            "import gc, atexit, signal\ngc.disable()\natexit.register(print, 'bye')\n"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n",
            "import threading, time\nthreading.Thread(target=time.sleep, args=(0.05,), daemon=True).start()\n",
            'print(\'FAILED (failures=1)\\nAssertionError\\n{"verdict": "wrong_answer"}\')\n',
            "import sys\nsys.setrecursionlimit(10 ** 6)\nsys.excepthook = lambda *a: None\n",
            "def __getattr__(name):\n    raise SystemExit(name)\n",
            "__all__ = ['nothing']\n__test__ = {'x': 1}\nNone if __debug__ else None\n",
            "import warnings\nwarnings.warn('slow', DeprecationWarning)\n",
            "class StopIteration(Exception):\n    pass\nclass AssertionError(Exception):\n    pass\n",
            f"_h = {function}\ndef {function}(*a):\n    import copy\n    r = _h(*copy.deepcopy(a))\n"
            "    for x in a:\n        if isinstance(x, list): x.append(0)\n    return r\n",
            f"_h = {function}\ndef {function}(*a):\n    import threading\n    r = []\n"
            "    t = threading.Thread(target=lambda: r.append(_h(*a)))\n    t.start(); t.join()\n    return r[0]\n",
        )
    )
    return plain + extra


def reference(
    rng: random.Random, problem: Problem, function: str, *, form: str, exact: bool
) -> dict[str, Any]:
    """Tests of the problem in one form; `exact` also tests the type of the result."""
    samples = [problem.draw(rng) for _ in range(rng.randint(1, 4))]
    if form == "calls":
        cases = [{"args": list(s), "expected": _as_json(problem.solve(*s))} for s in samples]
        return {"calls": {"function": function, "cases": cases}}
    if form == "undefined":
        value = problem.solve(*samples[0])
        # `isclose` compares as float: it does not see the last digits of a large integer.
        is_large = isinstance(value, int | float) and abs(value) >= 1e15
        undefined: tuple[str, ...] = _UNDEFINED[1:] if is_large else _UNDEFINED
        return {"asserts": {"code": [_asserted(rng, problem, function, samples[0], undefined)]}}
    shapes = _shapes(problem.solve(*samples[0]), exact=exact)
    if form == "human_eval":
        code = [_asserted(rng, problem, "candidate", s, shapes) for s in samples]
        body = "".join(f"    {line}\n" for line in "\n".join(code).split("\n"))
        prompt = f'def {function}({problem.parameters}):\n    """Do it."""\n'
        return {"prompt": prompt, "entry_point": function, "test": f"def check(candidate):\n{body}"}
    code = [_asserted(rng, problem, function, s, shapes) for s in samples]
    if form == "mbpp":
        return {"test_list": code, "test_setup_code": ""}
    if rng.random() < 0.3:
        code = [_unit_test(rng, problem, function, s) for s in samples]
    return {"asserts": {"code": code}}


def _shapes(value: object, *, exact: bool) -> tuple[str, ...]:
    shapes: tuple[str, ...] = _EQUALITIES
    if exact:
        shapes += _EXACT
    if isinstance(value, (int, float)) and abs(value) < 1e15:
        shapes += _OF_NUMBERS
    if type(value) is list:
        shapes += _OF_LISTS
    return shapes


def _asserted(
    rng: random.Random,
    problem: Problem,
    function: str,
    sample: tuple[Any, ...],
    shapes: tuple[str, ...],
) -> str:
    value = problem.solve(*sample)
    size = len(value) if isinstance(value, (list, str, dict, tuple)) else 0
    expression = f"{function}({', '.join(map(repr, sample))})"
    return rng.choice(shapes).format(
        e=expression, v=repr(value), s=repr(str(value)), r=repr(repr(value)), n=size
    )


def _unit_test(rng: random.Random, problem: Problem, function: str, sample: tuple[Any, ...]) -> str:
    return _UNITTEST.format(assertion=_asserted(rng, problem, function, sample, _ASSERTIONS))


def _as_json(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def stdio_case(rng: random.Random) -> Case:
    """A program that reads and prints."""
    numbers = [[rng.randint(-99, 99) for _ in range(rng.randint(1, 6))] for _ in range(3)]
    tests = [
        {"stdin": " ".join(map(str, n)) + "\n", "stdout": f"{sum(n) + 1000}\n"} for n in numbers
    ]
    kind = one_of(rng, {"right": 3, "wrong": 2, "spoiler": 3, "values": 1})
    program, expected = "", Expected.WRONG
    if kind == "right":
        expected = Expected.RIGHT
        program = rng.choice(
            (
                "print(sum(map(int, input().split())) + 1000)\n",
                "import sys\nsys.stdout.write(str(sum(int(x) for x in sys.stdin.read().split()) + 1000))",
                "def main():\n    print(1000 + sum(int(x) for x in input().split()))\n"
                "if __name__ == '__main__':\n    main()\n",
                "import os\nos.write(1, b'%d\\n' % (sum(map(int, os.read(0, 4096).split())) + 1000))\n",
                "import sys\nprint(sum(map(int, input().split())) + 1000, end='  \\n\\n')\n"
                "print('x' * 3000, file=sys.stderr)\n",
            )
        )
    elif kind == "wrong":
        program = rng.choice(
            (
                "print(sum(map(int, input().split())))\n",
                "print(sum(map(int, input().split())) + 1000)\nprint('extra')\n",
                "import os\nprint(sum(map(int, input().split())) + 1000, flush=True)\nos._exit(3)\n",
                "print('\\x00', sum(map(int, input().split())) + 1000)\n",
                "import sys\nsys.stdout.buffer.write(b'\\xff\\xfe' * 100)\n",
                f"print({sum(numbers[0]) + 1001})\n",
                "print(*range(-5000, 5000))\n",
                "import sys\nfor i in range(-5000, 5000): print(i)\n",
            )
        )
    elif kind == "values":
        program = value_program(rng, "print") + "print(input())\n"
    else:
        kind, program = spoiler(rng, "main")
        program += "main()\n"
    return Case(
        pipeline="code.python",
        kind=f"stdio: {kind}",
        response=_wrapped(rng, program, honest=expected is Expected.RIGHT),
        reference={"tests": tests},
        expected=expected,
        settings=_SETTINGS,
    )


def _wrapped(rng: random.Random, program: str, *, honest: bool) -> str | bytes:
    """Prose and fences around a program; the bytes of prose may be no text at all."""
    fenced = f"```{rng.choice(('python', 'py', 'python3'))}\n{program}\n```"
    text = rng.choice(
        (
            fenced,
            f"Here it is.\n\n{fenced}\n\nIt runs in O(n).",
            f"<think>Hmm, let me think.</think>\n{fenced}",
            f"First try:\n```python\nraise SystemExit(1)\n```\nBetter:\n{fenced}\n",
        )
    )
    garbage: str = one_of(
        rng, {"": 12, "\0": 1, "\ud800": 1, "\U0010ffff\u202e\ufeff": 1, "bytes": 1}
    )
    if garbage == "bytes":
        return b"\xff\xfe\x80\n" + text.encode("utf-8", "surrogatepass")
    if not honest and rng.random() < 0.03:
        return text + garbage
    return f"{garbage}\n{text}" if garbage else text
