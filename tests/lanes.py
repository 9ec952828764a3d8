"""A pytest plugin: gives markers by lists, `slow` by slow_tests.txt and `long` by long_tests.txt.

The first list is made from measured durations by `scripts/choose_slow_tests.py`, the second is kept
by hand. One entry per line: the test's id, a folder, a file or a function
(`tests/sandbox/test_slots.py::test_x`).
"""

from collections.abc import Collection
from pathlib import Path, PurePosixPath

import pytest

LIST = Path(__file__).with_name("slow_tests.txt")
LONG = Path(__file__).with_name("long_tests.txt")


def entries(text: str) -> frozenset[str]:
    """Return the entries of the list; `#` starts a comment."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return frozenset(line for line in lines if line)


def is_listed(test_id: str, listed: Collection[str]) -> bool:
    """Tell whether an entry names the test, its function, its file or a folder of it."""
    function = test_id.partition("[")[0]
    path, *names = function.split("::")
    folders = (str(folder) for folder in PurePosixPath(path).parents)
    classes = ("::".join([path, *names[:depth]]) for depth in range(1, len(names)))
    return any(each in listed for each in (test_id, function, path, *classes, *folders))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow and the long ones."""
    for marker, file in (("slow", LIST), ("long", LONG)):
        listed = entries(file.read_text(encoding="utf-8"))
        for item in items:
            if is_listed(item.nodeid, listed):
                item.add_marker(marker)
