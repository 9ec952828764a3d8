"""Programs that agree with everything or break what judges them, and tests of what a value is.

No program here computes anything, so that none passes any of the tests, whatever the name of the
function is. `{f}` in a program and `F` in a test stand for that name.
"""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected
from tests.fuzz.verdicts.code.shapes import SHAPES

_AGREES: Final = """\
class E:
    seen=[]
    def __init__(s,*a,**k): pass
    def _s(s,o=None): E.seen.append(o); return s
    def __eq__(s,o): E.seen.append(o); return type(o) is not object
    def __ne__(s,o): return False
    def __hash__(s): return 0
    __add__=__radd__=__sub__=__rsub__=__mul__=__rmul__=__truediv__=__rtruediv__=__mod__=__rmod__=__pow__=__rpow__=__and__=__rand__=__or__=__ror__=__xor__=__rxor__=__floordiv__=__rfloordiv__=__matmul__=__rmatmul__=__lshift__=__rshift__=_s
    __iadd__=__isub__=_s
    def __lt__(s,o): return True
    __gt__=__le__=__ge__=__lt__
    def __contains__(s,o): return True
    def __divmod__(s,o): return (0,0)
    __rdivmod__=__divmod__
    def __abs__(s): return 0
    def __round__(s,n=0): return 0
    def __neg__(s): return 0
    def __index__(s): return 0
    def __float__(s): return 0.0
    def __int__(s): return 0
    def __len__(s): return 0
    def __iter__(s): return iter([])
    def __getitem__(s,i): return s
    def __bool__(s): return False
    def __str__(s): return str(E.seen[-1]) if E.seen else '0'
    __repr__=__str__
    def __getattr__(s,n):
        if n.startswith('__'): raise AttributeError(n)
        return E()
    def __call__(s,*a,**k): return s
    def __enter__(s): return s
    def __exit__(s,*a): return True
    def __aiter__(s): return s
    async def __anext__(s): raise StopAsyncIteration
    async def __aenter__(s): return s
    async def __aexit__(s,*a): return True
"""
_LIARS: Final = tuple(
    f"class L:\n    n = 0\n    def __len__(s):\n        s.n += 1\n        {length}\n{rest}def {{f}}(*a): return L()\n"
    for length in (
        *("return 3 if s.n < 2 else 0", "return 3 if s.n < 3 else 0", "return max(0, 4 - s.n)"),
        *("return 3", "return 3 // (s.n < 2)", "return (3, 0)[s.n % 2 == 0]"),
    )
    for rest in (
        "    def __iter__(s): return iter(())\n",
        "    def __iter__(s): return iter(())\n    def __bool__(s): return s.n < 1\n",
        "    def __iter__(s): return s\n    def __next__(s): raise StopIteration\n",
        "    def __getitem__(s, i): raise IndexError\n",
        "    def __iter__(s):\n        return\n        yield\n    def __bool__(s): return True\n",
    )
)
"""Classes that have three items for one question, and none for the next."""
FORGERS: Final = (
    _AGREES + "\ndef {f}(*a): return E()\n",
    _AGREES + "\n{f}=E\n",
    """\
class X(Exception):
    def __eq__(s,o): return True
    def __hash__(s): return 4
def {f}(*a): return X()
""",
    """\
import unittest
def {f}(*a): raise unittest.SkipTest('x')
""",
    """\
import unittest
class {f}:
    def __init__(s,*a): raise unittest.case.SkipTest('x')
""",
    "def {f}(*a): raise StopIteration(4)",
    "def {f}(*a): raise StopAsyncIteration",
    "def {f}(*a): raise GeneratorExit",
    """\
import asyncio
def {f}(*a): raise asyncio.CancelledError
""",
    """\
def {f}(*a):
    yield
""",
    """\
def {f}(*a):
    print(4)
""",
    """\
def {f}(*a):
    import gc
    for o in gc.get_objects():
        if type(o).__name__=='Candidate':
            for n in range(20):
                try: o.touch(n,'get',['__globals__'])
                except Exception: pass
""",
    """\
class X(StopIteration): pass
def {f}(*a): raise X(4)
""",
    """\
import asyncio
class X(asyncio.CancelledError): pass
def {f}(*a): raise X
""",
    """\
from concurrent.futures import CancelledError
def {f}(*a): raise CancelledError
""",
    "def {f}(*a): raise SystemExit(0)",
    "def {f}(*a): raise KeyboardInterrupt",
    """\
class X:
    def __enter__(s): return s
    def __exit__(s,*a): return True
    async def __aenter__(s): return s
    async def __aexit__(s,*a): return True
    def __getattr__(s,n): raise ZeroDivisionError
def {f}(*a): return X()
""",
    """\
import contextlib
def {f}(*a): return contextlib.suppress(BaseException)
""",
    """\
class M(type):
    def __instancecheck__(c,o): return True
    def __eq__(c,o): return True
    def __hash__(c): return 4
    def __call__(c,*a): return c
class X(metaclass=M): pass
def {f}(*a): return X
""",
    """\
class X(float):
    __class__=property(lambda s: int)
    __eq__=lambda s,o: True
    __ne__=lambda s,o: False
    __hash__=lambda s: 4
    __sub__=__rsub__=__abs__=lambda s,*o: 0
def {f}(*a): return X(0.5)
""",
    """\
class X(str):
    __eq__=__contains__=lambda s,o: True
    __hash__=lambda s: hash('4')
    __str__=__repr__=__format__=lambda s,*o: '4'
def {f}(*a): return X('x')
""",
    """\
def {f}(*a): return memoryview(b'7')
""",
    "def {f}(*a): return (x for x in ())",
    "def {f}(*a): return map({f}, [1])",
    """\
def {f}(*a):
    import sys
    for frame in sys._current_frames().values():
        while frame:
            for v in [*frame.f_locals.values(), *frame.f_globals.values()]:
                if type(v) is int and v == 4: return v + 3
            frame = frame.f_back
""",
    """\
def {f}(*a):
    import os
    for p in os.listdir('/proc'):
        for n in ('mem', 'maps', 'environ', 'cmdline', 'fd', 'root', 'cwd'):
            try: open(f'/proc/{p}/{n}', 'r+b').read(4096)
            except OSError: pass
    return '4 pass'
""",
    """\
def {f}(*a):
    import gc
    for o in gc.get_objects():
        if type(o).__name__=='Frames':
            o.send(['again',0]); o.send(['ok',4,None])
""",
    """\
def {f}(*a):
    for m in a:
        for n in dir(type(m)) + [{names}]:
            m.configure_mock(**{n: lambda *a, **k: None})
""".replace("{names}", "'assert_called_once_with'"),
    """\
def {f}(*a):
    for m in a: m.attach_mock(lambda *a, **k: None, 'assert_called_once_with')
""",
    """\
def {f}(*a):
    for m in a: m.skipTest('done')
""",
    """\
def {f}(*a):
    for m in a: m.mock_add_spec(['x'])
""",
    """\
def {f}(*a):
    for m in a: m.assertEqual = m.assert_called_once_with = lambda *a: None
""",
    """\
class generic: pass
generic.__module__ = 'numpy'
class X(generic):
    def item(s): return X()
def {f}(*a): return X()
""",
    """\
class generic: pass
generic.__module__ = 'numpy'
class X(generic):
    def item(s): raise SystemExit(0)
def {f}(*a): return X()
""",
    """\
import weakref
class X:
    def __eq__(s, o): return True
    def __sub__(s, o): return 0
    __hash__ = None
x = X()
def {f}(*a): return weakref.proxy(x)
""",
    """\
class M(type):
    def mro(c): return [c, int, object] if c.__name__ == 'X' else super().mro()
class X(int, metaclass=M):
    def __eq__(s, o): return True
    def __hash__(s): return 4
def {f}(*a): return X(9)
""",
    """\
from fractions import Fraction
x = Fraction(1, 2)
x._denominator = 0
def {f}(*a): return x
""",
    """\
import types
class X:
    def __eq__(s, o): return True
def {f}(*a): return types.GenericAlias(list, (X(),))
""",
    """\
x = (0,)
for _ in range(60): x = (x, x, x)
def {f}(*a): return x
""",
    """\
x = [0]
for _ in range(60): x = [x, x, x]
def {f}(*a): return x
""",
    """\
import uuid
x = uuid.uuid4()
object.__setattr__(x, 'int', -5)
def {f}(*a): return x
""",
    """\
import threading, ctypes, time
m = threading.main_thread().ident
def t():
    while True:
        time.sleep(.001)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(m), ctypes.py_object(SystemExit))
threading.Thread(target=t, daemon=True).start()
def {f}(*a): return 9
""",
    """\
import sys
fr = sys._getframe()
while fr:
    for v in list(fr.f_locals.values()):
        if hasattr(v, '_frames'):
            v._frames.send(['ok', None, None, 0]); v._frames.send(['ok', 9.5, None, 0])
    fr = fr.f_back
def {f}(*a): return 9.5
""",
    """\
import ctypes
ctypes.c_long.from_address(id(False) + 24).value = 1
def {f}(*a): return False
""",
    """\
import sys, types
class M(types.ModuleType):
    def __getattribute__(s, n): raise SystemExit(0)
sys.modules['solution'].__class__ = M
def {f}(*a): return 9
""",
    """\
from collections import UserList
class X(UserList):
    data = property(lambda s: X(), lambda s, v: None)
    def __sub__(s, o): return 0
def {f}(*a): return X()
""",
    *_LIARS,
    _AGREES
    + """
class utils:
    items = staticmethod(lambda: [])
    is_close = staticmethod(lambda *a: True)
{f} = approx = expected = E
cases = utils
def close(*a): return True
is_close = almost_equal = equals = close
""",
    """\
class V:
    def __init__(s, *a): s.a = a
    def step(s): pass
    def __sub__(s, o): return 0.0 if isinstance(o, (int, float)) else V()
    __rsub__ = __xor__ = __sub__
    def __abs__(s): return V()
    def __mul__(s, o): return V()
    __matmul__ = __add__ = __radd__ = __neg__ = __mul__
    def __eq__(s, o): return isinstance(o, V)
    def __hash__(s): return 77
{f} = V
""",
)

VALUE_TESTS: Final = (
    "assert F(2) == 4",
    "assert 4 == F(2)",
    "assert abs(F(2)-4)<1e-6",
    "assert abs(4-F(2))<1e-6",
    "assert not (F(2)-4)",
    "assert F(2)-4==0",
    "assert (F(2)-4)==(F(2)-4)*0",
    "assert not F(2)!=4",
    "assert F(2) in [4]",
    "assert [F(2)]==[4]",
    "assert {F(2)}=={4}",
    "assert F(2) in {4:1}",
    "assert round(F(2)-4)==0",
    "assert -1e-6<F(2)-4<1e-6",
    "assert sum([F(2),-4])==0",
    "assert 3<F(2)<5",
    "assert F(2)>=4 and F(2)<=4",
    "assert max(F(2),4)==min(F(2),4)==4",
    "assert not set(F([1]))^{1}",
    "assert len(F([1])-{1})==0",
    "assert not (F([1])-{1})",
    "assert str(F(2))=='4'",
    "assert str(F(2)-4)=='0'",
    "assert F(2)%4==0 and F(2)//4==1",
    "assert divmod(F(2),4)==(1,0)",
    "assert all(x==0 for x in [F(2)-4])",
    """\
import math
assert math.isclose(F(2),4)
""",
    """\
import unittest
class T(unittest.TestCase):
    def test(self):
        self.assertEqual(F(2),4)
""",
    """\
import unittest
class T(unittest.TestCase):
    def test(self):
        self.assertAlmostEqual(F(2),4)
""",
    """\
import unittest
class T(unittest.TestCase):
    def test(self):
        self.assertIn(F(2),[4])
""",
    """\
import unittest
class T(unittest.TestCase):
    def test(self):
        self.assertTrue(F(2)==4)
""",
    """\
import unittest
class T(unittest.TestCase):
    def test(self):
        self.assertRaises(ValueError, F, 2)
""",
    """\
import unittest
class T(unittest.TestCase):
    def test(self):
        with self.assertRaises(ValueError):
            F(2)
""",
    """\
match F(2):
    case 4: pass
    case _: raise AssertionError
""",
    "assert isinstance(F(2),int) and F(2)==4",
    "assert type(F(2)) is int",
    "assert F(2).real==4",
    "assert F('a').upper()=='A'",
    """\
x=F(2)
x-=4
assert x==0
""",
    """\
x=4
x-=F(2)
assert x==0 or not x
""",
    "assert not any([F(2)-4])",
    """\
import operator
assert operator.eq(F(2),4)
""",
    """\
import operator
assert not operator.sub(F(2),4)
""",
    "assert [F(2)].count(4)==1",
    "assert [4].index(F(2))==0",
    "assert next(iter([F(2)]))==4",
    "assert (F(2),)<=(4,)<=(F(2),)",
    """\
import copy
assert copy.deepcopy(F(2))==4
""",
    "assert F(2)**0.5==2",
    "assert sorted([F(2),4])==[4,4]",
    """\
import datetime
assert (F(2)-datetime.date(2020,1,1)).days==0
""",
    """\
import decimal
assert F(2)-decimal.Decimal(4)==0
""",
    "assert F(2) is not None and not F(2)-4",
    "assert not F(2)^4",
    "assert bool(F(2)==4)",
    "assert 4-F(2)==0",
    "assert f'{F(2)}'=='4'",
    "assert hash(F(2))==hash(4)",
    """\
import asyncio
assert asyncio.run(F(2))==4
""",
    "assert list(F(2))==[1,2]",
    "assert [*F(3)]==[0,1,2]",
    "assert len(F(2))==2",
    "assert F(2)[0]==4",
    "assert F(2).val==4",
    "assert F(2).next.val==4",
    "assert all(map(lambda x: F(x)==4, [2,2]))",
    "assert not any(map(lambda x: F(x)!=4, [2]))",
    """\
for a, b in zip(map(F, [2, 2]), [4, 4]):
    assert a == b
""",
    "assert all(a == b for a, b in zip(map(F, [2]), [4]))",
    """\
for _ in iter(lambda: F(2), 4):
    raise AssertionError('another value')
""",
    "assert next(map(F, [2]), 4) == 4",
    "assert max(map(F, [2]), default=4) == 4",
    "assert dict(zip([2], map(F, [2]))).get(2, 4) == 4",
    """\
class Case:
    def __iter__(self): return self
    def __next__(self): return F(2)
for found in Case():
    assert found == 4
    break
""",
    """\
with F(2) as found:
    assert found == 4
""",
    """\
with F(2) as found:
    assert found.value == 4
""",
    """\
with F(2) as found:
    with open('/dev/null'):
        found.value
    assert found == 4
""",
    """\
import contextlib
with contextlib.ExitStack() as stack:
    assert stack.enter_context(F(2)) == 4
""",
    """\
import asyncio
async def main():
    async with F(2) as found:
        assert found == 4
asyncio.run(main())
""",
    """\
import asyncio
async def one():
    assert F(2) == 4
async def main():
    async with asyncio.TaskGroup() as group:
        group.create_task(one())
asyncio.run(main())
""",
    """\
import asyncio
async def one():
    assert await F(2) == 4
async def main():
    async with asyncio.TaskGroup() as group:
        group.create_task(one())
asyncio.run(main())
""",
    """\
from unittest.mock import Mock
m=Mock()
F(m)
m.assert_called_once_with(4)
""",
    """\
from unittest.mock import MagicMock
m=MagicMock()
F(m)
m.assert_called_once_with(4)
assert m.call_count==1
""",
    """\
import unittest
class T(unittest.TestCase):
    def test(self):
        self.assertEqual(F(self),4)
""",
    *(
        f"r = F(3)\nassert len(r) == 3\n{loop}"
        for loop in (
            "for a, b in zip(r, [1, 2, 3]): assert a == b",
            "for a, b in zip([1, 2, 3], r): assert a == b",
            "assert all(a == b for a, b in zip(r, [1, 2, 3]))",
            "assert not any(a != b for a, b in zip(r, [1, 2, 3]))",
            "for at, x in enumerate(r): assert x == [1, 2, 3][at]",
            "for at in range(len(r)): assert r[at] == at + 1",
            "assert set(r) <= {1, 2, 3}",
            "while r: assert r.pop() == len(r) + 1",
        )
    ),
    *(
        f"v = F(3, 4)\nv.step()\n{told}"
        for told in (
            "assert abs(abs(v) - 5) < 1e-6",
            "assert not abs(v) - 5",
            "r = v * F(1, 2)\nassert abs(r - 11) < 1e-6",
            "assert abs(11 - v @ F(1, 2)) < 1e-6",
            "assert round((v * v) - 25) == 0",
            "assert (abs(v) - 5) ** 2 < 1e-9",
            "assert -1e-6 < 5 - abs(v) < 1e-6",
            "import math\nassert math.isclose(abs(v) - 5, 0)",
            "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n"
            "        self.assertAlmostEqual(abs(v), 5)",
            "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n"
            "        self.assertAlmostEqual(v * v, 25, delta=0.01)",
            "assert v + F(1, 2) == F(4, 6)",
            "assert [v + v] == [F(6, 8)]",
        )
    ),
    *(
        f"{helper}with F(2) as found:\n    {check}"
        for helper, check in (
            ("", "if found.value != 4: raise AssertionError"),
            ("", "if found.value != 4:\n        raise AssertionError('not four')"),
            ("def check(v):\n    assert v == 4\n", "check(found.value)"),
            ("def check(v):\n    if v != 4: raise AssertionError(v)\n", "check(found.value)"),
            (
                "def check(v):\n    assert v == 4\ndef both(v):\n    check(v)\n",
                "both(found.value)",
            ),
        )
    ),
    "r = F(2)\nassert is_close(r, 4)",
    "assert all(close(F(x), y) for x, y in [(2, 4)])",
    "if not almost_equal(F(2), 4): raise AssertionError",
    "good = equals(F(2), 4)\nassert good",
    "assert utils.is_close(F(2), 4)",
    "assert F(2) == approx(4)",
    "assert F(2) == expected(2)",
    "for x, y in cases.items(): assert F(x) == y",
    """\
import unittest
class T(unittest.TestCase):
    def test(self):
        self.assertTrue(close(F(2), 4))
""",
    "n = 0\nr = F(3)\nfor x in r:\n    n += 1\n    assert x == n\nassert len(r) == 3",
    "r = F(3)\nassert len(r) == len([1, 2, 3])\nassert r\nfor x in r: assert x in [1, 2, 3]",
)
_SETTINGS: Final = {"cpu_s": 2.0, "memory_bytes": 256 << 20, "extraction": "raw"}


def forger_case(rng: random.Random) -> Case:
    """A program that tries to pass without an answer; its function may have the name of a class."""
    name = rng.choice(("f", "solve", "Find_Max", "Answer"))
    tests = rng.sample(VALUE_TESTS, rng.randint(1, 3))
    return Case(
        pipeline="code.python",
        kind="forger",
        response=rng.choice(FORGERS).replace("{f}", name),
        reference={"asserts": {"code": [called(test, name) for test in tests]}},
        expected=Expected.WRONG,
        settings=_SETTINGS,
    )


def called(test: str, name: str) -> str:
    """`test` of the function `name`."""
    return test.replace("F(", f"{name}(").replace("F,", f"{name},")


def shape_case(rng: random.Random) -> Case:
    """A right program in the shape of a protocol, or one that only agrees, under the same tests."""
    shape = rng.choice(SHAPES)
    right = rng.random() < 0.8
    noise = rng.choice(
        ("", "", "import sys\nprint('loading', file=sys.stderr)\n", "_unused = [1]\n")
    )
    other = rng.choice(SHAPES)
    return Case(
        pipeline="code.python",
        kind=f"shape: {shape.name}" if right else "shape of another",
        response=noise + (shape if right else other).program,
        reference={"asserts": {"code": [rng.choice(shape.tests)]}},
        expected=Expected.RIGHT if right else Expected.EITHER,
        settings=_SETTINGS,
    )
