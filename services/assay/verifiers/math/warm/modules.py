"""Loads and exercises everything that `math.verify` needs before it is confined.

sympy imports many of its modules inside functions, on first use. By then a confined process may not
be able to read them. So all modules of the packages below are imported in advance, except those
that no comparison can reach: plotting, code printers, test suites, physics, and modules that only
make a page of sympy's documentation (they alone took twice as long as all others). Packages that
sympy uses only if installed are blocked permanently: they cost memory in every process, and no
verdict may depend on them.
"""

import importlib
import pkgutil
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

PACKAGES: Final = ("sympy", "mpmath", "latex2sympy2_extended", "math_verify", "antlr4")
_OPTIONAL: Final = frozenset(
    {"numpy", "scipy", "matplotlib", "pytest", "_pytest", "IPython", "lark", "pandas", "torch"}
)
_LEFT_OUT: Final = frozenset(
    [
        "_compilation",
        "autowrap",
        "cxx",
        "lark",
        "latex",
        "pytest",
        "pytorch",
        "tensorflow",
        "trace",
        "tests",
        "benchmarks",
        "testing",
        "plotting",
        "interactive",
        "physics",
        "codegen",
        "galgebra",
        "holonomic",
        "categories",
        "crypto",
        "liealgebras",
        "diffgeom",
        "stats",
        "vector",
        "optional_dependencies",
        "conftest",
        "this",
        "abc",
        "_build",
        "_antlr",
        "autolev",
        "fortran",
        "c",
        "maxima",
        "mathematica",
        "sym_expr",
        "ast_parser",
        "pythonrpcserver",
        "matplotlib",
        "runtests",
        "llvmjitcode",
        "visualization",
        "metric",
        "few_shots",
        "testutil",
        "tmpfiles",
        "theanocode",
        "aesaracode",
        "matchpy_connector",
        "schur_number",
        "_pygrun",
        "tasks",
    ]
)


def import_all() -> None:
    """Import every module that a comparison may need later.

    `sympy.codegen.ast`, which one may need, comes with `sympy.printing.rust`.
    """
    with warnings.catch_warnings(), without_optional():
        warnings.simplefilter("ignore")
        for name in PACKAGES:
            package = importlib.import_module(name)
            for path in sorted(_modules(list(package.__path__), f"{name}.")):
                _try_import(path)


class _Absent:
    """Finder that hides the optional packages from the thread that created it."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in _OPTIONAL and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(name=name)
        return None


@contextmanager
def without_optional() -> Iterator[None]:
    """Block packages that sympy uses only if installed (`lambdify` in sums: numpy)."""
    absent = _Absent()
    sys.meta_path.insert(0, absent)
    try:
        yield
    finally:
        sys.meta_path.remove(absent)


def _modules(paths: list[str], prefix: str) -> list[str]:
    """Names of all modules below, without the excluded ones and their submodules."""
    found: list[str] = []
    for module in pkgutil.iter_modules(paths, prefix):
        last = module.name.rpartition(".")[2]
        if last in _LEFT_OUT or last.startswith("test_") or last.endswith(("__main__", "_doc")):
            continue
        found.append(module.name)
        if module.ispkg:
            below = [f"{path}/{last}" for path in paths]
            found += _modules(below, f"{module.name}.")
    return found


def _try_import(name: str) -> None:
    """Ignore a module with missing dependencies: no comparison can need it."""
    try:
        importlib.import_module(name)
    except (ImportError, AttributeError, SyntaxError):
        return
