"""What to install when a program needs more than what is installed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

EXIT_NOT_INSTALLED: Final = 2


@contextmanager
def needed(extra: str) -> Iterator[None]:
    """Import inside the block what the extra brings; without it, end with a line that names it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = missing_package(error)
        if package is None:
            raise
        sys.stderr.write(f"{not_installed(package, extra)}\n")
        sys.exit(EXIT_NOT_INSTALLED)


@contextmanager
def left_out(name: str) -> Iterator[None]:
    """Have imports inside the block do without a module, as if it were not installed; one that is
    imported already stays."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]  # how the import system marks it
    try:
        yield
    finally:
        del sys.modules[name]


def missing_package(error: ModuleNotFoundError) -> str | None:
    """The package that is not installed; `None`: a module of our own is missing, which is a bug."""
    package = (error.name or "assay").partition(".")[0]
    return None if package == "assay" else package


def not_installed(package: str, extra: str) -> str:
    """One line for the user."""
    return f"this command needs {package}: pip install 'assay[{extra}]'"
