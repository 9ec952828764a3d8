"""What a response of KernelBench's form says: its `ModelNew`, its CUDA sources, its kernels; pure.

Only the syntax tree is read; nothing of the response runs. A source that is not the text of a
constant is unknown, and then nothing is said about its kernels.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from assay.verifiers.cuda.cpp_text import code_of

MODEL: Final = "ModelNew"
NODES_MAX: Final = 200_000
_LOADERS: Final = frozenset({"load_inline", "load", "RawModule", "RawKernel", "SourceModule"})
_COMPILED_IN_PYTHON: Final = frozenset({"jit", "autotune", "kernel", "prim_func"})
_PACKAGES: Final = frozenset({"triton", "cutlass", "tilelang", "tvm", "numba", "cupy", "cuda"})
_SOURCES: Final = ("cuda_sources", "cpp_sources")
_KERNEL: Final = re.compile(r"\b__global__\b")
_LAUNCH: Final = re.compile(r"<<<|\bcu(?:da)?LaunchKernel\w*\b|\bcudaLaunchCooperativeKernel\b")


class Unreadable(ValueError):
    """The response is no Python program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """A response's program."""

    defines_model: bool
    """It has a class `ModelNew`."""
    cuda: tuple[str, ...]
    """CUDA sources given to `load_inline`, as far as they are constants."""
    is_known: bool
    """All sources are constants, and no other way to a kernel is visible."""
    kernels_in_python: bool
    """Functions compiled by Triton, CuTe, TileLang, Numba."""

    @property
    def fault(self) -> str:
        """Why it is no solution with a kernel of its own, whatever it computes; empty: it may be.

        `no_model`, `no_kernel` (it only calls libraries, or allocates), `kernel_not_launched`.
        """
        if not self.defines_model:
            return "no_model"
        if self.kernels_in_python or not self.is_known:
            return ""
        code = [code_of(text) for text in self.cuda]
        if not any(_KERNEL.search(text) for text in code):
            return "no_kernel"
        return "" if any(_LAUNCH.search(text) for text in code) else "kernel_not_launched"


def read_solution(program: str) -> Solution:
    """Read the program of a response.

    Raises:
        Unreadable: not Python, or too large or too deep a tree.
    """
    try:
        return _read(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from None


def _read(program: str) -> Solution:
    tree = ast.parse(program)
    nodes = list(_bounded(tree))
    texts = _constants(nodes)
    cuda: list[str] = []
    is_known = True
    for node in nodes:
        if isinstance(node, ast.Call) and _last_name(node.func) in _LOADERS:
            found = _sources(node, texts)
            is_known = is_known and found is not None
            cuda += found or []
    return Solution(
        defines_model=any(
            isinstance(node, ast.ClassDef) and node.name == MODEL for node in tree.body
        )
        or any(MODEL in _assigned(node) for node in tree.body),
        cuda=tuple(cuda),
        is_known=is_known,
        kernels_in_python=_kernels_in_python(nodes),
    )


def _bounded(tree: ast.AST) -> Iterator[ast.AST]:
    for number, node in enumerate(ast.walk(tree)):
        if number == NODES_MAX:
            raise ValueError("the program is too large")
        yield node


def _assigned(node: ast.AST) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _constants(nodes: list[ast.AST]) -> dict[str, str | None]:
    """Names with the one text that they are given; `None`: several, or not a constant."""
    found: dict[str, str | None] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for name in _assigned(node):
                text = _text(node.value, found)
                found[name] = None if name in found else text
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.NamedExpr) and isinstance(
            node.target, ast.Name
        ):
            given = _text(node.value, found) if isinstance(node, ast.AnnAssign) else None
            found[node.target.id] = None if node.target.id in found else given
    return found


def _text(node: ast.AST | None, known: dict[str, str | None]) -> str | None:
    """The text of a constant, a name of one, or a sum of these."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left, known), _text(node.right, known)
        return None if left is None or right is None else left + right
    return None


def _sources(call: ast.Call, texts: dict[str, str | None]) -> list[str] | None:
    """The CUDA sources of a call of `load_inline`; `None`: not known."""
    if _last_name(call.func) != "load_inline" or any(one.arg is None for one in call.keywords):
        return None
    given = dict(zip(("name", "cpp_sources", "cuda_sources"), call.args, strict=False))
    given |= {str(one.arg): one.value for one in call.keywords}
    found: list[str] = []
    for name in _SOURCES:
        node = given.get(name)
        if node is None:
            continue
        parts = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
        read = [_text(part, texts) for part in parts]
        if any(text is None for text in read):
            return None
        if name == "cuda_sources":
            found += [text for text in read if text is not None]
    return found


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _kernels_in_python(nodes: list[ast.AST]) -> bool:
    """A function with a decorator such as `triton.jit`, in a program that imports its package."""
    imported = {
        name.partition(".")[0]
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [one.name for one in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
        )
    }
    if _PACKAGES.isdisjoint(imported):
        return False
    return any(
        _last_name(one.func if isinstance(one, ast.Call) else one) in _COMPILED_IN_PYTHON
        for node in nodes
        if isinstance(node, ast.FunctionDef)
        for one in node.decorator_list
    )
