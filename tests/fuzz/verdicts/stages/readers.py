"""Cases of `python_function` with transcripts and files, and functions that some texts trip up."""

import random
from typing import Any, Final

from tests.fuzz.verdicts.case import Case, Expected

_TRIPS: Final = {
    "matching": ("a" * 40 + "!", "a" * 5_000 + "!", "", "\ud800", "answer: ٣"),
    "converting": ("nan", "inf", "-inf", "1e999", "9" * 6_000, "x", "\0", "٣", "1_0", "0x1", "\ud800", " "),
    "recursing": ('{"answer": ' * 3_000, '{"answer": ' * 900 + "1" + "}" * 900, "[" * 50_000, "{}", "null", "1e999", '{"answer": {"answer": NaN}}', "\ufeff1"),
    "waiting": ("x", "now", "9" * 400, "-", "\0", "٣", "1.5"),
    "leaving": ("e", "k", "s", "a", "k\0", "\ud800"),
    "filling": ("x" * 900_000, "\0" * 9_000, "\ud800" * 999, "\U0001f600" * 99_999, "score", '"', "reward\n", "answer:", "=" * 64),
    "transcribed": ("x", "", "answer: "),
    "collecting": ("x", "answer: 7", "out/answer.txt"),
}  # fmt: skip
_CONTENTS: Final[tuple[Any, ...]] = (
    None, [], [{"type": "text", "text": "answer: {n}"}], {"text": "answer: {n}"}, 7, "\ud800", "\0" * 99, "x" * 100_000, True, [None],
)  # fmt: skip
_FILES: Final = (
    b"", b"\xff\xfe", b"\0" * 99, b"answer", b"9" * 9_000, b"x" * 2_000_000, b"\xed\xa0\x80", "٣".encode(), b"1e3", b"nan",
)  # fmt: skip
_NAMES: Final = (
    "out/answer.txt",
    "out/answer.txt.bak",
    "out/a",
    "answer.txt",
    "a/b/c/d",
    "-",
    "A.B",
)
_LIMITS: Final = {"cpu_s": 1.0, "blocked_s": 0.5, "memory_bytes": 256 << 20}


def reader_case(rng: random.Random) -> Case:
    """A right response, or one that a function cannot read."""
    name = rng.choice(list(_TRIPS))
    answer = rng.randint(1_000, 9_999)
    is_right = rng.random() < 0.4
    text = f"answer: {answer}"
    if name == "recursing":
        text = f'{{"answer": {{"answer": {answer}}}}}'
    messages: list[dict[str, Any]] = []
    artifacts: dict[str, bytes] = {}
    if name == "transcribed":
        messages = [
            {"role": "user", "content": "How many?"},
            {"role": "assistant", "content": text},
        ]
        if not is_right:
            at = rng.randint(0, 1)
            messages[at] = {**messages[at], "content": rng.choice(_CONTENTS)}
            messages.append({"role": "assistant", "content": "so"})
    if name == "collecting":
        artifacts = {rng.choice(_NAMES[1:]): rng.choice(_FILES) for _ in range(rng.randint(0, 3))}
        artifacts["out/answer.txt"] = f"{answer}\n".encode() if is_right else rng.choice(_FILES)
    return Case(
        pipeline="python_function",
        kind=f"{name}: {'right' if is_right else 'trips'}",
        response=(text if is_right else rng.choice(_TRIPS[name])).encode("utf-8", "surrogatepass"),
        reference={"value": {"answer": answer}},
        expected=Expected.RIGHT if is_right else Expected.WRONG,
        settings={**_LIMITS, "function": f"fuzz_readers:{name}"},
        messages=messages,
        artifacts=artifacts,
    )
