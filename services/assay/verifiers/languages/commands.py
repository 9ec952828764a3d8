"""How programs are compiled and run. Pure: command lines and files only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from assay.sandbox.port import MIB
from assay.verifiers.languages.java_source import java_file
from assay.verifiers.languages.language import Language
from assay.verifiers.languages.toolchains import Toolchain, node_major

WRAPPER: Final = "wrapper.sh"
KILLED: Final = "killed"
_WRAPPER_TEXT: Final = f"""\
"$@"
status=$?
[ $status -le 128 ] || echo $status > {KILLED}
exit $status
"""
"""Runs each part of gcc, and writes the number of a signal that ended it where no source can."""
CLASSES: Final = "program.tar"
_STACK_KIB: Final = 12_000
"""Of Node, below the smallest stack of a box."""
WAITS: Final = "waits.cjs"
_WAITS_TEXT: Final = b"""\
for (const one of [process.stdout, process.stderr]) one._handle?.setBlocking?.(true);
"""
"""Run by Node before the program: without it Node writes to a pipe later, and a program that calls
`process.exit` loses what the pipe did not take at once. Into a file, as contests run programs, Node
writes at once."""
_DETECTS_MODULES: Final = range(20, 22)
"""Versions of Node that tell modules from scripts only when asked to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """The command that compiles a program, in a box with these files."""

    argv: tuple[str, ...]
    files: Mapping[str, bytes]
    output: str
    """The file that it makes."""
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({"LC_ALL": "C"}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What a task's settings choose."""

    standard: str = ""
    optimize: str = ""
    headers: tuple[tuple[str, bytes], ...] = ()
    """Files beside a source of C or C++: name and content."""
    linker: tuple[str, ...] = ()
    """Options of gcc that choose another linker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileLimits:
    """Bounds of a compilation, from a task's settings."""

    cpu_s: float
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A program as text, and how it is compiled."""

    language: Language
    text: bytes
    flags: Flags
    limits: CompileLimits


AUTO: Final = "auto"
"""Standard of C++: the first of `STANDARDS` in which the program compiles."""
STANDARDS: Final = ("gnu++17", "gnu++23", "gnu++14")
"""Newer programs need what C++20 brought, older ones names that C++17 took (`byte`)."""


def default_flags(language: Language) -> Flags:
    """Flags for a program of Assay's own."""
    match language.name:
        case "c":
            return Flags(standard="gnu17", optimize="0")
        case "cpp":
            return Flags(standard="gnu++17", optimize="0")
        case "rust":
            return Flags(standard="2021", optimize="0")
    return Flags()


def build_of(
    toolchain: Toolchain, source: bytes, flags: Flags, packages: Path | None = None
) -> Build:
    """The compilation of `source`; `packages` lists Go's compiled library."""
    tools = {name: str(path) for name, path in toolchain.programs.items()}
    match toolchain.language.name:
        case "c":
            return _c(tools["gcc"], source, flags, "program.c", ("-lm",))
        case "cpp":
            return _c(tools["g++"], source, flags, "program.cpp", ())
        case "java":
            return _java(tools["javac"], source, flags)
        case "rust":
            return _rust(tools["rustc"], source, flags)
        case "typescript":
            return _typescript(tools["esbuild"], source)
        case "go" if packages is not None:
            return _go(tools["go"], source, packages)
    raise ValueError(f"{toolchain.language.name} is not compiled")


def run_argv(toolchain: Toolchain, memory_bytes: int) -> tuple[str, ...]:
    """The command line of a program that may use `memory_bytes` itself."""
    language = toolchain.language
    tools = {name: str(path) for name, path in toolchain.programs.items()}
    mib = max(1, memory_bytes // MIB)
    match language.name:
        case "java":
            heap = (f"-Xmx{mib}m", "-Xms16m", "-Xss64m")
            regions = ("-XX:ReservedCodeCacheSize=64m", "-XX:CompressedClassSpaceSize=64m")
            fixed = ("-XX:+UseSerialGC", "-XX:ActiveProcessorCount=1", "-XX:-UsePerfData")
            return (tools["java"], *heap, *regions, *fixed, "-jar", language.file)
        case "javascript" | "typescript":
            bounds = (f"--max-old-space-size={mib}", f"--stack-size={_STACK_KIB}")
            detects = node_major(toolchain) in _DETECTS_MODULES
            module = ("--experimental-detect-module",) if detects else ()
            waits = ("--require", f"./{WAITS}")
            return (tools["node"], "--no-warnings", *bounds, *module, *waits, language.file)
        case "python":
            return (tools["python"], "-I", language.file)
        case "bash":
            return (tools["bash"], language.file)
    return (f"./{language.file}",)


def run_files(language: Language) -> Mapping[str, bytes]:
    """Files that `run_argv` names beside the program."""
    return {WAITS: _WAITS_TEXT} if "node" in language.tools else {}


def run_env(toolchain: Toolchain, memory_bytes: int) -> Mapping[str, str]:
    """The environment of a program: Go's runtime reads its limits there."""
    if toolchain.language.name == "go":
        return {"GOMAXPROCS": "1", "GOMEMLIMIT": str(memory_bytes)}
    return {}


def _c(compiler: str, source: bytes, flags: Flags, name: str, libraries: tuple[str, ...]) -> Build:
    wrapped = ("-wrapper", f"/bin/sh,{WRAPPER}")
    options = (f"-std={flags.standard}", f"-O{flags.optimize}", "-pipe", "-s", "-w")
    return Build(
        argv=(compiler, *options, *flags.linker, *wrapped, "-o", "program", name, *libraries),
        files={**dict(flags.headers), name: source, WRAPPER: _WRAPPER_TEXT.encode()},
        output="program",
    )


def _java(javac: str, source: bytes, flags: Flags) -> Build:
    """All classes as one file; `java_classes.py` makes a program of them.

    `-proc:none`: an annotation of the source must not run code in the compiler.
    """
    name = java_file(source)
    release = f" --release {flags.standard}" if flags.standard else ""
    script = (
        f"{javac} -J-Xmx512m -J-XX:+UseSerialGC -J-XX:TieredStopAtLevel=1 -J-XX:-UsePerfData"
        f" -encoding UTF-8 -proc:none -nowarn{release} -d classes '{name}' &&"
        f" tar --format=ustar --sort=name -C classes -cf {CLASSES} ."
    )
    # A name may hold letters of any script; the machine's own locale decides nothing.
    env = {"LC_ALL": "C.UTF-8"}
    return Build(argv=("/bin/sh", "-c", script), files={name: source}, output=CLASSES, env=env)


def _rust(rustc: str, source: bytes, flags: Flags) -> Build:
    options = ("--edition", flags.standard, "-C", f"opt-level={flags.optimize}")
    quiet = ("-C", "strip=symbols", "--cap-lints", "allow", "--crate-name", "program")
    return Build(
        argv=(rustc, *options, *quiet, "-o", "program", "program.rs"),
        files={"program.rs": source},
        output="program",
    )


def _typescript(esbuild: str, source: bytes) -> Build:
    """Types are removed, not checked, as by the tools that run TypeScript directly."""
    options = ("--platform=node", "--format=cjs", "--log-level=error", "--outfile=program.js")
    return Build(
        argv=(esbuild, "program.ts", *options),
        files={"program.ts": source},
        output="program.js",
        env={"GOMAXPROCS": "1"},
    )


def _go(go: str, source: bytes, packages: Path) -> Build:
    """Compiler and linker directly: `go build` would compile the library each time."""
    root = Path(go).parent.parent
    script = (
        f"set -e; tools=$(echo {root}/pkg/tool/*);"
        f' "$tools/compile" -o program.o -p main -complete -importcfg {packages} program.go;'
        f' "$tools/link" -s -w -importcfg {packages} -o program program.o'
    )
    return Build(
        argv=("/bin/sh", "-c", script),
        files={"program.go": source},
        output="program",
        env={"GOMAXPROCS": "1", "GOROOT": str(root), "GOTOOLCHAIN": "local"},
    )
