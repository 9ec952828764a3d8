"""The tests' own parser: threads that parse at the same time do not disturb each other."""

import ast
import sys
import threading
from pathlib import Path

SOURCE = Path(threading.__file__).read_text(encoding="utf-8")
PARSES = 40
"""Of each thread; without the lock some fail."""


class _Garbage:
    """What is collected in the midst of a parse, and lets another thread go on."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        sum(range(2_000))


def test_trees_that_are_made_at_different_depths_of_several_threads_are_whole() -> None:
    failures: list[SystemError] = []

    def make(depth: int) -> None:
        if depth:
            make(depth - 1)
            return
        for _ in range(PARSES):
            for _ in range(20):
                _Garbage()
            try:
                ast.parse(SOURCE)
            except SystemError as error:
                failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=make, args=(depth,)) for depth in (1, 50, 100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert failures == []
