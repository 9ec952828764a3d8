"""Compiles a source once, however many tests, requests and workers share it.

As for C++ (`assay.verifiers.code.cpp`): the artifact is the verdict of the compilation, its
key a hash of all that decides it, and results that depend on the machine are not kept.
"""

import functools
import hashlib
import json
import tarfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from assay.core.verdict import ResourceUse
from assay.sandbox.port import MIB, CommandLauncher, CommandRun, Limits, RunResult, RunStatus
from assay.verifiers.code.cpp.linkers import faster_linker
from assay.verifiers.code.cpp.standards import knows_standard
from assay.verifiers.code.repeat import repeat_while_killed, was_killed
from assay.verifiers.code.scoring import PASS, text_tail, use_of
from assay.verifiers.languages.commands import (
    AUTO,
    CLASSES,
    KILLED,
    STANDARDS,
    Build,
    CompileLimits,
    Flags,
    build_of,
    default_flags,
)
from assay.verifiers.languages.java_source import NoMain, jar_of
from assay.verifiers.languages.keys import program_prefix
from assay.verifiers.languages.toolchains import Toolchain
from assay.verifiers.port import Artifacts

_PROGRAM_BYTES_MAX: Final = 64 * MIB
_COMPILE_BLOCKED_S: Final = 20.0
"""A compiler waits for its files only; Java's waits for its own threads too."""
_LINKER_TRIAL: Final = CompileLimits(cpu_s=20.0, memory_bytes=1_024 * MIB)
_PROCESSES: Final = 128
_ADDRESS_BYTES: Final = 8 * 1_024 * MIB
_KILLED_BY: Final = b"137\n"
_GOOD: Final = b"P"
_BAD: Final = b"E"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """The result of a compilation: a program, or a verdict."""

    program: bytes = b""
    verdict: str = PASS
    stderr: str = ""
    use: ResourceUse = field(default_factory=ResourceUse)
    """Usage of this call; zero if the artifact existed."""
    key: str = ""
    """Of the artifact."""


class _NotKept(Exception):
    """A compilation whose verdict may differ next time."""

    def __init__(self, verdict: str, use: ResourceUse) -> None:
        super().__init__(verdict)
        self.verdict = verdict
        self.use = use


class LanguageCompiler:
    """The compiler of one language, in a box."""

    def __init__(
        self,
        toolchain: Toolchain,
        launcher: CommandLauncher,
        artifacts: Artifacts,
        packages: Path | None = None,
    ) -> None:
        """`packages` lists Go's compiled library."""
        self._toolchain = toolchain
        self._launcher = launcher
        self._artifacts = artifacts
        self._packages = packages
        self._proved: set[tuple[Flags, CompileLimits]] = set()
        self._known: dict[str, bool] = {}

    def key(self, source: bytes, flags: Flags, limits: CompileLimits) -> str:
        """A hash of everything that the result depends on."""
        build = self._build(source, flags)
        parts = [
            self._toolchain.language.name.encode(),
            self._toolchain.version.encode(),
            *(word.encode() for word in build.argv),
            f"{limits.cpu_s} {limits.memory_bytes}".encode(),
            *(part for name, content in build.files.items() for part in (name.encode(), content)),
        ]
        digest = hashlib.sha256()
        for part in parts:
            digest.update(len(part).to_bytes(8, "big") + part)
        return f"{program_prefix(self._toolchain.language.name, source)}{digest.hexdigest()}"

    def compile(self, source: bytes, flags: Flags, limits: CompileLimits) -> Compiled:
        """Compile, or return the kept result of the same compilation.

        Raises:
            SandboxError: the compilation could not run.
            RuntimeError: the compiler does not work for any source.
        """
        spent = [ResourceUse()]

        def make() -> bytes:
            self._prove(flags, limits)
            result = repeat_while_killed(lambda: self._run(source, flags, limits), _killed)
            spent[0] = use_of(result)
            if _killed(result):
                self.check(flags, limits)
            return self._artifact(result, self._build(source, flags))

        key = self.key(source, flags, limits)
        try:
            artifact = self._artifacts.get_or_make(key, make)
        except _NotKept as passing:
            return Compiled(verdict=passing.verdict, use=passing.use, key=key)
        return replace(read_artifact(artifact), use=spent[0], key=key)

    def standards(self, flags: Flags) -> list[Flags]:
        """The flags to try in turn; more than one for `auto` only. g++ 10 has no gnu++23."""
        if flags.standard != AUTO:
            return [flags]
        known = [one for one in STANDARDS if self._knows(one)] or STANDARDS[:1]
        return [replace(flags, standard=one) for one in known]

    def _knows(self, standard: str) -> bool:
        if standard not in self._known:
            path = self._toolchain.programs["g++"]
            self._known[standard] = knows_standard(str(path), standard)
        return self._known[standard]

    def check(self, flags: Flags, limits: CompileLimits) -> None:
        """Compile a trivial program now.

        Raises:
            SandboxError: the compilation could not run.
            RuntimeError: the compiler does not compile it.
        """
        source = self._toolchain.language.empty.encode()
        result = self._run(source, flags, limits)
        if result.exit_code != 0 or self._build(source, flags).output not in result.files:
            ended = f"{result.status.value} {text_tail(result.stderr or result.stdout)}"
            raise RuntimeError(
                f"{self._toolchain.language.title} cannot compile a program: {ended}"
            )

    def _prove(self, flags: Flags, limits: CompileLimits) -> None:
        if (flags, limits) not in self._proved:
            self.check(flags, limits)
            self._proved.add((flags, limits))

    def _build(self, source: bytes, flags: Flags) -> Build:
        flags = replace(flags, linker=self._linker)
        return build_of(self._toolchain, source, flags, self._packages)

    @functools.cached_property
    def _linker(self) -> tuple[str, ...]:
        """Options for the fastest linker that works in a box, of a language that gcc compiles."""
        language = self._toolchain.language
        if language.name not in {"c", "cpp"}:
            return ()

        def works(options: tuple[str, ...]) -> bool:
            flags = replace(default_flags(language), linker=options)
            build = build_of(self._toolchain, language.empty.encode(), flags)
            result = self._launch(build, _LINKER_TRIAL)
            return result.exit_code == 0 and build.output in result.files

        return faster_linker(works)

    def _run(self, source: bytes, flags: Flags, limits: CompileLimits) -> RunResult:
        return self._launch(self._build(source, flags), limits)

    def _launch(self, build: Build, limits: CompileLimits) -> RunResult:
        return self._launcher.run(
            CommandRun(
                argv=build.argv,
                files=build.files,
                env=build.env,
                collect=(build.output, KILLED),
                limits=Limits(
                    cpu_s=limits.cpu_s,
                    blocked_s=_COMPILE_BLOCKED_S,
                    memory_bytes=limits.memory_bytes,
                    address_bytes=max(_ADDRESS_BYTES, 2 * limits.memory_bytes),
                    processes=_PROCESSES,
                    file_bytes=_PROGRAM_BYTES_MAX,
                    disk_bytes=4 * _PROGRAM_BYTES_MAX,
                    output_bytes=4 * MIB,
                ),
            )
        )

    def _artifact(self, result: RunResult, build: Build) -> bytes:
        if result.status is RunStatus.BLOCKED_LIMIT:
            raise _NotKept("compile_blocked_limit", use_of(result))
        if _killed(result):
            raise _NotKept("compile_error", use_of(result))
        program = result.files.get(build.output)
        if result.status is RunStatus.EXITED and result.exit_code == 0 and program:
            return _program(program, build) if build.output == CLASSES else _GOOD + program
        verdict = f"compile_{result.status.value}" if result.status.is_limit else "compile_error"
        return _failure(verdict, text_tail(result.stderr or result.stdout))


def _program(classes: bytes, build: Build) -> bytes:
    [file] = build.files
    try:
        return _GOOD + jar_of(classes, file)
    except (NoMain, tarfile.TarError, ValueError) as error:
        return _failure("compile_error", str(error))


def _failure(verdict: str, stderr: str) -> bytes:
    return _BAD + json.dumps({"verdict": verdict, "stderr": stderr}).encode("ascii")


def _killed(result: RunResult) -> bool:
    part_killed = result.files.get(KILLED) == _KILLED_BY and not result.status.is_limit
    return was_killed(result) or part_killed


def read_artifact(artifact: bytes) -> Compiled:
    """What a compilation kept."""
    if artifact[:1] == _GOOD:
        return Compiled(program=artifact[1:])
    told = json.loads(artifact[1:])
    return Compiled(verdict=told["verdict"], stderr=told["stderr"])
