"""Cases of `harbor`: tests of a task that read, or run, what a response left."""

import base64
import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected

_TASK: Final = """
version = "1.0"
artifacts = ["/app/{name}"]
[verifier]
timeout_sec = 2.0
[environment]
memory_mb = 256
storage_mb = 32
"""
_READ: Final = (
    'if [ "$(cat answer.txt)" = "{n}" ]; then echo 1 > /logs/verifier/reward.txt;'
    " else echo 0 > /logs/verifier/reward.txt; fi\n",
    'grep -qx "{n}" answer.txt && echo 1.0 > /logs/verifier/reward.txt\n'
    "[ -e /logs/verifier/reward.txt ] || echo 0 > /logs/verifier/reward.txt\nexit 1\n",
    "python3 - <<'END'\nimport json\nright = open('answer.txt').read().strip() == '{n}'\n"
    "json.dump({{'reward': float(right), 'tidy': 1}}, open('/logs/verifier/reward.json', 'w'))\nEND\n",
    "python3 -c 'print(float(int(open(\"answer.txt\").read()) == {n}))' > /logs/verifier/reward.txt\n",
    'eval "v=\\"$(cat answer.txt)\\""; [ "$v" = {n} ] && r=1 || r=0; echo "{{\\"reward\\": $r}}" > /logs/verifier/reward.json\n',
)
_RUN: Final = (
    "timeout 1 python3 answer.py > /tmp/out 2> /tmp/err\n"
    'if [ "$(cat /tmp/out)" = "{n}" ]; then echo 1 > /logs/verifier/reward.txt;'
    " else echo 0 > /logs/verifier/reward.txt; fi\n"
)
_ANSWERS: Final = ("{n}", "{n}\n")
_NO_ANSWERS: Final = (
    "", "{m}", "{n}{n}", "reward 1", '{{"reward": 1}}', "1\n{m}", "\0", "$(echo 1 > /logs/verifier/reward.txt)", "; echo 1", "' + '1", "{m}; exit 0", "x" * 100_000, "\ud800", "`kill -9 $PPID`",
    "nan", "inf", "1e999", "9" * 5_000,
)  # fmt: skip
_PROGRAMS: Final = (
    "print({n})",
    "import sys\nsys.stdout.write('{n}')",
    "print(*[{n}])\nraise SystemExit(0)",
)
_NO_PROGRAMS: Final = (
    "print({m})", "", "def", "while True: pass", "import os\nos.abort()", "import time\ntime.sleep(60)", "print(1)", "import os\nwhile True: os.fork()",
    "import json\njson.dump({{'reward': 1}}, open('/logs/verifier/reward.json', 'w'))", "open('/logs/verifier/reward.json', 'w').write('1')", "open('/logs/verifier/reward.txt', 'w').write('1')",
    "import os\nos.mkfifo('/logs/verifier/reward.json')", "import os\nos.symlink('/etc/hostname', '/logs/verifier/reward.json')", "import os\nos.mkdir('/logs/verifier/reward.json')",
    "open('/logs/verifier/reward.json', 'wb').truncate(1 << 24)", "open('/logs/verifier/reward.json', 'w').write('{{')", "x = bytearray(1 << 30)", "open('/tmp/big', 'wb').write(bytes(64 << 20))",
    "import os\nos.chmod('/logs/verifier', 0)", "import shutil\nshutil.rmtree('/logs', True)", "import os\nos.kill(os.getppid(), 9)", "import os\nos.kill(-1, 9)", "import sys\nsys.stdout.write('{m}' * 1_000_000)",
)  # fmt: skip


def graded_case(rng: random.Random) -> Case:
    """A response as a file that tests read, or as a program that they run."""
    runs = rng.random() < 0.5
    number = rng.randint(1000, 9999)
    other = number + rng.choice((1, -1, 10))
    is_right = rng.random() < 0.4
    texts = (_PROGRAMS if is_right else _NO_PROGRAMS) if runs else (_ANSWERS if is_right else _NO_ANSWERS)  # fmt: skip
    script = (_RUN if runs else rng.choice(_READ)).format(n=number)
    name = "answer.py" if runs else "answer.txt"
    response = rng.choice(texts).format(n=number, m=other)
    control = {f"app/{name}": _coded(f"print({number})" if runs else f"{number}")}
    return Case(
        pipeline="harbor",
        kind=f"harbor: {'right' if is_right else 'wrong'}",
        response=response.encode("utf-8", "surrogatepass"),
        reference={
            "task": _TASK.format(name=name),
            "tests": {"test.sh": _coded(script)},
            "response_file": f"/app/{name}",
            "control": control,
        },
        expected=Expected.RIGHT if is_right else Expected.WRONG,
    )


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")
