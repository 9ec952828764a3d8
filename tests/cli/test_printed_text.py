"""What the commands print of ids, messages and evidence is text, whatever stands in it."""

import io
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from assay.cli import console
from assay.cli.printed import TextConsole, printable

MARKUP = ["[/x]", "[red]", "[link=file:///x]", "\\[", ":smile:", "a"]
CONTROLS = ["\x1b]0;x\x07", "\x1b[2J", "\x9b2J", "\u202e", "\r", "\ud800"]
HOSTILE = st.text() | st.lists(st.sampled_from(MARKUP + CONTROLS), max_size=8).map("".join)
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printed(*what: object) -> str:
    told = io.StringIO()
    TextConsole(file=told, width=10_000).print(*what, highlight=False, soft_wrap=True)
    return told.getvalue()


@given(HOSTILE)
def test_any_text_is_printed_as_it_is_and_moves_no_terminal(text: str) -> None:
    assert printed(text) == printable(text) + "\n" or "\t" in text or not text
    assert not OBEYED.search(printable(text))


@given(HOSTILE)
def test_any_text_may_stand_in_a_table(text: str) -> None:
    table = Table("what", text, title=text)
    table.add_row(text, "x")
    told = printed(table)
    assert not OBEYED.search(told)
    words = printable(text).split()
    assert all(word in told for word in words)


def test_all_commands_print_by_these_two() -> None:
    """A console of its own, or a column that reads markup, would be a hole."""
    root = Path(console.__file__).parent
    for path in root.rglob("*.py"):
        text = path.read_text()
        assert path.name == "console.py" or not re.search(r"\bConsole\(", text), path
        for column in re.findall(r"TextColumn\(([^()]*)\)", text):
            assert "{task.description}" not in column or "markup=False" in column, path
