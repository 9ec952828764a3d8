"""Imports the packages that the operator offers by name, and nothing that lies beside them.

Loaded by the zygote: standard library only.
"""

from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_loader
from types import ModuleType


class Module(SourceLoader):
    """A module of one file, whose directory is not shown."""

    def __init__(self, path: str, source: bytes) -> None:
        """Keep its text."""
        self._path = path
        self._source = source

    def get_filename(self, fullname: str) -> str:
        """Where it lies on the host; for tracebacks."""
        del fullname
        return self._path

    def get_data(self, path: str | bytes) -> bytes:
        """Return its text; there is no compiled file.

        Raises:
            OSError: another path.
        """
        if path != self._path:
            raise OSError(path)
        return self._source


class Packages(MetaPathFinder):
    """Behind all finders of the interpreter, so that a program's own module comes first."""

    def __init__(self, places: Mapping[str, str], modules: Mapping[str, tuple[str, bytes]]) -> None:
        """Name what can be imported.

        Args:
            places: import name -> directory that has it.
            modules: import name -> path and source of a module of one file.
        """
        self._places = places
        self._modules = modules

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """Find a package at the top; what is inside packages has their own path."""
        if path is not None:
            return None
        if fullname in self._places:
            return PathFinder.find_spec(fullname, [self._places[fullname]], target)
        if fullname in self._modules:
            return spec_from_loader(fullname, Module(*self._modules[fullname]))
        return None
