"""Runs a program of this folder where packages that need a GPU are missing.

`without_gpu.py PACKAGE,... PROGRAM ARGUMENTS`: a module of a named package that is not installed
has any attribute, each an empty class, which is enough for imports and annotations. What such a
package would do is not run, and so not tested.
"""

import runpy
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class _Empty(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


class _Finder(MetaPathFinder, Loader):
    def __init__(self, packages: frozenset[str]) -> None:
        self.packages = packages

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self.packages:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """An empty module has nothing to run."""


if __name__ == "__main__":
    _, packages, program, *arguments = sys.argv
    missing = frozenset(name for name in packages.split(",") if find_spec(name) is None)
    sys.meta_path.append(_Finder(missing))
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")
