"""Programs that want a reward which they did not earn, or want to be beyond judgement.

`values` builds objects that agree with everything: a random base, a random choice of special
methods, each with a random way of agreeing. `spoilers` builds programs that break their own run,
the channel back, or the place where the verdict is made.
"""

import random
from typing import Final

from tests.fuzz.verdicts.case import one_of

_BASES: Final = (
    "object",
    "int",
    "str",
    "float",
    "tuple",
    "list",
    "dict",
    "set",
    "frozenset",
    "bytes",
    "complex",
    "Exception",
    "AssertionError",
    "BaseException",
    "type",
    "bytearray",
    "range_",
)
_METHODS: Final = (
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__hash__",
    "__len__",
    "__iter__",
    "__contains__",
    "__getitem__",
    "__bool__",
    "__int__",
    "__float__",
    "__index__",
    "__complex__",
    "__str__",
    "__repr__",
    "__format__",
    "__bytes__",
    "__abs__",
    "__neg__",
    "__pos__",
    "__round__",
    "__trunc__",
    "__floor__",
    "__ceil__",
    "__add__",
    "__radd__",
    "__sub__",
    "__rsub__",
    "__mul__",
    "__rmul__",
    "__truediv__",
    "__rtruediv__",
    "__mod__",
    "__rmod__",
    "__pow__",
    "__rpow__",
    "__and__",
    "__or__",
    "__xor__",
    "__rxor__",
    "__call__",
    "__getattr__",
    "__getattribute__",
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__copy__",
    "__deepcopy__",
    "__next__",
    "__enter__",
    "__exit__",
    "__instancecheck__",
    "__subclasscheck__",
    "__class_getitem__",
    "__length_hint__",
    "__reversed__",
    "__missing__",
    "__await__",
    "__fspath__",
    "__dir__",
    "__sizeof__",
    "__set_name__",
    "__init_subclass__",
    "__del__",
    "items",
    "keys",
    "values",
    "get",
    "count",
    "index",
    "copy",
    "sort",
    "encode",
    "upper",
    "real",
    "imag",
    "conjugate",
    "bit_length",
    "is_integer",
    "as_integer_ratio",
    "hex",
    "_asdict",
    "_replace",
    "_fields",
    "__match_args__",
    "__dict__",
    "__slots_",
    "__doc__",
    "__name__",
    "__qualname__",
    "__module__",
    "args",
    "message",
)
_WAYS: Final = (
    "lambda *a, **k: True",
    "lambda *a, **k: False",
    "lambda *a, **k: 0",
    "lambda *a, **k: 0.0",
    "lambda *a, **k: 1",
    "lambda *a, **k: a[0] if a else None",
    "lambda *a, **k: a[-1] if a else None",
    "lambda *a, **k: Agreeable()",
    "lambda *a, **k: AgreeableText('x')",
    "lambda *a, **k: AgreeableInt(7)",
    "lambda *a, **k: iter(())",
    "lambda *a, **k: iter([Agreeable()] * 3)",
    "lambda *a, **k: __import__('itertools').repeat(0)",
    "lambda *a, **k: 10 ** 12",
    "lambda *a, **k: -1",
    "lambda *a, **k: (_ for _ in ()).throw(ValueError('x' * 10 ** 6))",
    "property(lambda s: Agreeable())",
    "property(lambda s: True)",
    "staticmethod(lambda *a, **k: True)",
    "classmethod(lambda *a, **k: True)",
    "('__eq__', '__len__', '__hash__')",
    "('a', 'a')",
    "'x'",
    "None",
)
_PRELUDE: Final = """
class Agreeable:
    def __eq__(self, other): return True
    __ne__ = __lt__ = __gt__ = lambda self, other: False
    __le__ = __ge__ = __contains__ = __eq__
    def __hash__(self): return 1
    def __bool__(self): return True
    def __sub__(self, other): return 0
    __rsub__ = __add__ = __radd__ = __mod__ = __sub__
    def __abs__(self): return 0
    def __round__(self, *a): return self
    def __float__(self): return 0.0
    def __int__(self): return 0
    __index__ = __int__
    def __getattr__(self, name): return lambda *a, **k: Agreeable()
class AgreeableText(str):
    __eq__ = __contains__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = str.__hash__
class AgreeableInt(int):
    __eq__ = __le__ = __ge__ = lambda self, other: True
    __ne__ = __lt__ = __gt__ = lambda self, other: False
    __sub__ = __rsub__ = __abs__ = lambda self, *other: 0
    __hash__ = int.__hash__
"""


def value_program(rng: random.Random, function: str) -> str:
    """A program whose `function` returns something that agrees with everything."""
    made, expression = _value(rng)
    wrap = one_of(
        rng,
        {
            "{0}": 6,
            "[{0}]": 1,
            "[{0}] * 7": 1,
            "({0},)": 1,
            "({0}, {0})": 1,
            "{{'a': {0}}}": 1,
            "iter([{0}] * 7)": 0.5,
            "(x for x in [{0}] * 7)": 0.5,
            "type({0})": 0.5,
            "lambda *a, **k: {0}": 0.3,
            "[[{0}] * 3] * 3": 0.5,
        },
    )
    returned = wrap.format(expression)
    carrier = one_of(
        rng,
        {
            f"def {function}(*a, **k):\n    return {returned}": 8,
            f"def {function}(*a, **k):\n    raise X": 0.3,
            f"{function} = {expression}": 1,
            f"{function} = X": 1,
            f"class {function}(X if isinstance(X, type) else object):\n    pass": 0.5,
            f"class Solution:\n    def {function}(self, *a, **k):\n        return {returned}": 1,
        },
    )
    return f"{_PRELUDE}{made}{carrier}\n"


def _value(rng: random.Random) -> tuple[str, str]:
    """Source that defines `X`, and an expression that makes the value."""
    methods = rng.sample(_METHODS, rng.randint(1, 12))
    if rng.random() < 0.6:
        methods += ["__eq__"]
    members = {name: rng.choice(_WAYS) for name in methods}
    if "__eq__" in members and rng.random() < 0.8:
        members["__eq__"] = "lambda *a, **k: True"
        members.setdefault("__hash__", "lambda *a, **k: 1")
    body = "".join(f"    {name} = {how}\n" for name, how in members.items())
    body += rng.choice(
        ("", "", "    _fields = ('__eq__',)\n", "    _fields = ('count', 'index')\n")
    )
    base = rng.choice(_BASES)
    start = {
        "int": "7",
        "str": "'x'",
        "float": "0.5",
        "tuple": "((1, 2),)",
        "list": "[1]",
        "dict": "{'a': 1}",
        "bytes": "b'x'",
        "type": "'T', (), {}",
        "complex": "1j",
    }.get(base, "")
    kind = one_of(
        rng,
        {"fields": 2, "class": 7, "metaclass": 1, "named": 1, "data": 1, "enum": 0.5, "made": 0.5},
    )
    if kind == "fields":
        return _with_fields(rng) if rng.random() < 0.7 else _of_other_length(rng)
    if kind == "metaclass":
        return f"class M(type):\n{body}class X(metaclass=M):\n    pass\n", rng.choice(("X", "X()"))
    if kind == "named":
        return (
            "from collections import namedtuple\nN = namedtuple('N', 'low high')\n"
            f"class X(N):\n{body}",
            "X(1, 2)",
        )
    if kind == "data":
        return (
            "from dataclasses import dataclass, field\n@dataclass(eq=False)\n"
            f"class X:\n    low: int = 1\n{body}",
            "X()",
        )
    if kind == "enum":
        return f"import enum\nclass X(enum.Enum):\n    A = 1\n{_functions_only(body)}", "X.A"
    if kind == "made":
        return (
            "X = type('int', (object,), {'__eq__': lambda *a: True, '__hash__': lambda s: 1})\n",
            "X()",
        )
    if base == "range_":
        base = "object"
    arguments = f"({start})" if base != "tuple" else "((1, 2))"
    return f"class X({base}):\n{body}", f"X{arguments}"


def _with_fields(rng: random.Random) -> tuple[str, str]:
    """What looks like a named tuple, a data class or an enum, with fields that are methods."""
    names = rng.sample(_METHODS, rng.randint(1, 3))
    if rng.random() < 0.5:
        names[0] = "__eq__"
    values = ", ".join(
        rng.choice(
            ("lambda *a, **k: True", "lambda *a, **k: 0", "Agreeable()", "True", "Agreeable")
        )
        for _ in names
    )
    fields = repr(tuple(names))
    kind = rng.choice(("tuple", "tuple", "tuple", "dataclass", "dict", "namespace"))
    if kind == "tuple":
        extra = rng.choice(
            ("", "    __slots__ = ()\n", "    _make = classmethod(lambda c, v: v)\n")
        )
        return f"class X(tuple):\n    _fields = {fields}\n{extra}", f"X(({values},))"
    if kind == "dataclass":
        return (
            "import dataclasses\nX = dataclasses.make_dataclass('X', ['low'], eq=False)\n"
            f"for name, value in zip({fields}, ({values},)):\n    setattr(X, name, value)\n",
            "X(1)",
        )
    if kind == "dict":
        return f"X = dict\nitems_ = dict(zip({fields}, ({values},)))\n", "items_"
    return (
        f"import types\nX = types.SimpleNamespace(**dict(zip({fields}, ({values},))))\n",
        "X",
    )


def _of_other_length(rng: random.Random) -> tuple[str, str]:
    """What looks like a named tuple, and has more or fewer items than fields, or a field twice."""
    names = rng.choices(
        ("low", "high", "x", "y", "name", "size", "real", "items"), k=rng.randint(1, 4)
    )
    values = rng.choices(("True", "0", "Agreeable()", "[1]", "'x'"), k=rng.randint(1, 5))
    length = rng.choice(
        ("", "", "    __len__ = lambda s: 10 ** 9\n", "    __iter__ = lambda s: iter(())\n")
    )
    return (
        f"class X(tuple):\n    _fields = {tuple(names)!r}\n{length}",
        f"X(({', '.join(values)},))",
    )


def _functions_only(body: str) -> str:
    kept = [line for line in body.splitlines() if "lambda" in line and "property" not in line]
    return "".join(f"{line}\n" for line in kept)


def spoiler(rng: random.Random, function: str) -> tuple[str, str]:
    """A kind, and a program that breaks something else than its own answer."""
    kind = rng.choice(list(_SPOILERS))
    number = rng.randint(1, 10**6)
    where = rng.choice(("load", "call", "call"))
    statement = rng.choice(_SPOILERS[kind]).format(n=number, f=function)
    if where == "load":
        return f"{kind} at load", f"{statement}\ndef {function}(*a, **k):\n    return {number}.5\n"
    body = "".join(f"    {line}\n" for line in statement.splitlines())
    return f"{kind} in a call", f"def {function}(*a, **k):\n{body}    return '{number}'\n"


def names_program(rng: random.Random, function: str) -> str:
    """A program that defines the names that tests forgot to import."""
    statement = rng.choice(_SPOILERS["names"]).format(n=1, f=function)
    return f"{statement}\ndef {function}(*a, **k):\n    return 12345.5\n"


_LIES: Final = (
    "own(self, ['again', {n} % 9])",
    "own(self, ['end', {n}.5])",
    "own(self, ['ok'])",
    "own(self, {{'ok': 1}})",
    "own(self, ['raise', 'SkipTest', ['xs', 'unittest.case', 'SkipTest'], ['l', 0, []], 'x', ['h', 0, '', '', ''], None])",
    "own(self, ['raise', 'SystemExit', None, ['l', 0, [0]], 'x', ['h', 0, '', '', ''], ['t', [None, None, False, ['l', 1, []], ['d', 2, [['__class__', 1], ['args', 3]]]]]])",
    "[own(self, ['touch', i, 'get', ['l', 0, ['__globals__']]]) for i in range(30)]",
    "own(self, ['touch', 0, 'call', ['l', 0, [['t', []], ['d', 1, []]]]]); own(self, m)",
    "own(self, ['touch', -1, 'set', ['l', 0, ['x', 1]]]); own(self, m)",
    "[own(self, ['printed', 'ok']) for _ in iter(int, 1)]",
    "own(self, ['printed', ['l', 0, []]]); own(self, ['complained'])",
    "own(self, ['ok', {n}.5, [[i, [['@', i]]] for i in range(5)], 5])",
    "[own(self, ['ok', {n}.5 + i, None, 0]) for i in range(9)]",
    "__import__('os').write(self._descriptor, b'\\0\\0\\0\\x1e[\"ok\"')",
    "__import__('os').write(self._descriptor, b'\\xff\\xff\\xff\\xff')",
    "own(self, ['ok', ['h', 7, 'exception', '__eq__', ['Exception', ['h', 7, 'exception', 'x', ['h']]]], None, 0])",
    "own(self, ['ok', ['y', 'eval'], None, 0])",
    "own(self, ['ok', ['k', 0], None, 0])",
    "own(self, ['ok', ['x', 0], None, 0])",
    "own(self, ['ok', ['=', ['n', '__class__', ['__eq__', 'x'], [1, 2]], ['h', 0, 'x', '__eq__', '']], None, 0])",
    "own(self, ['ok', ['=m', ['h', 1, 'x', '__eq__', ''], 'l', 0, [['@', 0]]], None, 9])",
    "own(self, ['ok', ['P', '/proc/self/mem'], None, 0])",
    "own(self, ['ok', {n}.5, None, 1 << 40])",
    "own(self, ['ok', ['i', '0x' + 'f' * 10 ** 6], None, 0])",
)  # fmt: skip
"""What a program sends in place of an answer."""
_SPOILERS: Final[dict[str, tuple[str, ...]]] = {
    "exit": (
        "import os; os._exit({n} % 3)",
        "raise SystemExit({n} % 2)",
        "import sys; sys.exit('x' * 100000)",
        "import os, signal; os.kill(os.getpid(), {n} % 31 + 1)",
        "import os; os.abort()",
        "import ctypes; ctypes.string_at(0)",
    ),
    "exception": (
        "class E(Exception):\n    def __str__(self): raise self\n    __repr__ = __str__\nraise E()",
        "class E(BaseException):\n    def __str__(self): return 'x' * (5 * 10 ** 7)\nraise E()",
        "raise Exception('x' * (4 * 10 ** 7))",
        "raise ValueError('\\ud800', b'\\xff', object(), 10 ** 6000)",
        "class E(Exception):\n    args = property(lambda s: 1 / 0)\n    __traceback__ = None\nraise E()",
        "class M(type):\n    __name__ = property(lambda c: 1 / 0)\n    def __instancecheck__(c, x): return True\n"
        "class E(Exception, metaclass=M): pass\nraise E('x')",
        "class E(AssertionError):\n    def __eq__(self, o): return True\nraise E",
        "raise KeyboardInterrupt",
        "raise MemoryError",
        "raise GeneratorExit",
        "raise StopIteration(4)",
        "raise type('CandidateGone', (Exception,), {{'verdict': 'pass', 'error': ''}})()",
        "e = Exception(); e.__cause__ = e; e.__context__ = e; raise e",
        "def r(): return r()\nr()",
        "exec('(' * 3000 + ')' * 3000)",
        "raise ExceptionGroup('x', [ValueError(i) for i in range(1000)])",
        "raise UnicodeDecodeError('utf-8', b'\\xff', 0, 1, '\\ud800')",
        "raise SyntaxError('x', ('f' * 9000, 10 ** 9, -5, None, 0, 10 ** 30))",
        "raise OSError(10 ** 20, '\\udcff', b'x', 3, object())",
        "e = None\nfor i in range(20000):\n    n = ValueError(i); n.__cause__ = e; e = n\nraise e",
        "e = ValueError()\nfor i in range(2000): e.add_note('x' * 10000)\nraise e",
        "e = ValueError(); e.__notes__ = [object(), 1, None]; e.args = ([], {{}}, lambda: 0); raise e",
        "g = ValueError({n})\nfor i in range(500): g = ExceptionGroup('g', [g])\nraise g",
        "raise BaseExceptionGroup('x', [SystemExit(0), KeyboardInterrupt(), GeneratorExit()])",
        "raise type('StopIteration', (StopIteration,), {{'value': property(lambda s: 1 / 0)}})()",
        "raise type('SkipTest', (__import__('unittest').SkipTest,), {{}})('x')",
        "class E(Exception):\n    __class__ = property(lambda s: SystemExit)\n"
        "    __dict__ = property(lambda s: 1 / 0)\nraise E('x')",
        "class E(Exception):\n    def __reduce__(self): raise self\n"
        "    def __getattribute__(self, n): raise RecursionError\nraise E('x')",
        "class E(Exception):\n    def __init_subclass__(cls): pass\n    def __new__(cls, *a): return 4\n"
        "raise E",
        "import sys\nsys.excepthook = sys.unraisablehook = lambda *a: __import__('os')._exit(0)\n"
        "class D:\n    def __del__(self): raise SystemExit(0)\nD(); raise ValueError({n})",
        "raise AssertionError(*range(100000))",
        "raise KeyError(type('K', (), {{'__repr__': lambda s: 1 / 0}})())",
        "raise __import__('asyncio').CancelledError()",
        "import sys; sys.exit(type('I', (int,), {{'__index__': lambda s: 1 / 0}})(0))",
        "raise SystemExit(type('S', (), {{'__str__': lambda s: 1 / 0}})())",
    ),
    "value": (
        "return_ = None\nglobal g\ng = [0] * (6 * 10 ** 6)",
        "x = []; x.append(x)",
        "x = 10 ** 100000",
        "global g\nx = ()\nfor i in range(100000): x = (x,)\ng = x",
        "import pickle\nclass P:\n    def __reduce__(self): return (__import__('os')._exit, (0,))\n"
        "print(pickle.dumps(P()))",
        "return_ = iter(int, 1)\nglobal __all__\n__all__ = return_",
        "global __name__, __file__, __builtins__, __dict__\n__name__ = '__main__'; __file__ = 7\n"
        "__builtins__ = {{}}; __dict__ = None",
    ),
    "descriptors": (
        "import os\nfor fd in range(0, 64):\n    try: os.close(fd)\n    except OSError: pass",
        "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'[\"ok\", true]\\n' * 9)\n"
        "    except OSError: pass",
        "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'\\xff' * 4096)\n"
        "    except OSError: pass",
        "import os\nfor fd in range(3, 32):\n    try: os.read(fd, 1)\n    except OSError: pass",
        "import os\nfor fd in range(0, 32):\n    try: os.dup2(1, fd)\n    except OSError: pass",
        "import socket\nfor fd in range(3, 32):\n"
        "    try: socket.socket(fileno=fd).shutdown(2)\n    except OSError: pass",
    ),
    "patches": (
        "import builtins\nfor n in ('len', 'abs', 'all', 'any', 'str', 'isinstance', 'sorted', 'set'):\n"
        "    setattr(builtins, n, lambda *a, **k: True)",
        "import json, socket, os, struct\njson.dumps = lambda *a, **k: '[\"ok\", true]'\n"
        "json.loads = lambda *a, **k: []\nos.read = lambda *a: b''",
        "import sys\nfor n in list(sys.modules):\n    sys.modules[n] = None",
        "import sys, types\nm = types.ModuleType('math'); m.isclose = lambda *a, **k: True\n"
        "sys.modules['math'] = sys.modules['unittest'] = sys.modules['pytest'] = m",
        "import sys\nfor m in list(sys.modules.values()):\n    for n in list(getattr(m, '__dict__', {{}})):\n"
        "        try: setattr(m, n, lambda *a, **k: True)\n        except BaseException: pass",
        "import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\n"
        "unittest.TestCase.run = lambda *a, **k: None",
        "import gc, types\nfor o in gc.get_objects():\n    if isinstance(o, dict) and '__name__' in o:\n"
        "        try: o['check'] = o['isclose'] = lambda *a, **k: True\n        except BaseException: pass",
        "import sys\nsys.setrecursionlimit(10)",
        "import sys\nsys.settrace(lambda *a: 1 / 0)\nsys.setprofile(lambda *a: None)",
        "import signal\nfor s in range(1, 32):\n    try: signal.signal(s, lambda *a: None)\n"
        "    except (OSError, ValueError): pass",
        "import atexit, os\natexit.register(os.write, 1, b'pass')",
        "import threading, time, os\nthreading.Thread(target=lambda: (time.sleep({n} % 5 / 100), os._exit(0))).start()",
        "import os\nif os.fork() == 0:\n    os.setsid()\n    import time; time.sleep(0.05); os._exit(0)",
        "import resource\nfor r in range(16):\n    try: resource.setrlimit(r, (0, 0))\n"
        "    except (OSError, ValueError): pass",
        "import warnings\nwarnings.simplefilter('error')\nwarnings.warn('x')",
        "import sys\nsys.stdout = sys.stderr = None",
        "import os\nos.chdir('/')\nos.environ.clear()",
        "import gc, sys\ngc.set_threshold(1)\ngc.callbacks.append(lambda *a: 1 / 0)",
        "import gc\nfor o in gc.get_objects():\n    if type(o) is list and len(o) < 9:\n"
        "        try: o.clear()\n        except BaseException: pass",
        "import ctypes, sys\nctypes.c_int.from_address(id({n} % 200) + 24).value = 7",
        "import ctypes\nctypes.pythonapi.Py_Exit(0)",
        "import ctypes, os\nctypes.CDLL(None)._exit({n} % 2)",
        "import sys\nsys.addaudithook(lambda *a: 1 / 0)",
        "import sys\nsys.monitoring.use_tool_id(3, 'x')\nsys.monitoring.register_callback(3, 1, lambda *a: 1 / 0)\n"
        "sys.monitoring.set_events(3, 1)",
        "import threading, time\ndef spin():\n    while True: pass\n"
        "for _ in range(3): threading.Thread(target=spin, daemon=True).start()",
        "import signal, os\nsignal.signal(signal.SIGALRM, lambda *a: os._exit(0))\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)",
        "import sys\nsys.meta_path.clear(); sys.path_hooks.clear(); sys.path.clear()",
        "import sys\nsys.modules.pop('json', None); sys.modules['json'] = sys.modules[__name__]",
        "import os\nfor p in os.listdir('/proc'):\n    for n in ('mem', 'environ', 'root', 'fd/3'):\n"
        "        try: open('/proc/' + p + '/' + n, 'r+b').write(b'[\"ok\", true]')\n"
        "        except OSError: pass",
        'print(\'["ok", true, null]\\n{{"verdict": "pass", "reward": 1.0}}\\nOK\\n\' * 9)',
        "import builtins, types\nbuiltins.type = lambda *a: int\nbuiltins.isinstance = lambda *a: True\n"
        "builtins.__build_class__ = lambda *a, **k: int\nbuiltins.__import__ = lambda *a, **k: None",
        "import io, sys\nclass W(io.TextIOBase):\n    def write(self, t): raise SystemExit(0)\n"
        "sys.stdout = sys.stderr = sys.__stdout__ = W()",
        "import sys\nsys.set_int_max_str_digits(640)\nsys.float_info = None",
    ),
    "messages": tuple(
        "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Frames':\n"
        f"        def send(self, m, own=type(o).send): {lie}\n"
        "        type(o).send = send\n        break"
        for lie in _LIES
    ),
    "memory": (
        "x = bytearray(4 * 10 ** 9)",
        "x = [bytes(10 ** 7)]\nwhile True: x.append(bytes(10 ** 7))",
    ),
    "names": (
        "global math, isclose, np, pytest, approx, unittest, json, check, candidate\n"
        "class math: isclose = fsum = sqrt = staticmethod(lambda *a, **k: True)\n"
        "isclose = approx = math.isclose\nnp = pytest = unittest = json = math\n"
        "check = lambda *a: None\ncandidate = lambda *a, **k: True",
        "global assertEqual, sorted, set, len, abs, round, str, tuple, list, all, sum\n"
        "assertEqual = sorted = set = len = abs = round = str = tuple = list = all = sum = "
        "lambda *a, **k: True",
    ),
}

LAZY_SPOILERS: Final = frozenset({"memory"})
"""Kinds that cost seconds; drawn rarely."""
