"""Right programs in unusual but right style: how a function is defined, computed and surrounded.

Each style is a template: `{inner}` defines `_g` with the right body, `{f}` is the name of the
function, `{p}` its parameters. Every style keeps the value and the type of the result, so that
all forms of tests pass.
"""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected, one_of
from tests.fuzz.verdicts.code.problems import PROBLEMS, Problem
from tests.fuzz.verdicts.code.references import FORMS, reference_of

_DEFINED: Final = (
    "{inner}{f} = _g\n",
    "{inner}def {f}(*args, **keywords):\n    return _g(*args, **keywords)\n",
    "{inner}{f} = lambda *a: _g(*a)\n",
    "{inner}from functools import partial\n{f} = partial(_g)\n",
    "{inner}class _C:\n    def __call__(self, *a):\n        return _g(*a)\n{f} = _C()\n",
    "{inner}class _C:\n    __slots__ = ()\n    @staticmethod\n    def run(*a):\n        return _g(*a)\n{f} = _C.run\n",
    "{inner}class _C:\n    @classmethod\n    def run(cls, *a):\n        return _g(*a)\n{f} = _C().run\n",
    "{inner}class _D:\n    def __get__(self, one, owner=None):\n        return _g\nclass _C:\n    run = _D()\n{f} = _C().run\n",
    "{inner}class _M(type):\n    def __call__(cls, *a):\n        return _g(*a)\nclass {f}(metaclass=_M):\n    pass\n",
    "{inner}class {f}:\n    def __new__(cls, *a):\n        return _g(*a)\n",
    "{inner}globals()['{f}'] = _g\n",
    "{inner}import sys\nsetattr(sys.modules[__name__], '{f}', _g)\n",
    "{inner}exec('{f} = _g')\n",
    "{inner}{f} = eval('lambda *a: _g(*a)')\n",
    "{inner}import types\n{f} = types.FunctionType(_g.__code__, globals(), '{f}')\n",
    "{inner}import types\n{f} = types.MethodType(lambda self, *a: _g(*a), object())\n",
    "{inner}import functools\n@functools.wraps(_g)\ndef {f}(*a):\n    return _g(*a)\n",
    "{inner}import functools\n@functools.cache\ndef _none(): return None\ndef {f}(*a):\n    _none()\n    return _g(*a)\n",
    "{inner}def _deco(times):\n    def outer(fn):\n        def run(*a):\n            for _ in range(times): out = fn(*a)\n"
    "            return out\n        return run\n    return outer\n{f} = _deco(3)(_g)\n",
    "{inner}import operator\n{f} = operator.attrgetter('__call__')(_g)\n",
    "def {f}({p}):\n    def _h({p}):\n        return _g({p})\n    return _h({p})\n{inner}",
    "{inner}def {f}({p}, *, verbose: bool = False, _memo={{}}) -> object:\n    return _g({p})\n",
    "from __future__ import annotations\n{inner}def {f}({p}) -> Missing[Type]:\n    return _g({p})\n",
    "{inner}if True:\n    def {f}(*a): return _g(*a)\nelse:\n    def {f}(*a): raise ValueError\n",
    "{inner}try:\n    _missing\nexcept NameError:\n    {f} = _g\n",
    "def {f}(*a):\n    raise NotImplementedError\n{inner}{f} = _g\n",
    "{inner}({f}) = _g\n",
    "{inner}for {f} in (_g,): pass\n",
    "{inner}{f}, _unused = _g, None\n",
    "{inner}with open('/dev/null') as _file: {f} = _g\n",
    "{inner}if ({f} := _g): pass\n",
    "{inner}match _g:\n    case {f}: pass\n",
    "{inner}class _Meta(type):\n    def __getattr__(cls, name): return _g\nclass _C(metaclass=_Meta): pass\n{f} = _C.anything\n",
    "{inner}from typing import TypeVar\nT = TypeVar('T')\n{f} = _g\n",
)
"""How a name comes to be the function."""
_COMPUTED: Final = (
    "    return _g({p})",
    "    import asyncio\n    async def run():\n        await asyncio.sleep(0)\n        return _g({p})\n    return asyncio.run(run())",
    "    import asyncio\n    async def one():\n        return _g({p})\n    async def run():\n        return (await asyncio.gather(one(), one()))[0]\n"
    "    return asyncio.run(run())",
    "    from concurrent.futures import ThreadPoolExecutor\n    with ThreadPoolExecutor(2) as pool:\n        return pool.submit(_g, {p}).result()",
    "    import threading, queue\n    q = queue.Queue()\n    t = threading.Thread(target=lambda: q.put(_g({p})))\n    t.start()\n    t.join()\n    return q.get()",
    "    def gen():\n        yield _g({p})\n    return next(gen())",
    "    def gen():\n        return _g({p})\n        yield\n    try:\n        next(gen())\n    except StopIteration as end:\n        return end.value",
    "    def gen():\n        got = yield\n        yield got\n    g = gen()\n    next(g)\n    return g.send(_g({p}))",
    "    class Found(Exception):\n        pass\n    try:\n        raise Found(_g({p}))\n    except Found as found:\n        return found.args[0]",
    "    try:\n        raise ExceptionGroup('g', [ValueError(1), KeyError(2)])\n    except* ValueError:\n        pass\n    except* KeyError:\n        pass\n    return _g({p})",
    "    try:\n        return _g({p})\n    finally:\n        1 + 1",
    "    for _ in [0]:\n        try:\n            1 / 0\n        except ZeroDivisionError:\n            continue\n    else:\n        return _g({p})",
    "    while (out := _g({p})) is not None:\n        return out",
    "    import contextlib\n    with contextlib.ExitStack() as stack, contextlib.suppress(KeyError):\n        stack.callback(lambda: None)\n        return _g({p})",
    "    from dataclasses import dataclass\n    @dataclass(frozen=True, slots=True)\n    class R:\n        value: object\n    return R(_g({p})).value",
    "    from typing import NamedTuple\n    class R(NamedTuple):\n        value: object\n    return R(_g({p})).value",
    "    import enum\n    class E(enum.Enum):\n        A = 1\n        def run(self, *a): return _g(*a)\n    return E.A.run({p})",
    "    import pickle\n    return pickle.loads(pickle.dumps(_g({p})))",
    "    import copy\n    return copy.deepcopy(_g({p}))",
    "    import ast\n    return ast.literal_eval(repr(_g({p})))",
    "    return eval('_g({p})', globals(), dict({p_named}))",
    "    import functools\n    return functools.reduce(lambda out, step: step(out), [lambda x: x] * 5, _g({p}))",
    "    def deep(left):\n        return _g({p}) if left == 0 else deep(left - 1)\n    return deep(400)",
    "    import sys\n    sys.setrecursionlimit(20_000)\n    def deep(left):\n        return _g({p}) if left == 0 else deep(left - 1)\n    return deep(3_000)",
    "    from itertools import islice, repeat\n    return next(islice(repeat(_g({p})), 7, 8))",
    "    box = []\n    def put():\n        nonlocal box\n        box = [_g({p})]\n    put()\n    return box.pop()",
    "    _, *rest = [None, _g({p})]\n    return rest[-1]",
    "    return (lambda f: f(f))(lambda self: _g({p}))",
    "    return [out for out in [_g({p})] if True][0]",
    "    return {{'k': _g({p})}}['k']",
    "    import weakref, gc\n    class N: pass\n    one = N()\n    w = weakref.ref(one)\n    del one\n    gc.collect()\n    return _g({p}) if w() is None else None",
    "    import random, time\n    random.seed(0)\n    time.sleep(0.001)\n    return _g({p})",
    "    import os, tempfile\n    with tempfile.TemporaryFile('w+') as file:\n        file.write('x')\n    return _g({p})",
    "    import io, contextlib\n    with contextlib.redirect_stdout(io.StringIO()) as out:\n        print('hidden')\n    return _g({p})",
    "    import warnings, logging\n    warnings.warn('old')\n    logging.warning('slow')\n    return _g({p})",
    "    assert True, 'never'\n    return _g({p})",
    "    import signal\n    old = signal.signal(signal.SIGALRM, lambda *a: None)\n    try:\n        return _g({p})\n    finally:\n        signal.signal(signal.SIGALRM, old)",
    "    import subprocess, sys\n    try:\n        subprocess.run(['/bin/true'])\n    except OSError:\n        pass\n    return _g({p})",
    "    print('debug:', {p}, flush=True)\n    print('AssertionError: wrong_answer')\n    return _g({p})",
    "    import sys\n    sys.stderr.write('x' * 10_000 + '\\n')\n    return _g({p})",
)
"""How the result is computed; a body."""
_AROUND: Final = (
    "{program}",
    "{program}",
    "{program}",
    "# -*- coding: utf-8 -*-\n{program}",
    '"""A module.\n\nIt says `{f}` and ends.\n"""\n{program}',
    "{program}\n\nif __name__ == '__main__':\n    import unittest\n    unittest.main()\n",
    "{program}\n\ndef main():\n    n = int(input())\n    print({f}(n))\n\nif __name__ == '__main__':\n    main()\n",
    "import sys\ninput = sys.stdin.readline\n{program}",
    "import sys, threading\nthreading.stack_size(1 << 20)\nsys.setrecursionlimit(10 ** 6)\n{program}",
    "import logging\nlogging.basicConfig(level=logging.DEBUG)\nlogging.debug('begin')\n{program}",
    "{program}\nprint('done', end='')\n",
    "{program}\n__all__ = ['{f}']\n__version__ = '1.0'\n",
    "{program}\nimport atexit\natexit.register(lambda: print('bye'))\n",
    "{program}\nassert callable({f})\n",
    "class _Lazy:\n    def __getattr__(self, name): raise AttributeError(name)\nlazy = _Lazy()\n{program}",
    "def __getattr__(name):\n    raise AttributeError(name)\n{program}",
    "import abc, typing\nclass Base(abc.ABC):\n    @abc.abstractmethod\n    def run(self): ...\n{program}",
    "import random\nrandom.seed(42)\nMOD = 10 ** 9 + 7\nINF = float('inf')\n{program}",
    "from collections import *\nfrom itertools import *\nfrom functools import *\n{program}",
    "import gc\ngc.disable()\n{program}",
    "try:\n    import numpy as np\nexcept ImportError:\n    np = None\n{program}",
    "größe = 'ü'\nΔ = 1\n{program}",
    "x = 1; y = 2; \\\nz = 3\n\f\n{program}",
    "{program}\n\n\n\t\n    \n",
    "{program}# ok",
    "{program}\nclass TestIt:\n    def test_it(self):\n        assert False\n",
    "{program}\nclass Stack(list):\n    def __eq__(self, other): return True\n    __hash__ = None\n",
    "{program}\ndef solve_all():\n    while True:\n        pass\n",
    "{program}\nclass Solution:\n    def __init__(self, n):\n        self.n = n\n",
    "from __future__ import annotations\nfrom typing import *\n{program}",
    "{program}\nlen_ = len\nsum_ = max\nid = type = None\n",
    "import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\n{program}",
)
"""What else is in the program."""


def unusual_program(rng: random.Random, problem: Problem, function: str) -> tuple[str, str]:
    """The style's place in the lists, and the program."""
    body = rng.choice(problem.right)
    p = problem.parameters
    inner = f"def _g({p}):\n    {body}\n"
    if rng.random() < 0.5:
        how = rng.randrange(len(_COMPUTED))
        named = ", ".join(f"{name}={name}" for name in p.split(", "))
        computed = _COMPUTED[how].format(p=p, p_named=named)
        program = f"{inner}def {function}({p}):\n{computed}\n"
        kind = f"computed {how}"
    else:
        how = rng.randrange(len(_DEFINED))
        program = _DEFINED[how].format(inner=inner, f=function, p=p)
        kind = f"defined {how}"
    around = rng.randrange(len(_AROUND))
    if "__future__" in program:
        around = 0
    program = _AROUND[around].replace("{program}", program).replace("{f}", function)
    return f"{kind}, around {around}", program


def unusual_case(rng: random.Random) -> Case:
    """A problem, a form of its tests, and a right program in unusual style."""
    problem = rng.choice(PROBLEMS)
    function = rng.choice(("f", "solve", "get_it", "compute_value"))
    form = rng.choice(FORMS)
    kind, program = unusual_program(rng, problem, function)
    ends: str = one_of(rng, {"\n": 4, "\r\n": 1})
    return Case(
        pipeline="code.python",
        kind=f"{form}: unusual: {kind}",
        response=program.replace("\n", ends),
        reference=reference_of(rng, problem, function, form, exact=rng.random() < 0.5),
        expected=Expected.RIGHT,
        settings={"cpu_s": 2.0, "memory_bytes": 256 << 20, "extraction": "raw"},
    )
