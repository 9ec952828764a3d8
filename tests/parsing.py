"""A pytest plugin: one thread at a time makes a syntax tree.

CPython 3.11 counts the depth of the tree that it makes in one place for all threads. When one goes
on in the midst of another's, the other ends with `SystemError: AST constructor recursion depth
mismatch`. pytest, Hypothesis and pydantic parse in the main thread while servers of a test do so in
others; within a hook the error ends the whole run.
"""

import ast
import functools
import threading
from collections.abc import Callable
from typing import Any

_PARSING = threading.RLock()


def one_at_a_time(parse: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap it so that no two threads are in it."""

    @functools.wraps(parse)
    def parsed(*arguments: Any, **options: Any) -> Any:
        with _PARSING:
            return parse(*arguments, **options)

    return parsed


ast.parse = one_at_a_time(ast.parse)
