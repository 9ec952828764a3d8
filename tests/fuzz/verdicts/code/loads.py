"""Programs that take longer than they may be blocked: on a core, waiting for one, or asleep.

Only the time that a program spends asleep counts, so a program that computes is right however long
it has to wait for its turn, and one that sleeps beyond the limit is wrong.
"""

import random
from typing import Any, Final

from tests.fuzz.verdicts.case import Case, Expected, one_of

_BLOCKED_S: Final = 0.3
_BUSY: Final = "import time\ndef busy(s):\n    while time.process_time() < s: sum(range(999))\n"
_COMPUTES: Final = (
    "    busy({s})\n",
    "    while time.thread_time() < {s}: sorted(range(999))\n",
    "    import threading\n    t = [threading.Thread(target=busy, args=({s},)) for _ in range({n})]\n"
    "    for one in t: one.start()\n    for one in t: one.join()\n",
    "    import os\n    for _ in range({n}):\n        if not os.fork():\n            busy({s} / {n})\n"
    "            os._exit(0)\n    for _ in range({n}): os.wait()\n",
    "    import os\n    a, b = os.pipe()\n    if not os.fork():\n        busy({s})\n        os.write(b, b'x')\n"
    "        os._exit(0)\n    os.read(a, 1)\n    os.wait()\n",
    "    import subprocess, sys\n    subprocess.run([sys.executable, '-c', 'import time\\n'\n"
    "        'while time.process_time() < {s}: pass'], check=True)\n",
    "    for _ in range(40):\n        time.sleep(0.001)\n        sum(range(99999))\n    busy({s})\n",
)
"""`{s}` is CPU time of a process, `{n}` a number of tasks."""
_SLEEPS: Final = (
    "    time.sleep({s})\n",
    "    import threading\n    threading.Event().wait({s})\n",
    "    import select\n    select.select([], [], [], {s})\n",
    "    import os\n    if not os.fork():\n        time.sleep({s})\n        os._exit(0)\n    os.wait()\n",
    "    import os\n    os.read(os.pipe()[0], 1)\n",
    "    import os\n    for _ in range(40): time.sleep({s} / 40); sum(range(999))\n",
)


def load_case(rng: random.Random) -> Case:
    """A function or a program that computes, or sleeps, for longer than the limit."""
    kind = one_of(rng, {"computes": 3, "sleeps": 1})
    is_right = kind == "computes"
    how = rng.randrange(len(_COMPUTES if is_right else _SLEEPS))
    longer_s = rng.uniform(0.5, 0.8) if is_right else rng.uniform(1.0, 2.0)
    spent = (_COMPUTES if is_right else _SLEEPS)[how].format(
        s=round(longer_s, 2), n=rng.choice((2, 3, 5))
    )
    value = rng.randint(1, 999)
    form = rng.choice(("calls", "asserts", "stdin"))
    function = f"{_BUSY}def f(x):\n{spent}    return x + 1\n"
    references: dict[str, dict[str, Any]] = {
        "calls": {"calls": {"function": "f", "cases": [{"args": [value], "expected": value + 1}]}},
        "asserts": {"asserts": {"code": [f"assert f({value}) == {value + 1}"]}},
        "stdin": {"tests": [{"stdin": f"{value}\n", "stdout": f"{value + 1}\n"}]},
    }
    return Case(
        pipeline="code.python",
        kind=f"{form}: {kind} {how}",
        response=function + ("print(f(int(input())))\n" if form == "stdin" else ""),
        reference=references[form],
        expected=Expected.RIGHT if is_right else Expected.WRONG,
        settings={"cpu_s": 20.0, "blocked_s": _BLOCKED_S, "extraction": "raw"},
    )
