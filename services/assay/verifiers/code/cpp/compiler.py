"""Compiles C++ in a box; results are kept as artifacts.

The artifact of a compilation is its verdict: a program, or the compiler's error. Both depend only
on source, flags and compiler, so the key is a hash of these. Results that depend on the machine
(blocked time, a broken sandbox) are never kept. The compiler runs in a separate box with its own
limits, because sources are as hostile as programs.
"""

import contextlib
import functools
import hashlib
import json
import logging
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from assay.config.settings import SandboxSettings
from assay.core.verdict import ResourceUse
from assay.edge.clock import Clock
from assay.sandbox.launchers.bubblewrap import open_command_launcher
from assay.sandbox.launchers.order import Inside
from assay.sandbox.port import MIB, CommandLauncher, CommandRun, Limits, RunResult, RunStatus
from assay.verifiers.code.cpp.headers import (
    DEPENDENCIES,
    HEADER,
    PRECOMPILED,
    Beside,
    PrecompiledHeaders,
    Prelude,
    in_background,
)
from assay.verifiers.code.cpp.keys import program_prefix
from assay.verifiers.code.cpp.linkers import faster_linker
from assay.verifiers.code.cpp.prelude import leading_headers
from assay.verifiers.code.cpp.same import shared_text
from assay.verifiers.code.cpp.standards import knows_standard
from assay.verifiers.code.repeat import repeat_while_killed, was_killed
from assay.verifiers.code.scoring import PASS, text_tail, use_of
from assay.verifiers.code.settings import PROGRAM_FILE, CppSettings
from assay.verifiers.port import Artifacts

_log = logging.getLogger(__name__)
_COMPILER: Final = "g++"
_VERSION_S: Final = 10.0
_PROGRAM_BYTES_MAX: Final = 32 * MIB
_SOURCE: Final = "program.cpp"
_COMPILE_BLOCKED_S: Final = 10.0
"""A compiler waits only for its files."""
_SIMPLEST: Final = "int main() { return 0; }\n"
_WRAPPER: Final = "wrapper.sh"
_KILLED: Final = "killed"
_WRAPPER_TEXT: Final = f"""\
"$@"
status=$?
[ $status -le 128 ] || echo $status > {_KILLED}
exit $status
"""
"""Runs each part of the compiler and writes the number of a signal that ended it to a file, which
no source can write. The driver's output cannot be used: a source can influence it."""
_SIGKILLED: Final = b"137\n"
"""Exit code of a shell for SIGKILL."""
_HEADER_CPU_S: Final = 60.0
_HEADER_MEMORY_BYTES: Final = 2_048 * MIB
_HEADER_BYTES_MAX: Final = 384 * MIB
"""The whole library takes 100 MB. These bound text of this side only."""
_NO_PRELUDE: Final = Prelude()
_WORDS_OF_THE_PRELUDE: Final = (HEADER.encode(), b"PCH file", b"internal compiler error")
ERROR: Final = "compile_error"
_GOOD: Final = b"P"
_BAD: Final = b"E"


class _NotKept(Exception):
    """A compilation whose verdict may differ next time."""

    def __init__(self, verdict: str, use: ResourceUse) -> None:
        super().__init__(verdict)
        self.verdict = verdict
        self.use = use


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """The result of a compilation: a program, or a verdict."""

    program: bytes = b""
    verdict: str = PASS
    stderr: str = ""
    use: ResourceUse
    """Usage of this call; zero if the artifact existed."""
    key: str = ""
    """The artifact's."""
    made_of: str = ""
    """Of an error: a hash of the source that it speaks of."""


class Compiler:
    """g++ in a box; results are kept as artifacts."""

    def __init__(
        self,
        launcher: CommandLauncher,
        artifacts: Artifacts,
        *,
        headers: PrecompiledHeaders | None = None,
        sandbox: SandboxSettings | None = None,
    ) -> None:
        """Ask the compiler for its version, which is part of every key.

        Args:
            launcher: compiles; its boxes show the folder of `headers`.
            artifacts: keeps the results.
            headers: precompiled ones; `None`: no source uses any.
            sandbox: for boxes that make them.

        Raises:
            RuntimeError: there is no compiler.
        """
        self._path, self._version = _compiler()
        self._launcher = launcher
        self._artifacts = artifacts
        self._headers = headers
        self._sandbox = sandbox or SandboxSettings()
        self._proved: set[tuple[str, ...]] = set()
        self._known: dict[str, bool] = {}

    def key(self, source: str, settings: CppSettings) -> str:
        """A hash of everything that the result depends on."""
        parts = (
            self._version,
            *(flag.encode() for flag in self._flags(settings)),
            f"{settings.compile_cpu_s} {settings.compile_memory_bytes}".encode(),
        )
        digest = hashlib.sha256()
        for part in parts:
            digest.update(len(part).to_bytes(8, "big") + part)
        return f"{program_prefix(source)}{digest.hexdigest()}"

    def compile(self, source: str, settings: CppSettings) -> Compiled:
        """Compile, or return the kept result of the same compilation.

        In the first standard that takes the source, if the settings name none; what no standard
        takes has the error of the first. A standard that this compiler does not know is not tried.

        Raises:
            SandboxError: the compilation could not run.
            RuntimeError: the compiler does not work for any source.
        """
        first, *others = settings.attempts()
        tried = [self._compile_as(source, first)]
        for one in others:
            if tried[-1].verdict != ERROR:
                break
            if self._knows(one.standard):
                tried.append(self._compile_as(source, one))
        taken = tried[0] if tried[-1].verdict == ERROR else tried[-1]
        use = functools.reduce(ResourceUse.plus, (one.use for one in tried))
        return replace(taken, use=use)

    def _compile_as(self, source: str, settings: CppSettings) -> Compiled:
        """Compile in one standard.

        A program serves all sources that differ from its own in comments and blanks only
        (`shared_text`). An error serves its own source only: it names lines.
        """
        own = hashlib.sha256(_encoded(source)).hexdigest()
        shared = self._compile(self.key(shared_text(source), settings), source, settings)
        if shared.verdict == PASS or shared.made_of in {own, ""}:
            return shared
        return self._compile(self.key(source, settings), source, settings)

    def _compile(self, key: str, source: str, settings: CppSettings) -> Compiled:
        spent = [ResourceUse()]

        def make() -> bytes:
            self._prove(settings)
            prelude = self._prelude(source, settings)
            result = repeat_while_killed(
                lambda: self._run(source, settings, prelude), _compiler_killed
            )
            spent[0] = use_of(result)
            if prelude.options and _may_be_the_prelude(result):
                result = repeat_while_killed(
                    lambda: self._run(source, settings, _NO_PRELUDE), _compiler_killed
                )
                spent[0] = spent[0].plus(use_of(result))
            if _compiler_killed(result):
                self.check(settings)
            return _artifact(result, source)

        try:
            artifact = self._artifacts.get_or_make(key, make)
        except _NotKept as passing:
            return Compiled(verdict=passing.verdict, use=passing.use, key=key)
        return read_artifact(artifact, spent[0], key)

    def close(self) -> None:
        """End the launcher."""
        self._launcher.close()

    def _knows(self, standard: str) -> bool:
        """Whether this compiler has such a standard: g++ 10 has no gnu++23."""
        if standard not in self._known:
            self._known[standard] = knows_standard(self._path, standard)
        return self._known[standard]

    def _prove(self, settings: CppSettings) -> None:
        """Check that the compiler works with these flags before a source is judged wrong.

        Raises:
            RuntimeError: it does not compile a trivial program.
        """
        flags = self._flags(settings)
        if flags not in self._proved:
            self.check(settings)
            self._proved.add(flags)

    def check(self, settings: CppSettings) -> None:
        """Compile a trivial program now.

        Raises:
            SandboxError: the compilation could not run.
            RuntimeError: the compiler does not compile it.
        """
        result = self._run(_SIMPLEST, settings, _NO_PRELUDE)
        if not _is_program(result):
            flags = " ".join(self._flags(settings))
            message = f"{self._path} {flags}: {text_tail(result.stderr)}"
            raise RuntimeError(message)

    def _prelude(self, source: str, settings: CppSettings) -> Prelude:
        """How this source is compiled with precompiled headers; proved by a trivial program."""
        headers = leading_headers(source)
        if self._headers is None or not headers:
            return _NO_PRELUDE
        flags = self._language_flags(settings)
        prelude = self._headers.prelude(headers, flags, functools.partial(self._make, flags))
        proof = (*flags, *prelude.options)
        if prelude.options and proof not in self._proved:
            if not _is_program(self._run(_SIMPLEST, settings, prelude)):
                _log.warning("%s: precompiled headers do not work", self._path)
                self._headers.reject(headers, flags)
                return _NO_PRELUDE
            self._proved.add(proof)
        return prelude

    def _make(self, flags: tuple[str, ...], text: bytes) -> Mapping[str, bytes]:
        """Compile a header in a box of its own, whose scratch space is large enough."""
        wide = max(self._sandbox.scratch_bytes_max, _HEADER_BYTES_MAX)
        sandbox = self._sandbox.model_copy(update={"scratch_bytes_max": wide})
        out = ("-o", PRECOMPILED, "-MD", "-MF", DEPENDENCIES)
        with contextlib.closing(open_command_launcher(sandbox, Clock())) as launcher:
            result = launcher.run(
                CommandRun(
                    argv=(self._path, *flags, "-x", "c++-header", HEADER, *out),
                    files={HEADER: text},
                    env={"LC_ALL": "C"},
                    collect=(PRECOMPILED, DEPENDENCIES),
                    limits=Limits(
                        cpu_s=_HEADER_CPU_S,
                        blocked_s=_COMPILE_BLOCKED_S,
                        memory_bytes=_HEADER_MEMORY_BYTES,
                        file_bytes=_HEADER_BYTES_MAX,
                        disk_bytes=_HEADER_BYTES_MAX,
                    ),
                )
            )
        return result.files if result.exit_code == 0 else {}

    def _flags(self, settings: CppSettings) -> tuple[str, ...]:
        return (*self._language_flags(settings), "-s", *self._linker)

    def _language_flags(self, settings: CppSettings) -> tuple[str, ...]:
        standard = settings.attempts()[0].standard
        return (f"-std={standard}", f"-O{settings.optimize}", "-pipe", "-w")

    @functools.cached_property
    def _linker(self) -> tuple[str, ...]:
        """Options for the fastest linker that works in a box."""
        return faster_linker(
            lambda options: _is_program(self._linked(("-O0", *options), _SIMPLEST, CppSettings()))
        )

    def _run(self, source: str, settings: CppSettings, prelude: Prelude) -> RunResult:
        return self._linked(self._flags(settings), source, settings, prelude)

    def _linked(
        self,
        flags: tuple[str, ...],
        source: str,
        settings: CppSettings,
        prelude: Prelude = _NO_PRELUDE,
    ) -> RunResult:
        parts = ("-wrapper", f"/bin/sh,{_WRAPPER}", "-o", PROGRAM_FILE, _SOURCE)
        own = {_SOURCE: _encoded(source), _WRAPPER: _WRAPPER_TEXT.encode("ascii")}
        return self._launcher.run(
            CommandRun(
                argv=(self._path, *flags, *prelude.options, *parts),
                files={**own, **dict(prelude.files)},
                env={"LC_ALL": "C"},
                collect=(PROGRAM_FILE, _KILLED),
                limits=Limits(
                    cpu_s=settings.compile_cpu_s,
                    blocked_s=_COMPILE_BLOCKED_S,
                    memory_bytes=settings.compile_memory_bytes,
                    file_bytes=_PROGRAM_BYTES_MAX,
                    output_bytes=4 * MIB,
                ),
            )
        )


def open_compiler(
    sandbox: SandboxSettings,
    artifacts: Artifacts,
    shared: Path | None,
    *,
    beside: Beside = in_background,
) -> Compiler:
    """Open the compiler with its launcher.

    Args:
        sandbox: the operator's settings.
        artifacts: keeps the results.
        shared: a directory of the platform for precompiled headers; `None`: none are used.
        beside: how to make one.

    Raises:
        IsolationUnavailable: this host cannot isolate untrusted code.
        RuntimeError: there is no compiler.
    """
    if shared is None:
        return Compiler(open_command_launcher(sandbox, Clock()), artifacts)
    folder = shared / "headers"
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    launcher = open_command_launcher(sandbox, Clock(), inside=Inside(readable=(folder,)))
    # Without isolation a source's box could write what the next source reads.
    version = _compiler()[1]
    headers = PrecompiledHeaders(folder, version, beside=beside) if launcher.isolated else None
    return Compiler(launcher, artifacts, headers=headers, sandbox=sandbox)


def _compiler() -> tuple[str, bytes]:
    """The compiler's path, and what it says of its version.

    Raises:
        RuntimeError: there is none.
    """
    path = shutil.which(_COMPILER)
    if path is None:
        raise RuntimeError(f"{_COMPILER} is not installed")
    done = subprocess.run(  # noqa: S603 - the operator's own compiler
        [path, "--version"], capture_output=True, check=True, timeout=_VERSION_S
    )
    return path, done.stdout


def _is_program(result: RunResult) -> bool:
    return result.exit_code == 0 and PROGRAM_FILE in result.files


def _may_be_the_prelude(result: RunResult) -> bool:
    """Whether an error is, or names, what this side added; then it is to be seen without it."""
    if result.status.is_limit or _is_program(result):
        return False
    named = any(word in result.stderr for word in _WORDS_OF_THE_PRELUDE)
    return named or _compiler_killed(result)


def _compiler_killed(result: RunResult) -> bool:
    part_killed = result.files.get(_KILLED) == _SIGKILLED and not result.status.is_limit
    return was_killed(result) or part_killed


def _artifact(result: RunResult, source: str) -> bytes:
    if result.status is RunStatus.BLOCKED_LIMIT:
        raise _NotKept("compile_blocked_limit", use_of(result))
    if _compiler_killed(result):
        raise _NotKept("compile_error", use_of(result))
    program = result.files.get(PROGRAM_FILE)
    if result.status is RunStatus.EXITED and result.exit_code == 0 and program:
        return _GOOD + program
    verdict = f"compile_{result.status.value}" if result.status.is_limit else "compile_error"
    made_of = hashlib.sha256(_encoded(source)).hexdigest()
    told = {"verdict": verdict, "stderr": text_tail(result.stderr), "made_of": made_of}
    return _BAD + json.dumps(told).encode("ascii")


def read_artifact(artifact: bytes, use: ResourceUse, key: str) -> Compiled:
    """Return what a compilation kept under `key`; `use` is that of the caller."""
    if artifact[:1] == _GOOD:
        return Compiled(program=artifact[1:], use=use, key=key)
    told = json.loads(artifact[1:])
    return Compiled(
        verdict=told["verdict"],
        stderr=told["stderr"],
        use=use,
        key=key,
        made_of=told.get("made_of", ""),
    )


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
