"""A message is worded in one place: no two modules have the same sentence as a literal."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("services", "runtime", "simulator")
WORDS_MIN = 5
CHARS_MIN = 28
COMMANDS = "assay/cli/main.py"
"""Has the summary of each command, so that listing them imports none."""
TWICE = {
    '"$@"\nstatus=$?\n[ $status -le 128 ] || echo $status > ': "a script of two compilers",
    "#include <iostream>\nint main() { std::cout << std::cin.rdbuf(); }\n": "a program of two",
    ": not UTF-8 (a lone surrogate at character ": "the client has no server code",
    ": an event without its fields: ": "of two servers' own formats",
    "one adapter is LoRA or OFT, not both": "of two packings, each for itself",
    "partial rotary embeddings are not computed": "of two formats of models",
    "reference: the data set has no column ": "of two adapters, each for itself",
}
"""Text -> why it may be there twice."""


def literals(path: Path) -> Iterator[str]:
    """The literals of a module that read like a sentence, without docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    alone = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
    for one in ast.walk(tree):
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in alone:
            text = one.value
            yield from [text] if len(text) >= CHARS_MIN and text.count(" ") >= WORDS_MIN - 1 else []


def test_a_message_is_worded_once() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for source in SOURCES:
        for path in (ROOT / source).rglob("*.py"):
            name = str(path.relative_to(ROOT))
            if "_pb2" not in name and not name.endswith(COMMANDS):
                for text in literals(path):
                    found[text].add(name)
    twice = {text: sorted(places) for text, places in found.items() if len(places) > 1}
    assert {text: places for text, places in twice.items() if text not in TWICE} == {}
    assert TWICE.keys() <= twice.keys(), "an entry that has no use"
