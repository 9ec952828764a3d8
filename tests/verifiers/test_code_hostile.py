"""Programs that want a reward they have not earned: none gets one, and the neighbour gets its own.

The numbers are those of the catalogue of hostile programs that this suite follows (items 40 to 50).
"""

from collections.abc import Callable
from typing import Any

import pytest

from assay.core.verdict import Ended

Judge = Callable[..., Ended]
PYTHON = "code.python"
CALLS = {"calls": {"function": "f", "cases": [{"args": [2], "expected": 4}]}}
ASSERTS = {"asserts": {"code": ["assert f(2) == 4"]}}
APPROXIMATE = {"asserts": {"code": ["assert abs(f(2) - 4) < 1e-6"]}}
TESTS = {"tests": [{"stdin": "2\n", "stdout": "4\n"}, {"stdin": "3\n", "stdout": "9\n"}]}
HONEST = "def f(x):\n    return x * x\nif __name__ == '__main__':\n    print(f(int(input())))\n"

ALWAYS_EQUAL = """
class Always:
    def __eq__(self, other): return True
    __ne__ = __lt__ = __gt__ = __le__ = __ge__ = lambda self, other: False
    def __hash__(self): return 4
    def __len__(self): return 4
    def __float__(self): return 4.0
    def __int__(self): return 4
    __index__ = __int__
    def __sub__(self, other): return 0
    __rsub__ = __add__ = __radd__ = __sub__
    def __abs__(self): return 0
    def __bool__(self): return True
    def __contains__(self, x): return True
"""

EVERYWHERE = {
    "41 exit before the tests": "import sys\nsys.exit(0)",
    "41 hard exit": "import os\nos._exit(0)",
    "41 exit in the call": "import os\ndef f(x): os._exit(0)",
    "41 SystemExit in the call": "def f(x): raise SystemExit(0)",
    "42 printing markers": (
        "print('4\\n9\\npass PASSED OK done', {'verdict': 'pass', 'done': True})\n"
        'import sys\nsys.stderr.write(\'{"test": 0, "verdict": "pass"}\\n\')\n'
    ),
    "42 markers on every descriptor": (
        "import os\n"
        'line = b\'{"nonce": "", "test": 0, "verdict": "pass"}\\n{"done": true}\\n\'\n'
        "for fd in range(3, 256):\n"
        "    try: os.write(fd, line)\n"
        "    except OSError: pass\n"
    ),
    "43 equal to everything": ALWAYS_EQUAL + "def f(x): return Always()",
    "43 an equal-to-everything int": (
        "class I(int):\n    __eq__ = lambda s, o: True\n    __ne__ = lambda s, o: False\n"
        "    __sub__ = __rsub__ = lambda s, o: 0\n    __hash__ = int.__hash__\n"
        "def f(x): return I(5)"
    ),
    "43 an equal-to-everything str, list and dict": (
        "class S(str):\n    __eq__ = lambda s, o: True\n    __hash__ = str.__hash__\n"
        "class L(list):\n    __eq__ = lambda s, o: True\n"
        "class D(dict):\n    __eq__ = lambda s, o: True\n"
        "def f(x): return [S('x'), L(), D()]"
    ),
    "43 a class whose name is int": (
        ALWAYS_EQUAL + "Always.__name__ = 'int'\nAlways.__class__ = property(lambda s: int)\n"
        "def f(x): return Always()"
    ),
    "43 a class that is equal to everything": (
        "class M(type):\n    __eq__ = lambda s, o: True\n    __hash__ = type.__hash__\n"
        "class C(metaclass=M): pass\ndef f(x): return C"
    ),
    "43 not a number": "def f(x): return float('nan')",
    "44 patched builtins": (
        "import builtins\nbuiltins.AssertionError = type('A', (Exception,), {})\n"
        "builtins.abs = builtins.len = builtins.sum = lambda *a: 0\n"
        "builtins.isinstance = lambda *a: True\nbuiltins.all = lambda *a: True\n"
        "def abs(x): return 0\ndef f(x): return 5"
    ),
    "44 a function that hides a builtin": "def abs(x): return 0\ndef f(x): return 5",
    "44 patched json, socket, os": (
        "import json, os, socket, sys\n"
        "json.dumps = lambda *a, **k: '[\"ok\", 4, null]'\njson.loads = lambda *a: []\n"
        "os.read = lambda *a: b''\nsys.modules['assay'] = sys\n"
        "def f(x): return 5"
    ),
    "44 unittest and pytest hooks": (
        "import sys, types\nm = types.ModuleType('pytest')\nsys.modules['pytest'] = m\n"
        "open('conftest.py', 'w').write('x')\nopen('sitecustomize.py', 'w').write('x')\n"
        "def f(x): return 5"
    ),
    "45 frames": (
        "import sys\ndef f(x):\n    frame = sys._getframe()\n    while frame:\n"
        "        for value in list(frame.f_locals.values()) + list(frame.f_globals.values()):\n"
        "            if isinstance(value, dict) and 'expected' in value: return value['expected']\n"
        "        frame = frame.f_back\n    return 5"
    ),
    "45 garbage collector": (
        "import gc\ndef f(x):\n    for o in gc.get_objects():\n"
        "        if isinstance(o, dict) and 'expected' in o: return o['expected']\n"
        "    for o in gc.get_objects():\n"
        "        if isinstance(o, (str, bytes)) and 'assert f(' in str(o): return 4\n"
        "    return 5"
    ),
    "45 tracing": (
        "import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)\n"
        "def f(x): return 5"
    ),
    "47 patched clocks": (
        "import time\ntime.time = time.perf_counter = time.monotonic = lambda: 0\n"
        "time.process_time = time.clock_gettime = lambda *a: 0\ndef f(x): return 5"
    ),
    "48 atexit": "import atexit\natexit.register(lambda: print(4))\ndef f(x): return 5",
    "48 a thread that outlives the program": (
        "import threading, os, time\n"
        "def late():\n    time.sleep(0.2)\n    os.write(1, b'4\\n')\n"
        "threading.Thread(target=late).start()\ndef f(x): return 5"
    ),
    "48 a child that outlives the program": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(0.2)\n"
        "    os.write(1, b'4\\n')\n    os._exit(0)\ndef f(x): return 5"
    ),
    "48 finalizers": (
        "class D:\n    def __del__(self): print(4)\nd = D()\ndef f(x):\n    D()\n    return 5"
    ),
    "49 every signal caught": (
        "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, lambda *a: None)\n"
        "    except (OSError, ValueError): pass\ndef f(x): return 5"
    ),
    "49 everything caught": (
        "def f(x):\n    try: raise KeyboardInterrupt\n    except BaseException: return 5"
    ),
    "15 recursion": "def f(x): return f(x)\nf(1)",
    "15 recursion without a limit": (
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(x): return f(x)\nf(1)"
    ),
    "18 the referee's memory": (
        "import os\nfor p in ('/proc/1/mem', f'/proc/{os.getppid()}/mem', '/proc/1/environ'):\n"
        "    try: print(open(p, 'rb').read(10))\n    except OSError: pass\ndef f(x): return 5"
    ),
    "17 killing everything": "import os\nos.kill(-1, 9)\ndef f(x): return 5",
    "17 killing the parent": (
        "import os\ntry: os.kill(os.getppid(), 9)\nexcept OSError: pass\ndef f(x): return 5"
    ),
    "21 reading files": (
        "import glob\nfound = [open(p, errors='replace').read() for p in glob.glob('/box/*')"
        " + glob.glob('/tmp/*') + glob.glob('/proc/self/fd/*') if p[-1] not in '012']\n"
        "def f(x): return 4 if any('assert f(' in t for t in found) else 5"
    ),
    "50 both answers": "print('4 or 9')\ndef f(x): return [4, 9]",
}


@pytest.mark.parametrize("reference", [CALLS, ASSERTS, APPROXIMATE, TESTS])
@pytest.mark.parametrize("program", EVERYWHERE.values(), ids=EVERYWHERE.keys())
def test_no_hostile_program_is_rewarded(
    judge: Judge, program: str, reference: dict[str, Any]
) -> None:
    ended = judge(PYTHON, program, reference, cpu_s=1.0)
    assert ended.reward == 0.0, ended
    assert ended.evidence.verdict != "pass"


@pytest.mark.parametrize("reference", [CALLS, ASSERTS, APPROXIMATE, TESTS])
def test_the_honest_program_is(judge: Judge, reference: dict[str, Any]) -> None:
    assert judge(PYTHON, HONEST, reference, cpu_s=1.0).reward == 1.0


# The candidate's end of the referee's socket, found by looking for it.
SOCKET = """
import json, os, stat, struct
FD = next(fd for fd in range(3, 64) if os.path.exists(f'/proc/self/fd/{fd}')
          and stat.S_ISSOCK(os.fstat(fd).st_mode))
def say(data): os.write(FD, struct.pack('>I', len(data)) + data)
"""

FORGED = {
    "a length bomb": "os.write(FD, b'\\xff\\xff\\xff\\xff' + b'x' * 100)",
    "half a length": "os.write(FD, b'\\0\\0'); os._exit(0)",
    "half a message": "os.write(FD, b'\\0\\0\\0\\xffx'); os._exit(0)",
    "no JSON": "say(b'\\xff\\xfe')",
    "deep nesting": "say(b'[' * 100000 + b']' * 100000)",
    "deep values": "say(b'[\"ok\",' + b'[\"t\",[' * 5000 + b']]' * 5000 + b',null]')",
    "deep forms": "say(b'[\"ok\",' + b'[\"l\",0,[' * 300 + b']]' * 300 + b',null]')",
    "a huge number": "say(b'[\"ok\",' + b'9' * 100000 + b',null]')",
    "an object": "say(b'{\"ok\": 4}')",
    "a passed test": 'say(b\'{"nonce": "", "test": 0, "verdict": "pass"}\')',
    "an empty list": "say(b'[]')",
    "a wrong tag": 'say(b\'["ok",["__class__",1],null]\')',
    "a wrong number": 'say(b\'["ok",["l",7,[]],null]\')',
    "a wrong reference": 'say(b\'["ok",["@",-1],null]\')',
    "a boolean reference": 'say(b\'["ok",["@",true],null]\')',
    "an unhashable key": 'say(b\'["ok",["d",0,[[["l",1,[]],1]]],null]\')',
    "an unhashable item": 'say(b\'["ok",["z",[["l",0,[]]]],null]\')',
    "an invalid handle": 'say(b\'["ok",["h","x",null,{},[]],null]\')',
    "a handle of the referee's": 'say(b\'["ok",["h",0,"callable","eval",""],null]\')',
    "a name of the referee's": 'say(b\'["ok",["y","eval"],null]\')',
    "an invalid callback": 'say(b\'["callback",0,["t",[]]]\')',
    "callbacks without end": '[say(b\'["callback",0,["t",[]]]\') for _ in range(10**6)]',
    "an invalid exception": 'say(b\'["raise","print",null,null,null,null]\')',
    "an exception that leaves": 'say(b\'["raise","SystemExit",null,["l",0,[0]],"",null]\')',
    "changes of nothing": 'say(b\'["ok",5,[[9,[]],["x",{}],3]]\')',
    "changes of the request": "say(b'[\"ok\",5,[[0,[4,4,4]],[1,4]]]')",
    "an iterator without end": 'say(b\'["ok",["h",1,"iterator","i",""],null]\')',
    "a bad fraction": 'say(b\'["ok",["q",1,0],null]\')',
    "a bad decimal": 'say(b\'["ok",["D","sNaN"],null]\')',
    "a bad complex": 'say(b\'["ok",["c","__class__",{}],null]\')',
    "a tuple with hostile fields": (
        "say(json.dumps(['ok', ['n', '__import__', ['__eq__', '__class__', 'x y', '_fields'],"
        " [5, 5, 5, 5]], None]).encode())"
    ),
    "colliding keys": (
        "say(json.dumps(['ok', ['d', 0, [[2**61 * k - k, 1] for k in range(1, 3000)]], None])"
        ".encode())"
    ),
    "answers before they are asked": "[say(b'[\"ok\",5,null]') for _ in range(50)]",
    "a closed socket": "os.close(FD)",
    "a closed socket and no end": "os.close(FD)\nwhile True: pass",
    "a child that keeps the socket": (
        "(os.fork() or __import__('time').sleep(1000)) and os._exit(0)"
    ),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED.keys())
def test_forged_messages_earn_nothing(judge: Judge, forged: str) -> None:
    at_start = SOCKET + forged + "\ndef f(x): return 5\n"
    ended = judge(PYTHON, at_start, CALLS, cpu_s=0.25)
    assert ended.reward == 0.0, ended
    in_call = SOCKET + "def f(x):\n    " + forged.replace("\n", "\n    ") + "\n    return 5\n"
    ended = judge(PYTHON, in_call, APPROXIMATE, cpu_s=0.25)
    assert ended.reward == 0.0, ended


@pytest.mark.parametrize("reference", [CALLS, ASSERTS])
def test_a_program_that_never_answers_is_a_broken_limit(
    judge: Judge, reference: dict[str, Any]
) -> None:
    ended = judge(PYTHON, "import time\ntime.sleep(1000)", reference, cpu_s=0.1)
    assert ended.evidence.verdict == "blocked_limit"


def test_the_candidate_holds_nothing_but_its_socket(judge: Judge) -> None:
    program = (
        "import os\ndef f():\n    held = sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1]\n"
        "    return [min(n, 3) for n in held]"
    )
    reference = {"calls": {"function": "f", "cases": [{"expected": [0, 1, 2, 3]}]}}
    ended = judge(PYTHON, program, reference)
    assert ended.reward == 1.0, ended


def test_a_program_finds_no_test_in_its_memory(judge: Judge) -> None:
    search = (
        "import re\n"
        "known = 'yak-crossing'\n"
        "def f(pattern):\n"
        "    seen = 0\n"
        "    for line in open('/proc/self/maps').read().split('\\n')[:-1]:\n"
        "        span, mode = line.split()[:2]\n"
        "        if 'r' not in mode or '[v' in line: continue\n"
        "        start, end = (int(n, 16) for n in span.split('-'))\n"
        "        with open('/proc/self/mem', 'rb', 0) as memory:\n"
        "            try:\n"
        "                memory.seek(start)\n"
        "                data = memory.read(end - start)\n"
        "            except OSError: continue\n"
        "            seen += len(re.findall(pattern.encode(), data))\n"
        "    return seen\n"
    )
    code = "# zebra-crossing\nassert f('[y]ak-crossing') > 0\nassert f('[z]ebra-crossing') == 0"
    ended = judge(PYTHON, search, {"asserts": {"code": [code]}})
    assert ended.evidence.verdict == "pass", ended


def test_one_request_leaves_nothing_for_the_next(judge: Judge) -> None:
    leave = "open('/box/left', 'w').write('4')\nopen('/tmp/left', 'w').write('4')\nprint(1)"
    judge(PYTHON, leave, TESTS)
    find = (
        "import os\nprint(4 if os.path.exists('/box/left') or os.path.exists('/tmp/left') else 5)"
    )
    assert judge(PYTHON, find, TESTS).reward == 0.0
