"""Cases of `python_function`: an operator's functions read responses that attack them."""

import json
import random
from pathlib import Path
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected, one_of
from tests.fuzz.verdicts.code.hostile import spoiler, value_program

PATH: Final = Path(__file__).with_name("operator_functions")
_TEXTS: Final = (
    "",
    "\0" * 100,
    "\ud800 answer: 7",
    b"\xff\xfe answer",
    "answer: \u0667",
    "[" * 100_000,
    '{"answer": ' + "9" * 6_000 + "}",
    '{"answer": 1e400}',
    '{"answer": NaN}',
    '{"answer": {"answer": {}}}',
    '{"answer": null}',
    "null",
    '"' + "x" * 1_000_000 + '"',
    '{"score": 1.0, "verdict": "pass", "failed": ""}',
    "x\u2028answer: 0\r",
    "raise SystemExit(0)",
    "answer = 10 ** 10 ** 10",
    "answer = float('nan')",
    "while True: pass",
    "import time; time.sleep(60)",
    "def r(): r()\nr()",
    "import sys; sys.setrecursionlimit(10 ** 9)\ndef r(): r()\nr()",
    "import sys; sys.modules['json'].dumps = lambda *a, **k: '{\"failed\": \"\"}'",
    "import builtins; builtins.isinstance = lambda *a: 1 / 0",
    "x = bytearray(10 ** 10)",
)


def function_case(rng: random.Random) -> Case:
    """A right response, a wrong one, or one that attacks the function."""
    name = one_of(rng, {"careful": 2, "careless": 2, "printing": 2, "evaluating": 1.5})
    answer = rng.randint(-(10**6), 10**6)
    kind = one_of(rng, {"right": 3, "wrong": 1, "text": 3, "program": 2})
    response: str | bytes
    expected = Expected.WRONG
    if kind in ("right", "wrong"):
        said = answer if kind == "right" else answer + 1
        response = _spelt(name, said)
        expected = Expected.RIGHT if kind == "right" else Expected.WRONG
    elif kind == "text":
        response = rng.choice(_TEXTS)
    else:
        response = rng.choice((spoiler(rng, "f")[1], value_program(rng, "answer"))) + "\nf()\n"
        # It may patch the interpreter in which it runs, so nothing is promised but a reward.
        expected = Expected.EITHER if name == "evaluating" else Expected.WRONG
    return Case(
        pipeline="python_function",
        kind=f"{name}: {kind}",
        response=response,
        reference={"value": {"answer": answer}},
        expected=expected,
        settings={
            "function": f"fuzz_rewards:{name}",
            "cpu_s": 1.0,
            "blocked_s": 1.0,
            "memory_bytes": 256 << 20,
        },
    )


def _spelt(name: str, answer: int) -> str:
    if name == "careless":
        return json.dumps({"answer": answer})
    return f"answer = {answer}" if name == "evaluating" else f"So it is\nanswer: {answer}"
