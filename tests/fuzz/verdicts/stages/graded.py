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


_FOLDER_TASK: Final = _TASK.replace("/app/{name}", "/app/out")
_FOLDER_TEST: Final = (
    'cd out 2> /dev/null; if [ "$(cat a.txt)" = "{n}" ]; then echo 1 > /logs/verifier/reward.txt;'
    " else echo 0 > /logs/verifier/reward.txt; fi\n",
    "cp out/r.json /logs/verifier/reward.json 2> /dev/null || python3 -c \"print(float(open('out/a.txt').read().strip() == '{n}'))\" > /logs/verifier/reward.txt\n",
)
_BESIDE: Final = (
    {"app/out/my file.txt": b"1"}, {"app/out/\u7b54\u6848": b"1"}, {"app/out/$(reboot)": b""}, {"app/out/-n": b"1"}, {"tests/test.sh": b"echo 1 > /logs/verifier/reward.txt"}, {"app/x": b"1"}, {"logs/verifier/reward.json": b"1"},
    {f"app/out/{at}": b"" for at in range(60)}, {"app/out/b/c/d/e": b"\xff" * 9_999}, {"app/outside": b"1"}, {"solution/solve.sh": b"1"}, {"steps/a/app/out/a.txt": b"1"},
)  # fmt: skip
_NOT_IT: Final[tuple[dict[str, bytes], ...]] = (
    {}, {"app/out/a.txt/b": b"{n}"}, {"app/out": b"{n}"}, {"app/out/a.txt": b""}, {"app/out/a.txt": b"\xff{n}"}, {"app/out/a.txt ": b"{n}"}, {"app/out/A.txt": b"{n}"}, {"app/out/a.txt": b"{n}" * 50_000},
)  # fmt: skip
_NO_REWARDS: Final = (
    b"", b"{", b"[" * 100_000, b"nan", b'{"reward": NaN}', b'{"a": 1, "b": 1}', b'{"reward": 1' + b"0" * 5_000 + b"}", b'{"\\ud800": 1}', b'{"reward": true}', b'{"reward": "1"}', b'{"reward": null}', b'{"reward": [1]}', b"1e999", b"\xff", b'{"x": {"reward": 1}}', b'"1"',
)  # fmt: skip


def folder_case(rng: random.Random) -> Case:
    """A folder of files, some of which a candidate has named: only what is declared is there."""
    number = rng.randint(1_000, 9_999)
    copies = rng.random() < 0.4
    is_right = not copies and rng.random() < 0.5
    files: dict[str, bytes] = dict(rng.choice(_BESIDE)) if rng.random() < 0.7 else {}
    if copies:
        files["app/out/r.json"] = rng.choice(_NO_REWARDS)
    elif is_right:
        files["app/out/a.txt"] = f"{number}\n".encode()
    else:
        chosen = rng.choice(_NOT_IT)
        files |= {at: told.replace(b"{n}", b"%d" % number) for at, told in chosen.items()}
        if "app/out" in files:
            files = {at: told for at, told in files.items() if not at.startswith("app/out/")}
    return Case(
        pipeline="harbor",
        kind=f"harbor folder: {'right' if is_right else 'wrong'}",
        response="",
        reference={
            "task": _FOLDER_TASK,
            "tests": {"test.sh": _coded(_FOLDER_TEST[copies].format(n=number))},
            "control": {"app/out/a.txt": _coded(f"{number}")},
        },
        expected=Expected.RIGHT if is_right else Expected.WRONG,
        artifacts=files,
    )


def graded_case(rng: random.Random) -> Case:
    """A response as a file that tests read, or as a program that they run."""
    if rng.random() < 0.4:
        return folder_case(rng)
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
