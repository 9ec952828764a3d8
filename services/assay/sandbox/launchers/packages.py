"""Finds the folders of single packages of this environment, so that boxes can show these alone.

The whole `site-packages` would show programs everything that the platform is installed with.
"""

import re
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.metadata import packages_distributions as distributions_of_modules
from pathlib import Path
from types import MappingProxyType
from typing import Final

from assay.config.environment import SettingError

DISTRIBUTIONS_MAX: Final = 128
"""Distributions that are shown, with those that they require."""
MODULE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Size of a module that is one file."""
_LIBRARY: Final = re.compile(r".+\.so(\.[0-9]+)*")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Packages:
    """Packages that programs in a box can import."""

    places: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))
    """Import name -> directory that it is searched in; nothing else is found there."""
    folders: tuple[Path, ...] = ()
    """Directories to show: the packages, and the shared libraries that came with them."""
    modules: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))
    """Import name -> source file of a module that has no directory; boxes get its text."""
    distributions: tuple[str, ...] = ()
    """Names of the distributions that these come from, sorted."""


def find_packages(names: Sequence[str], *, setting: str) -> Packages:
    """Find packages, and those that they require, in the environment of this process.

    Args:
        names: distributions (`scikit-learn`) or importable packages (`sklearn`).
        setting: the setting that has the names, for errors.

    Raises:
        SettingError: one of them is not installed, or has no directory or module of its own (as a
            part of a namespace package, or one that is installed for editing).
    """
    found = _distributions(names, setting)
    tops = [top for one in found.values() for top in _tops(one)]
    folders = {top for top in tops if top.is_dir()}
    modules = {
        top.stem: top
        for top in tops
        if top not in folders and top.suffix == ".py" and top.stat().st_size <= MODULE_BYTES_MAX
    }
    return Packages(
        places={
            top.name: top.parent
            for top in tops
            if top in folders and not top.name.endswith(".libs")
        },
        folders=tuple(sorted(folders.union(*map(_libraries, found.values())))),
        modules=modules,
        distributions=tuple(sorted(found)),
    )


def _distributions(names: Sequence[str], setting: str) -> dict[str, Distribution]:
    """The distributions of all names and those that they require, by normalized name."""
    found: dict[str, Distribution] = {}
    for at, name in enumerate(names):
        where = f"{setting}[{at}]"
        for one in _with_requirements(name, where):
            found.setdefault(_key(one.name), one)
            if len(found) > DISTRIBUTIONS_MAX:
                message = f"{where}: more than {DISTRIBUTIONS_MAX} packages with all they require"
                raise SettingError(message)
        if not any(_tops(_distribution(name, where))):
            message = f"{where}: {name} has no directory or module that could be shown alone"
            raise SettingError(message)
    return found


def _distribution(name: str, where: str) -> Distribution:
    try:
        return distribution(name)
    except (PackageNotFoundError, ValueError):
        owners = distributions_of_modules().get(name, ())
    if not owners:
        message = f"{where}: no package {name!r} is installed for {sys.executable}"
        raise SettingError(message)
    return distribution(owners[0])


def _with_requirements(name: str, where: str) -> Iterator[Distribution]:
    """The distribution, and all that it requires without extras and that is installed."""
    waiting = deque([_distribution(name, where)])
    seen: set[str] = set()
    while waiting:
        one = waiting.popleft()
        if _key(one.name) in seen:
            continue
        seen.add(_key(one.name))
        yield one
        for requirement in one.requires or ():
            wanted = _NAME.match(requirement)
            if wanted is None or "extra" in requirement.partition(";")[2]:
                continue
            try:
                waiting.append(distribution(wanted[0]))
            except PackageNotFoundError:  # its marker excludes this interpreter or system
                continue


def _tops(one: Distribution) -> Iterator[Path]:
    """Its own packages, modules of one file, and folders of shared libraries; no namespaces."""
    root = Path(str(one.locate_file("."))).resolve()
    names = {file.parts[:2] for file in one.files or () if file.parts and file.parts[0] != ".."}
    tops = {parts[0] for parts in names if len(parts) > 1}
    for name in sorted(tops):
        top = (root / name).resolve()
        is_package = name.isidentifier() and (top / "__init__.py").is_file()
        if is_package or (name.endswith(".libs") and top.is_dir()):
            yield top
    for name in sorted(parts[0] for parts in names if len(parts) == 1):
        if name.endswith(".py") and name[:-3].isidentifier() and (root / name).is_file():
            yield root / name


def _libraries(one: Distribution) -> Iterator[Path]:
    """Folders of shared libraries in a namespace (`nvidia/cu13/lib`), which other packages load by
    their place beside them."""
    root = Path(str(one.locate_file("."))).resolve()
    for file in one.files or ():
        is_inside = len(file.parts) > 2 and file.parts[0].isidentifier()
        if is_inside and _LIBRARY.fullmatch(file.name):
            folder = (root / file).parent.resolve()
            if folder.is_dir() and not (root / file.parts[0] / "__init__.py").is_file():
                yield folder


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
