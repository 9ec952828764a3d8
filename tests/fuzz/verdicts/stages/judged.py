"""Cases of `code.checked` and `code.interactive`: programs that a jury's program judges."""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected
from tests.fuzz.verdicts.stages import judged_programs as more

_CHECKER: Final = """
import sys
text, output, answer = (open(name, "rb").read() for name in sys.argv[1:4])
{careless}
try:
    a, b = map(int, output.split())
except ValueError:
    print("not two numbers", file=sys.stderr)
    sys.exit(2)
if a + b != int(text):
    print(f"{a} + {b} is another number", file=sys.stderr)
    sys.exit(1)
"""
_CARELESS: Final = (
    "", "output.decode('ascii') or sys.exit(3)", "if len(output) > 99: sys.exit(77)",
    "if b'x' in output: import os; os.abort()", "if output[:1] == b'p':\n    while True: pass",
    "import re; re.fullmatch(rb'(\\s*\\d+)+', output)",
)  # fmt: skip
"""Ways in which a checker fails for some outputs."""
_SPLITS: Final = (
    "n = int(input())\nprint(n - 3, 3)", "n = int(input())\nprint(f'{n}\\n\\n0')", "import sys\nn = int(sys.stdin.read())\nsys.stdout.write(f'{n + 7} -7')",
    "print(*(lambda n: (0, n))(int(input())))", "n = int(open(0).read())\nprint(n // 2, n - n // 2, flush=True)\nraise SystemExit",
)  # fmt: skip
_NO_SPLITS: Final = (
    "n = int(input())\nprint(n - 3, 4)", "n = int(input())\nprint(n)", "n = int(input())\nprint(n, 0, 0)", "print('ok')", "print('points 1')", "print('wrong answer')", "print('a' * 100_000)",
    "import sys\nsys.stderr.write('points 1\\nok accepted')\nsys.exit(7)", "import sys\nsys.exit(0)", "print('x')", "print('p')", "print('\\0', '\\xff')", "print('1' * 5000, '1')", "print('1 ' * 40 + 'x')",
    "import os\nos.write(1, bytes(range(256)) * 99)", "n = int(input())\nprint(n - 3, 3)\nraise SystemExit(1)", "n = int(input())\nprint(n - 3, 3, flush=True)\nimport os\nos.abort()",
    "n = int(input())\nprint(n - 3, 3, flush=True)\nimport time\ntime.sleep(9)", "n = int(input())\nprint(n - 3, 3, flush=True)\nwhile True: pass", "while True: print(1)", "import os\nwhile True: os.fork()",
    "import os, signal\nos.kill(-1, 9)\nos.kill(1, 9)", "import os\nos.kill(os.getppid(), 19)\nwhile True: pass", "n = int(input())\nprint(f'{n}.0', 0)", "n = int(input())\nprint(f'0x{n:x}', 0)",
    "print('\\n' * 900_000)", "print('9' * 900_000)", "import os\nos.write(1, b'\\xff 5')", "print(' '.join(['0'] * 300_000))", "import os\nos.close(1)", "import sys\nsys.stdout.buffer.write('5 0'.encode('utf-16'))", "print('-')",
    "n = int(input())\nprint(n, 0, end='', flush=True)\nimport os\nos.kill(os.getpid(), 19)", "raise BaseException('\\ud800')", "import sys\nsys.excepthook = None\nsys.stdout.close()", "import ctypes\nctypes.string_at(0)", "import os\nos.execv('/bin/sh', ['sh', '-c', 'exit 0'])",
    "import os\nos.dup2(2, 1)\nprint(input(), 0)", "import os\nn = int(input())\nfor f in range(3, 99):\n    try: os.write(f, b'%d 0' % n)\n    except OSError: pass", "n = int(input())\nprint(f'{n} 0\\0')", "n = int(input())\nprint(f'{n}e0 0')",
    "open('answer', 'w').write('1')\nopen('output', 'w').write('1')", "import sys\nprint(sys.argv, open('input').read())", "def", "", "\0", "print(10 ** 5000 if 0 else '9' * 4400, 1)", "print('nan', 'inf')",
)  # fmt: skip
_GUESS: Final = """
import sys, time
n = int(open(sys.argv[1]).read())
{careless}
for _ in range(9):
    line = sys.stdin.readline({most})
    try:
        guess = int(line)
    except ValueError:
        print("no number", file=sys.stderr)
        sys.exit(2)
    if guess == n:
        print("=", flush=True)
        sys.exit(0)
    print("<" if n < guess else ">", flush=True)
print("too many questions", file=sys.stderr)
sys.exit(1)
"""
_TALKS: Final = (
    "low, high = 1, 100\nwhile True:\n    middle = (low + high) // 2\n    print(middle, flush=True)\n    told = input()\n    if told == '=':\n        break\n    low, high = (low, middle - 1) if told == '<' else (middle + 1, high)",
    "import sys\nlow, high = 0, 100\nwhile low < high:\n    middle = (low + high) // 2\n    sys.stdout.write(f' {middle} \\n')\n    sys.stdout.flush()\n    told = sys.stdin.readline().strip()\n    if told == '=':\n        sys.exit(0)\n    if told == '<':\n        high = middle\n    else:\n        low = middle + 1\nprint(low, flush=True)\nsys.stdin.read()",
)  # fmt: skip
_NO_TALKS: Final = (
    "print('=', flush=True)\ninput()", "for n in range(1, 200): print(n, flush=True)", "print('1' * 100_000, flush=True)\ninput()", "pass", "input()", "raise SystemExit(5)", "import os\nos.abort()",
    "import os\nos.close(0)\nos.close(1)\nimport time\ntime.sleep(60)", "while True: pass", "while True: print(101)", "import os\nwhile True: os.fork()", "import os\nos.kill(-1, 9)\nos.kill(1, 9)",
    "import os\nos.kill(-1, 19)\nos.kill(1, 19)", "import os\nos.write(1, b'\\0\\xff\\n' * 9)\ninput()", "import sys\nsys.stdout.write('1' * 50_000_000)", "print(-1, flush=True)\nraise SystemExit(0)",
    "print('points 1', flush=True)\nraise SystemExit(7)", "import os\nfor f in range(3, 300):\n    try: os.write(f, b'1\\n')\n    except OSError: pass", "import signal\nsignal.raise_signal(signal.SIGPIPE)",
    "import os, signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\nos.close(0)\nwhile True: os.write(1, b'101\\n')", "import os\nfor pid in os.listdir('/proc'):\n    if pid.isdigit():\n        try: print(open(f'/proc/{pid}/environ').read(9), flush=True)\n        except OSError: pass",
    "import os\nif os.fork(): os._exit(0)\nos.setsid()\nwhile True: pass", "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (9999, 9999))\nwhile True: pass", "def", "",
    "print('\\u00b2', flush=True)\ninput()", "print('-' * 9, flush=True)\ninput()", "import os, time\nwhile True:\n    os.write(1, b'1')\n    time.sleep(0.01)", "import os\nos.write(1, b'\\n' * 900_000)\ninput()", "import sys\nsys.exit(141)",
    "x = [bytearray(1 << 20) for _ in range(600)]\ninput()", "import mmap\nm = [mmap.mmap(-1, 1 << 26) for _ in range(9)]\nfor q in m: q[::4096] = b'x' * len(q[::4096])\ninput()", "import socket\ns = [socket.socketpair() for _ in range(400)]\ninput()",
    "import os\nos.setsid()\nfor _ in range(40):\n    if not os.fork():\n        import time\n        time.sleep(99)\ninput()", "import os\nos.nice(19)\nfor pid in range(2, 200):\n    try: os.kill(pid, 9)\n    except OSError: pass\ninput()",
    "import fcntl, os\nfcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)\nwhile True:\n    try: os.write(1, b'0\\n' * 99_999)\n    except BlockingIOError: pass", "print('=', flush=True)\nprint('=', flush=True)\nraise SystemExit(0)", "import ctypes\nl = ctypes.CDLL(None)\nl.shmget(1, 1 << 28, 0o1666)\nl.msgget(1, 0o1666)\ninput()",
    "import fcntl\nfcntl.fcntl(0, 1031, 1 << 30)\nprint(1)", "import os\nos.ftruncate(1, 0)", "print('9' * 4_400, flush=True)\ninput()",
)  # fmt: skip
_SLOW: Final = ("", "time.sleep(0.05)", "sys.stderr.write('hello ' * 999)")
_LIMITS: Final = {
    "cpu_s": 0.6,
    "blocked_s": 0.6,
    "memory_bytes": 64 * 1024**2,
    "output_bytes": 1_000_000,
    "judge_cpu_s": 1.0,
    "total_blocked_s": 2.0,
}


_LINE: Final = "n = int(input())\nprint(1)\nprint(n)"
_LIST: Final = "n = int(input())\nprint([n, 0])"
_SQUARE: Final = "print(int(input()) ** 2, flush=True)"
_CHECKERS: Final[tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...]] = (
    (_CHECKER, "{n} 0", _SPLITS, (*_NO_SPLITS, *more.NO_SPLITS)),
    (more.NAIVE, "{n} 0", _SPLITS, (*_NO_SPLITS, *more.NO_SPLITS)),
    (more.POINTS, "{n} 0", _SPLITS, (*_NO_SPLITS, *more.NO_SPLITS)),
    (more.LINES, "1\n{n}", (_LINE,), (*more.NO_LINES, *_NO_SPLITS)),
    (more.DOCUMENT, "[{n}, 0]", (_LIST,), (*more.NO_DOCUMENTS, *more.NO_SPLITS)),
)
"""Checker, the jury's answer, right and wrong programs."""
_ENDED: Final = tuple(f"{_TALKS[0]}\n{end}" for end in more.NO_ENDS)
_INTERACTORS: Final[tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]] = (
    (_GUESS, _TALKS, (*_NO_TALKS, *more.NO_TALKS, *_ENDED)),
    (more.GUESSED, _TALKS, (*_NO_TALKS, *more.NO_TALKS, *_ENDED)),
    (more.GUESSED_FOR_POINTS, _TALKS, (*_NO_TALKS, *more.NO_TALKS, *_ENDED)),
    (more.SQUARED, (_SQUARE,), (*more.NO_SQUARES, *_NO_TALKS)),
    (more.PROVOKED, (), more.PROVOCATIONS),
)


def judged_case(rng: random.Random) -> Case:
    """A program that a checker, or an interactor, accepts or not."""
    settings = {**_LIMITS, "language": "python", "extraction": "raw"}
    wants_right = rng.random() < 0.35
    if rng.random() < 0.5:
        pipeline, name = "code.checked", "checker"
        source, answer, right, wrong = rng.choice(_CHECKERS)
        source = source.replace("{careless}", rng.choice(_CARELESS))
        tests = [{"stdin": f"{n}\n", "answer": answer.format(n=n)} for n in (5, rng.randint(9, 99))]
    else:
        pipeline, name = "code.interactive", "interactor"
        source, right, wrong = rng.choice(_INTERACTORS)
        source = source.replace("{careless}", rng.choice(_SLOW))
        source = source.replace("{most}", rng.choice(("", "100")))
        tests = [{"stdin": f"{rng.randint(51, 99)}\n"} for _ in range(2)]
    is_right = wants_right and bool(right)
    reference: dict[str, object] = {
        "tests": tests,
        name: {"language": "python", "source": source},
    }
    if source in (more.POINTS, more.GUESSED_FOR_POINTS):
        reference["points_max"] = 8
    return Case(
        pipeline=pipeline,
        kind="judged: right" if is_right else "judged: wrong",
        response=rng.choice(right if is_right else wrong),
        reference=reference,
        expected=Expected.RIGHT if is_right else Expected.WRONG,
        settings=settings,
    )
