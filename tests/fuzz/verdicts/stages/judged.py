"""Cases of `code.checked` and `code.interactive`: programs that a jury's program judges."""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected

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


def judged_case(rng: random.Random) -> Case:
    """A program that a checker, or an interactor, accepts or not."""
    is_right = rng.random() < 0.35
    settings = {**_LIMITS, "language": "python", "extraction": "raw"}
    if rng.random() < 0.5:
        program = rng.choice(_SPLITS if is_right else _NO_SPLITS)
        source = _CHECKER.replace("{careless}", rng.choice(_CARELESS))
        tests = [{"stdin": f"{n}\n", "answer": f"{n} 0\n"} for n in (5, rng.randint(9, 99))]
        reference = {"tests": tests, "checker": {"language": "python", "source": source}}
        pipeline = "code.checked"
    else:
        program = rng.choice(_TALKS if is_right else _NO_TALKS)
        source = _GUESS.replace("{careless}", rng.choice(_SLOW))
        source = source.replace("{most}", rng.choice(("", "100")))
        tests = [{"stdin": f"{rng.randint(1, 99)}\n"} for _ in range(2)]
        reference = {"tests": tests, "interactor": {"language": "python", "source": source}}
        pipeline = "code.interactive"
    return Case(
        pipeline=pipeline,
        kind="judged: right" if is_right else "judged: wrong",
        response=program,
        reference=reference,
        expected=Expected.RIGHT if is_right else Expected.WRONG,
        settings=settings,
    )
