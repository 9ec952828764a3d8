"""Cases of `python_function`: what a function returns has the form that a response leads to."""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected

_FILLED: Final = (
    "so", "x\u200by", "\ud800", "z" * 200, "\0", "a b c d e", "\U0001f914", "w " * 90, "'\"\\", "{}", "é", "components score",
)  # fmt: skip
_SETTINGS: Final = {"cpu_s": 1.0, "blocked_s": 1.0, "memory_bytes": 256 << 20}


def number_case(rng: random.Random) -> Case:
    """A right answer, a wrong one or none, in words of any length."""
    answer = rng.randint(-999, 999)
    kind = rng.choice(("right", "right", "wrong", "none"))
    words = [rng.choice(_FILLED) for _ in range(rng.randint(0, 6))]
    if kind != "none":
        said = answer if kind == "right" else answer + 1
        words.insert(rng.randint(0, len(words)), f"answer: {said}")
    return Case(
        pipeline="python_function",
        kind=f"numbers: {kind}",
        response=" ".join(words).encode("utf-8", "surrogatepass"),
        reference={"value": {"answer": answer}},
        expected=Expected.RIGHT if kind == "right" else Expected.WRONG,
        settings={**_SETTINGS, "function": f"fuzz_numbers:{rng.choice(('typed', 'detailed'))}"},
    )
