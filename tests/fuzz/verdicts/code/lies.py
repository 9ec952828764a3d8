"""Programs that lie about what they return, and programs that end a run in unusual ways.

No program here computes anything: each returns, raises or does the same for all arguments. `{f}`
stands for the name of the function. The classes: values of borrowed types, types that lie about
themselves, results that never end, results that cost, the end of the process, the interpreter's
hooks, the channel, and output that looks like a verdict.
"""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected
from tests.fuzz.verdicts.code.hostile import spoiler, value_program
from tests.fuzz.verdicts.code.problems import PROBLEMS
from tests.fuzz.verdicts.code.references import FORMS, reference_of

_VALUES: Final = (
    # Numbers that are not numbers, equal everything, or are expensive.
    "float('nan')",
    "[float('nan')] * 3",
    "{float('nan'): float('nan')}",
    "float('inf')",
    "-0.0",
    "complex('nan+nanj')",
    "complex(0, 0)",
    "1 << (1 << 20)",
    "-(1 << 200_000)",
    "10 ** 4300",
    "True",
    "False",
    "NotImplemented",
    "Ellipsis",
    "__import__('decimal').Decimal('NaN')",
    "__import__('decimal').Decimal('sNaN')",
    "[__import__('decimal').Decimal('sNaN')]",
    "(__import__('decimal').Decimal('-sNaN123'),)",
    "{'a': __import__('decimal').Decimal('sNaN')}",
    "__import__('decimal').Decimal('1E+999999')",
    "__import__('decimal').Decimal('1E-999999')",
    "__import__('fractions').Fraction(1, 10 ** 400)",
    "__import__('datetime').datetime.max",
    "__import__('datetime').timedelta.max",
    "__import__('datetime').datetime(2020, 1, 1, tzinfo=__import__('datetime').timezone.utc)",
    "__import__('uuid').uuid4()",
    "__import__('ipaddress').ip_address('::1')",
    # Containers that contain themselves, lie about their length, or are views.
    "(lambda x: (x.append(x), x)[1])([])",
    "(lambda x: (x.update(a=x), x)[1])({})",
    "(lambda x: (x.append((x,)), x)[1])([])",
    "(lambda d: (d.append(d), d)[1])(__import__('collections').deque())",
    "__import__('functools').reduce(lambda a, _: [a], range(500), [])",
    "__import__('functools').reduce(lambda a, _: (a,), range(90), ())",
    "{1: 2}.keys()",
    "{1: 2}.values()",
    "{1: 2}.items()",
    "__import__('types').MappingProxyType({})",
    "__import__('collections').ChainMap({}, {})",
    "__import__('collections').UserDict()",
    "__import__('collections').UserList([1])",
    "__import__('collections').UserString('x')",
    "__import__('array').array('i', [1, 2])",
    "memoryview(b'ab')",
    "range(10 ** 18)",
    "range(0)",
    "slice(None)",
    "frozenset([frozenset()])",
    "{i * ((1 << 61) - 1) for i in range(3000)}",
    "dict.fromkeys([i * ((1 << 61) - 1) for i in range(3000)])",
    "[[]] * 200_000",
    "'\\ud800'",
    "'\\0'",
    "'x' * 3_000_000",
    "b'\\xff' * 1000",
    # Results that never end, or end too soon.
    "__import__('itertools').count()",
    "__import__('itertools').repeat(None)",
    "__import__('itertools').cycle([0])",
    "iter(int, 1)",
    "iter([])",
    "(x for x in ())",
    "(1 / 0 for _ in [0])",
    "map(None, [1])",
    "zip()",
    "reversed([])",
    "enumerate([])",
    "open('/dev/zero', 'rb')",
    "open('/dev/null')",
    "__import__('re').finditer('', 'x' * 10_000)",
    # Objects of the interpreter.
    "int",
    "type",
    "object()",
    "len",
    "print",
    "super",
    "property(lambda s: 1)",
    "staticmethod(int)",
    "classmethod(int)",
    "lambda *a, **k: (lambda *a, **k: True)",
    "__import__('functools').partial(int)",
    "__import__('operator').attrgetter('real')",
    "__import__('sys')",
    "__import__('sys').modules",
    "globals()",
    "__builtins__",
    "__import__('sys')._getframe()",
    "(lambda: 0).__code__",
    "type.__dict__",
    "__import__('weakref').proxy(type('W', (), {}))",
    "__import__('weakref').ref(int)",
    "__import__('threading').Lock()",
    "__import__('threading').local()",
    "__import__('contextvars').ContextVar('x')",
    "__import__('ctypes').c_int(4)",
    "__import__('ctypes').py_object(4)",
    "__import__('typing').Any",
    "list[int]",
    "int | str",
    "__import__('types').SimpleNamespace(__eq__=lambda *a: True)",
    "__import__('types').ModuleType('math')",
    "__import__('unittest.mock').mock.ANY",
    "__import__('unittest.mock').mock.MagicMock()",
    "__import__('unittest.mock').mock.sentinel.x",
    "__import__('ast').parse('1')",
    "__import__('asyncio').sleep(0)",
    "(lambda: (yield))()",
    "ExceptionGroup('x', [ValueError(1)])",
    "AssertionError('equal')",
    "StopIteration(4)",
    "SystemExit(0)",
)
"""Expressions."""

_DUNDERS: Final = (
    *("eq", "ne", "lt", "le", "gt", "ge", "hash", "bool", "len", "length_hint", "iter", "next"),
    *("contains", "getitem", "missing", "reversed", "call", "add", "radd", "sub", "rsub", "mul"),
    *("rmul", "truediv", "rtruediv", "mod", "rmod", "pow", "rpow", "and", "rand", "or", "ror"),
    *("xor", "rxor", "neg", "pos", "abs", "invert", "int", "float", "complex", "index", "round"),
    *("trunc", "floor", "ceil", "str", "repr", "format", "bytes", "fspath", "dir", "sizeof"),
    *("getattr", "getattribute", "get", "set", "delete", "set_name", "instancecheck"),
    *("subclasscheck", "subclasshook", "class_getitem", "mro_entries", "prepare", "init_subclass"),
    *("reduce", "reduce_ex", "getstate", "setstate", "getnewargs", "copy", "deepcopy", "enter"),
    *("exit", "await", "aiter", "anext", "aenter", "aexit", "del", "matmul", "rmatmul", "divmod"),
    *("array", "array_ufunc", "array_function", "array_interface", "array_struct", "buffer"),
    *("array_priority", "float__", "numpy_dtype", "dataframe", "dlpack", "rich_repr", "replace"),
)
"""Every special method that a test, a library or a printer may call."""
_ANSWERS: Final = (
    "lambda *a, **k: True",
    "lambda *a, **k: False",
    "lambda *a, **k: a[-1]",
    "lambda *a, **k: a[0]",
    "lambda *a, **k: 0",
    "lambda *a, **k: ''",
    "lambda *a, **k: NotImplemented",
    "lambda *a, **k: None",
    "lambda *a, **k: iter(())",
    "lambda *a, **k: (_ for _ in ()).throw(StopIteration)",
    "lambda *a, **k: (_ for _ in ()).throw(AssertionError)",
    "lambda *a, **k: (_ for _ in ()).throw(SystemExit(0))",
    "lambda *a, **k: (_ for _ in ()).throw(RecursionError)",
    "lambda *a, **k: __import__('os')._exit(0)",
    "lambda *a, **k: (yield)",
    "property(lambda s: (lambda *a: True))",
    "property(lambda s: 1 / 0)",
    "type('D', (), {'__get__': lambda s, o, t: (lambda *a, **k: True)})()",
    "type('D', (), {'__get__': lambda s, o, t: 1 / 0, '__set__': lambda *a: None})()",
    "staticmethod(lambda *a, **k: True)",
    "classmethod(lambda *a, **k: True)",
    "None",
    "1",
)
_BASES: Final = (
    *("object", "int", "float", "str", "bytes", "list", "tuple", "dict", "set", "frozenset"),
    *("complex", "bytearray", "type", "BaseException", "Exception", "AssertionError"),
    *("__import__('collections').OrderedDict", "__import__('collections').Counter"),
    *("__import__('collections').deque", "__import__('collections').UserList"),
    *("__import__('collections').namedtuple('N', 'a', defaults=(1,))", "__import__('enum').Enum"),
    *("__import__('decimal').Decimal", "__import__('fractions').Fraction"),
    *("__import__('datetime').date", "__import__('io').StringIO", "__import__('abc').ABC"),
    *("__import__('unittest').TestCase", "__import__('types').ModuleType"),
    *("__import__('numbers').Number", "__import__('typing').NamedTuple"),
    "__import__('collections.abc').abc.Sequence",
)
_ABOUT_ITSELF: Final = (
    "__class__ = property(lambda s: int)",
    "__class__ = property(lambda s: 1 / 0)",
    "__dict__ = property(lambda s: {})",
    "__doc__ = property(lambda s: 1 / 0)",
    "__module__ = 'builtins'",
    "__module__ = 'numpy'",
    "__module__ = 'tests'",
    "__module__ = property(lambda s: 1 / 0)",
    "__qualname__ = 'int'",
    "__slots__ = ()",
    "_fields = ('__eq__', 'count')",
    "_fields = property(lambda s: 1 / 0)",
    "_fields = ('a', 'a')",
    "_asdict = lambda s: {}",
    "__match_args__ = ('real',)",
    "__dataclass_fields__ = {}",
    "__abstractmethods__ = ()",
    "__array_priority__ = 1e9",
    "__annotations__ = 7",
    "_assay_link = _assay_number = None",
    "_assay_own = _assay_class = True",
    "item = lambda s: s",
    "dtype = shape = size = ndim = 0",
    "tolist = lambda s: s",
)
_META: Final = (
    "def mro(c): return [c, object]",
    "def mro(c): return type.mro(c) if c.__name__ == 'X' else [c]",
    "__eq__ = __instancecheck__ = __subclasscheck__ = lambda *a: True; __hash__ = lambda c: 4",
    "__name__ = property(lambda c: 1 / 0); __module__ = property(lambda c: 'numpy')",
    "__name__ = property(lambda c: 'generic'); __module__ = property(lambda c: 'numpy')",
    "__mro__ = property(lambda c: (int, object)); __bases__ = property(lambda c: (int,))",
    "def __call__(c, *a, **k): return c",
    "def __getattribute__(c, n): raise AttributeError(n)",
    "def __getattr__(c, n): return lambda *a, **k: True",
    "def __dir__(c): return ['x'] * 10 ** 6",
    "def __prepare__(n, b): return {'__eq__': lambda *a: True, '__hash__': lambda s: 1}\n"
    "    __prepare__ = staticmethod(__prepare__)",
)


_ENDS: Final = (
    # The end of the process, at once or later.
    "import atexit, os; atexit.register(os._exit, 0)",
    "import os, threading; threading.Timer(0.01, os._exit, (0,)).start()",
    "import os; os.kill(os.getppid(), 19)",
    "import os; os.kill(os.getppid(), 9)",
    "import os; os.kill(0, 9)",
    "import os; os.kill(-1, 15)",
    "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "import os, signal; signal.alarm(1); signal.pause()",
    "import os; os.fork() and os._exit(0)",
    "import os\nwhile True:\n    if os.fork(): break",
    "import os\nfor _ in range(50): os.fork()",
    "import os; os.execv('/proc/self/exe', ['python', '-c', 'print(4)'])",
    "import os; os.setsid() if os.getpid() != os.getpgid(0) else None; os.execv('/bin/true', ['x'])",
    "import faulthandler; faulthandler._sigsegv()",
    "import ctypes; ctypes.memset(0, 0, 1)",
    "import sys; sys.exit(0)",
    "quit()",
    "raise SystemExit",
    "import _thread; _thread.interrupt_main()",
    "import threading\nfor _ in range(300): threading.Thread(target=threading.Event().wait).start()",
    # The interpreter's hooks.
    "import sys\nclass H:\n    def find_spec(self, *a): raise SystemExit(0)\nsys.meta_path.insert(0, H())",
    "import sys\nclass H:\n    def find_spec(self, *a): return None\nsys.meta_path[:] = [H()]\nsys.modules.clear()",
    "import builtins; builtins.__import__ = lambda *a, **k: 1 / 0",
    "import builtins\nfor n in dir(builtins): setattr(builtins, n, None) if n[0] != '_' else None",
    "import builtins; del builtins.isinstance, builtins.getattr, builtins.type, builtins.len",
    "import sys; sys.modules['builtins'] = sys.modules['sys'] = None",
    "import sys; sys.modules['json'] = type(sys)('json'); sys.modules['os'] = type(sys)('os')",
    "import sys, types\nclass M(types.ModuleType):\n    def __getattr__(s, n): return lambda *a, **k: True\n"
    "    __getattribute__ = __getattr__\nsys.modules[__name__].__class__ = M",
    "import sys; sys.modules[__name__] = type('M', (), {'__getattr__': lambda s, n: lambda *a: True})()",
    "import sys\nsys.setswitchinterval(1e9)\nsys.set_int_max_str_digits(640)\nsys.flags = None",
    "import sys\nsys.displayhook = sys.excepthook = sys.breakpointhook = sys.exit",
    "import threading\nthreading.excepthook = lambda *a: __import__('os')._exit(0)",
    "import gc\ngc.freeze()\n[o.clear() for o in gc.get_objects() if type(o) is dict and '_frames' in o]",
    "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Frames': o._descriptor = 1",
    "import gc\nfor o in gc.get_objects():\n    if type(o).__name__ in ('Candidate', 'Frames', 'Encoder'):\n"
    "        o.__class__ = type('C', (), {'__getattr__': lambda s, n: lambda *a, **k: ['ok', True, None]})",
    "import sys\nf = sys._getframe()\nwhile f:\n    f.f_globals.update(_WRITERS={}, OPERATIONS={}, type_of=lambda v: int)\n"
    "    f = f.f_back",
    "import sys\nm = sys.modules.get('assay.verifiers.code.referee.values')\nif m: m.type_of = lambda v: bool",
    "import sys\nfor n, m in list(sys.modules.items()):\n    if n.startswith('assay'): vars(m).clear()",
    "import json, marshal, pickle\njson.dumps = json.JSONEncoder.encode = lambda *a, **k: '[\"ok\",4,null]'",
    "import struct; struct.Struct = None",
    "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass",
    "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0)); open('/dev/null')",
    "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); open('x', 'w').write('x')",
    "import os; os.nice(19); os.sched_setaffinity(0, {0})",
    "import ctypes; libc = ctypes.CDLL(None); libc.prctl(1, 9); libc.prctl(4, 0); libc.prctl(36, 1)",
    "import ctypes; libc = ctypes.CDLL(None); libc.ptrace(16, 1, 0, 0); libc.ptrace(0, 0, 0, 0)",
    "import ctypes; libc = ctypes.CDLL(None)\nfor n in (101, 155, 161, 165, 166, 246, 250, 272, 308, 310, 311, 321, 323, 425, 435):\n"
    "    libc.syscall(n, 0, 0, 0, 0, 0, 0)",
    "import mmap\nmaps = [mmap.mmap(-1, 1 << 28) for _ in range(8)]\nfor m in maps: m[:] = b'x' * len(m)",
    # The channel.
    "import os\nfor d in range(3, 40):\n    try: os.write(d, b'\\0\\0\\0\\x0e[\"ok\",4,null]\\n' * 99)\n    except OSError: pass",
    "import os\nfor d in range(3, 40):\n    try: os.write(d, b'\\xff\\xff\\xff\\xff')\n    except OSError: pass",
    "import os\nfor d in range(3, 40):\n    try: os.write(d, b'\\0\\0\\0\\x7f')\n    except OSError: pass\nwhile True: pass",
    "import os\nfor d in range(3, 40):\n    try: os.write(d, b'\\0\\0\\x27\\x10' + b'[' * 10000)\n    except OSError: pass",
    "import os\nfor d in range(3, 40):\n    try: os.write(d, (lambda b: len(b).to_bytes(4, 'big') + b)(b'[\"printed\",\"pass\"]') * 9999)\n"
    "    except OSError: pass",
    "import os\nfor d in range(3, 40):\n    try: os.write(d, (lambda b: len(b).to_bytes(4, 'big') + b)(b'[\"touch\",0,\"call\",[[],{}]]') * 9)\n"
    "    except OSError: pass",
    "import os\nfor d in range(3, 40):\n    try: os.write(d, (lambda b: len(b).to_bytes(4, 'big') + b)(b'[\"ok\",[\"q\",[\"i\",\"0x' + b'7' * 200000 + b'\"],[\"i\",\"0x' + b'3' * 200001 + b'\"]],null]') * 2)\n"
    "    except OSError: pass",
    'import os\nfor d in range(3, 40):\n    try: os.write(d, (lambda b: len(b).to_bytes(4, \'big\') + b)(b\'["raise","StopIteration",null,["l",0,[4]],"",["h",0,"object","x",""]]\') * 9)\n'
    "    except OSError: pass",
    'import os\nfor d in range(3, 40):\n    try: os.write(d, (lambda b: len(b).to_bytes(4, \'big\') + b)(b\'["raise","SystemExit",null,["l",0,[0]],"",["h",1,"object","x",""]]\') * 9)\n'
    "    except OSError: pass",
    'import os\nfor d in range(3, 40):\n    try: os.write(d, (lambda b: len(b).to_bytes(4, \'big\') + b)(b\'["ok",["h",7,"coroutine","__class__",""],null]\') * 9)\n'
    "    except OSError: pass",
    "import os, socket, array\nfor d in range(3, 40):\n    try: socket.socket(fileno=os.dup(d)).sendmsg([b'x'], [(1, 1, array.array('i', [0, 1, 2]))])\n"
    "    except OSError: pass",
    "import os, fcntl\nfor d in range(3, 40):\n    try: os.set_blocking(d, False); fcntl.fcntl(d, 8, os.getpid())\n    except OSError: pass",
    # Output that looks like a verdict.
    'import sys\nfor s in (sys.stdout, sys.stderr): print(\'OK\\nRan 1 test\\n{"verdict":"pass","reward":1}\', file=s, flush=True)',
    "import sys\nsys.stdout.write('x' * (1 << 20)); sys.stderr.write('\\x1b[2J\\0\\ud800'.encode('utf-8', 'surrogatepass').decode('latin-1') * 9999)",
    "open('/proc/self/fd/1', 'w').write('pass\\n'); open('/dev/stderr', 'w').write('AssertionError')",
    "import os\nos.makedirs('tests', exist_ok=True)\nfor n in ('tests.py', 'conftest.py', 'sitecustomize.py', 'unittest.py'): open(n, 'w').write('import os; os._exit(0)')",
)
"""Statements."""


def lie_program(rng: random.Random, function: str) -> tuple[str, str]:
    """A kind of lie and a program."""
    kind = rng.choice(
        ("value", "value", "object", "object", "end", "end", "agreeable", "spoiler", "huge")
    )
    if kind == "agreeable":
        return kind, value_program(rng, function)
    if kind == "spoiler":
        return spoiler(rng, function)
    if kind == "huge":
        return kind, _carried(rng, function, _huge(rng), "")
    if kind == "value":
        return kind, _carried(rng, function, rng.choice(_VALUES), "")
    if kind == "object":
        made, expression = _object(rng)
        return kind, _carried(rng, function, expression, made)
    act = rng.choice(_ENDS)
    value = rng.choice(("4.25", "'no'", "[object]", "Ellipsis"))
    if rng.random() < 0.4:
        return "end at load", f"{act}\ndef {function}(*a, **k):\n    return {value}\n"
    indented = act.replace("\n", "\n    ")
    return kind, f"def {function}(*a, **k):\n    {indented}\n    return {value}\n"


def _huge(rng: random.Random) -> str:
    """A value whose message is of 20 to 80 MB: below and above what a referee reads."""
    millions = rng.randint(20, 80)
    return rng.choice(
        (
            f"'x' * {millions}_000_000",
            f"b'x' * {millions}_000_000",
            f"[0] * {millions // 3}_000_000",
            f"['x' * 1_000_000] * {millions}",
            f"{{i: 'x' * 10_000 for i in range({millions}00)}}",
            f"('\\0' * {millions // 6}_000_000,)",
            f"1 << {millions}_000_000",
        )
    )


def _carried(rng: random.Random, function: str, expression: str, made: str) -> str:
    """The value, returned, raised, or in place of the function."""
    ways = (
        f"def {function}(*a, **k):\n    return {expression}\n",
        f"def {function}(*a, **k):\n    return {expression}\n",
        f"def {function}(*a, **k):\n    return [{expression}]\n",
        f"def {function}(*a, **k):\n    return ({expression}, {expression})\n",
        f"def {function}(*a, **k):\n    return {{'a': {expression}}}\n",
        f"def {function}(*a, **k):\n    yield {expression}\n",
        f"async def {function}(*a, **k):\n    return {expression}\n",
        f"def {function}(*a, **k):\n    for x in a:\n        if hasattr(x, 'clear'): x.clear()\n"
        f"    return {expression}\n",
        f"class Solution:\n    def {function}(self, *a, **k): return {expression}\n",
        f"class Solution:\n    def __init__(self, n): pass\n    def {function}(self, *a): return {expression}\n",
        f"def __getattr__(name): return lambda *a, **k: {expression}\n",
        f"{function} = type('F', (), {{'__call__': lambda s, *a, **k: {expression}}})()\n",
    )
    return made + rng.choice(ways)


def _object(rng: random.Random) -> tuple[str, str]:
    """A class of a random base that lies in random special methods and about itself."""
    names = rng.sample(_DUNDERS, rng.randint(2, 14))
    if rng.random() < 0.7:
        names += ["eq", "hash"]
    members = [f"__{name}__ = {rng.choice(_ANSWERS)}" for name in names]
    members += rng.sample(_ABOUT_ITSELF, rng.randint(0, 3))
    body = "".join(
        f"    try: {member}\n    except BaseException: pass\n"
        if rng.random() < 0.1
        else f"    {member}\n"
        for member in members
    )
    meta = "type"
    made = ""
    if rng.random() < 0.3:
        made = f"class M(type):\n    {rng.choice(_META)}\n"
        meta = "M"
    base = rng.choice(_BASES)
    made += f"try:\n    class X({base}, metaclass={meta}):\n{body.replace(chr(10), chr(10) + '    ').rstrip(' ')}"
    made = made.replace("\n    class", "\n    class", 1)
    indented = f"class X({base}, metaclass={meta}):\n{body}".replace("\n", "\n    ").rstrip()
    head = made.split("try:\n")[0]
    made = f"{head}try:\n    {indented}\nexcept TypeError:\n    class X:\n        __eq__ = lambda s, o: True\n"
    made += (
        "def _made():\n    for given in ((), (1,), ('x',), ((1, 2),), ('T', (), {})):\n"
        "        try: return X(*given)\n        except BaseException: pass\n    return X\n"
    )
    return made, rng.choice(("_made()", "_made()", "X", "object.__new__(X)", "[_made()] * 3"))


def lie_case(rng: random.Random) -> Case:
    """A problem, a form of its tests, and a program that does not solve it."""
    problem = rng.choice(PROBLEMS)
    function = rng.choice(("f", "solve", "get_it", "compute_value"))
    form = rng.choice(FORMS)
    kind, program = lie_program(rng, function)
    return Case(
        pipeline="code.python",
        kind=f"{form}: lie: {kind}",
        response=program,
        reference=reference_of(rng, problem, function, form),
        expected=Expected.WRONG,
        settings={"cpu_s": 1.0, "blocked_s": 1.0, "memory_bytes": 256 << 20, "extraction": "raw"},
    )
