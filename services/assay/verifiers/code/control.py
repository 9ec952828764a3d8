"""Trusted responses for test code: they show whether a failure occurs without the program too.

A pure rewriting of the reference; the runs are the stage's.
"""

import ast
from collections.abc import Sequence
from typing import Any, Final

EMPTY_PROGRAM: Final = ""


def trivial_program(names: Sequence[str]) -> str:
    """A program whose entry points take anything and return `None`."""
    return "".join(f"def {name}(*_, **__):\n    return None\n" for name in names)


def walked(code: str) -> str:
    """Test code that continues after failed assertions and statements, so that all of it runs.

    Code that does not parse is returned unchanged: it will not compile either.
    """
    try:
        tree = _Walk().visit(ast.parse(code))
        tree.body = [_tolerant([statement]) for statement in tree.body]
        return ast.unparse(ast.fix_missing_locations(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return code


class _Walk(ast.NodeTransformer):
    def visit_Assert(self, node: ast.Assert) -> Any:  # noqa: ANN401 - the library's form
        """Evaluate the asserted expression and continue."""
        return _tolerant([ast.Expr(node.test)])


def _tolerant(body: list[ast.stmt]) -> ast.stmt:
    """The statements in a `try`, except those that must be at the head of a file."""
    if isinstance(body[0], ast.ImportFrom) and body[0].module == "__future__":
        return body[0]
    handler = ast.ExceptHandler(
        type=ast.Name("Exception", ast.Load()), name=None, body=[ast.Pass()]
    )
    return ast.Try(body=body, handlers=[handler], orelse=[], finalbody=[])
