"""Names that tests use without defining them: entry points, library names, or undefined.

They are classified from the tests alone, before any program is seen (`entry_points.py`).
"""

from __future__ import annotations

import builtins
import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from assay.verifiers.code.referee.candidate import MODULE
from assay.verifiers.code.referee.proxies import CallableProxy, mark
from assay.verifiers.code.referee.values import Value, type_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from assay.verifiers.code.referee.link import Link


class Program:
    """The program's globals."""

    def __init__(self, link: Link, names: Sequence[str], classes: Sequence[str]) -> None:
        self._link = link
        self.names = frozenset(names)
        self._classes = frozenset(classes)

    def lookup(self, name: str) -> Value:
        """A global of the program, marked as a class if the tests use it as one."""
        found = self._link.ask("lookup", name)
        if name in self._classes and isinstance(found, CallableProxy):
            mark(found, "_assay_class")
        return found

    def assign(self, name: str, value: object) -> None:
        """Set a global, as tests do that patch one."""
        self._link.ask("assign", name, value)

    def unassign(self, name: str) -> None:
        """Delete a global."""
        self._link.ask("unassign", name)

    def offered(self) -> list[str]:
        """The names that `import *` imports: entry points only."""
        named = self._link.ask("names")
        if type_of(named) is not list:
            return []
        return [name for name in named if type_of(name) is str and name in self.names]


class Builtins(dict[str, Any]):
    """The value of a name that the tests do not define."""

    def __init__(self, program: Program, library: Mapping[str, str]) -> None:
        super().__init__(builtins.__dict__)
        self._program = program
        self._library = library
        for name in program.names:
            self.pop(name, None)

    def __missing__(self, name: str) -> Value:
        if name in self._program.names:
            return self._program.lookup(name)
        module, _, attribute = self._library.get(name, "").partition(":")
        if not module:
            raise KeyError(name)
        try:
            imported = importlib.import_module(module)
        except ImportError:
            raise KeyError(name) from None
        return getattr(imported, attribute) if attribute else imported


class ProgramModule(ModuleType):
    """The program as a module, for tests that import it."""

    def __init__(self, program: Program) -> None:
        super().__init__(MODULE)
        self.__dict__["_assay_program"] = program

    def __getattr__(self, name: str) -> Value:
        program: Program = self.__dict__["_assay_program"]
        if name == "__all__":
            return program.offered()
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return program.lookup(name)
        except NameError as error:
            raise AttributeError(str(error)) from None

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            self.__dict__["_assay_program"].assign(name, value)

    def __delattr__(self, name: str) -> None:
        try:
            self.__dict__["_assay_program"].unassign(name)
        except NameError as error:
            raise AttributeError(str(error)) from None
