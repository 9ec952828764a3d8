"""Finds the compilers and interpreters of this machine, and what a box has to show of them.

A tool below `/usr` is visible in every box. One elsewhere is used only if it lies in a directory of
its own, known by a file that the language's distributions have: nothing else of the host is shown.
"""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from assay.verifiers.languages.language import ALL_LANGUAGES, Language

_VERSION_S: Final = 20.0
_VERSION_ARGUMENTS: Final = MappingProxyType(
    {"java": "-version", "javac": "-version", "go": "version"}
)
_SYSTEM: Final = Path("/usr")
_JAVA_CONFIGURATION: Final = "conf/net.properties"


class ToolMissing(RuntimeError):
    """A language cannot be run on this machine; the message names the tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """The tools of one language."""

    language: Language
    programs: Mapping[str, Path]
    """Tool -> executable."""
    readable: tuple[Path, ...]
    """Directories that a box has to show."""
    version: str
    """Of all tools, a line each."""


def find_toolchain(language: Language) -> Toolchain:
    """The tools of `language`.

    Raises:
        ToolMissing: one is not installed, does not answer, or lies where a box cannot show it.
    """
    return _find(language.name, os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=64)
def _find(name: str, path: str) -> Toolchain:
    language = ALL_LANGUAGES[name]
    if name == "python":
        return _python(language)
    programs, readable, versions = {}, set[Path](), []
    for tool in language.tools:
        found = shutil.which(tool, path=path)
        if found is None:
            raise ToolMissing(f"{language.title}: {tool} is not installed")
        programs[tool] = _program(tool, Path(found))
        readable |= _shown(tool, programs[tool])
        versions.append(_output(programs[tool], _VERSION_ARGUMENTS.get(tool, "--version")))
    return Toolchain(
        language=language,
        programs=MappingProxyType(programs),
        readable=tuple(sorted(readable)),
        version="\n".join(versions),
    )


def _python(language: Language) -> Toolchain:
    """This process's own interpreter, which every box shows."""
    return Toolchain(
        language=language,
        programs=MappingProxyType({"python": Path(os.path.realpath(sys.executable))}),
        readable=(),
        version=sys.version.replace("\n", " "),
    )


def _program(tool: str, found: Path) -> Path:
    """The executable behind links and behind rustup's proxy."""
    if tool == "rustc":
        return Path(_output(found, "--print=sysroot")) / "bin" / "rustc"
    path = found.resolve()
    if tool == "esbuild" and path.read_bytes()[:2] == b"#!":
        return _native_esbuild(path)
    if tool == "go":
        return Path(_output(path, "env", "GOROOT")) / "bin" / "go"
    return path


def _native_esbuild(script: Path) -> Path:
    """npm installs a script beside the package with the program for this machine."""
    natives = sorted(script.parents[2].glob("@esbuild/*/bin/esbuild"))
    if not natives:
        raise ToolMissing(f"TypeScript: {script} has no program for this machine")
    return natives[0]


def _shown(tool: str, program: Path) -> set[Path]:
    """Directories outside `/usr` that `program` needs."""
    if not program.is_file():
        raise ToolMissing(f"{tool}: {program} is not a file")
    prefix = program.parent.parent
    shown = set()
    if tool in {"java", "javac"}:
        configuration = (prefix / _JAVA_CONFIGURATION).resolve()
        if not configuration.is_relative_to(prefix):
            shown.add(configuration.parent)
    if not program.is_relative_to(_SYSTEM):
        if not _is_own_directory(tool, prefix):
            message = f"{tool}: {program} lies neither below /usr nor in a directory of its own"
            raise ToolMissing(message)
        shown.add(prefix)
    return shown


def _is_own_directory(tool: str, prefix: Path) -> bool:
    """Whether `prefix` is the directory of this tool's distribution and of nothing else."""
    match tool:
        case "java" | "javac":
            return (prefix / "release").is_file() and (prefix / "lib/modules").is_file()
        case "node":
            return (prefix / "include/node/node.h").is_file()
        case "go":
            return (prefix / "VERSION").is_file() and (prefix / "src/runtime").is_dir()
        case "rustc":
            return (prefix / "lib/rustlib").is_dir()
        case "esbuild":
            try:
                about = json.loads((prefix / "package.json").read_bytes())
            except (OSError, ValueError):
                return False
            name = str(about.get("name")) if isinstance(about, dict) else ""
            return name == "esbuild" or name.startswith("@esbuild/")
    return False


def _output(program: Path, *arguments: str) -> str:
    """The first line that a tool prints.

    Raises:
        ToolMissing: it does not run.
    """
    try:
        done = subprocess.run(  # noqa: S603 - the operator's own tools
            [program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            check=True,
            timeout=_VERSION_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolMissing(f"{program}: {error}") from error
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return lines[0].strip() if lines else ""


def node_major(toolchain: Toolchain) -> int:
    """The major version of Node; 0 if it says none."""
    found = re.search(r"^v([0-9]{1,4})\.", toolchain.version, re.M)
    return int(found[1]) if found else 0
