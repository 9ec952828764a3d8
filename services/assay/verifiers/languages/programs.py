"""Compiles and runs programs of any language in boxes, and proves first that the tools work.

A runtime that cannot start prints an error and ends with a code, like a program that fails. So
before the first verdict under a memory limit a trivial program runs under it: if that fails, no
program of the language can be judged here.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from assay.config.settings import SandboxSettings
from assay.core.verdict import ResourceUse
from assay.edge.clock import Clock
from assay.sandbox.launchers.bubblewrap import open_command_launcher
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import CommandLauncher, CommandRun, Limits, RunResult
from assay.verifiers.code.scoring import PASS, text_tail
from assay.verifiers.languages.commands import (
    CompileLimits,
    SourceFile,
    default_flags,
    run_argv,
    run_env,
    run_files,
)
from assay.verifiers.languages.compiler import (
    Compiled,
    LanguageCompiler,
    read_artifact,
)
from assay.verifiers.languages.go_packages import GoPackages, go_packages
from assay.verifiers.languages.language import GO, LANGUAGES, Language
from assay.verifiers.languages.toolchains import Toolchain, ToolMissing, find_toolchain
from assay.verifiers.port import Artifacts


class Programs:
    """All languages of this machine; launchers and compilers are opened at first use."""

    def __init__(self, sandbox: SandboxSettings, artifacts: Artifacts) -> None:
        self._sandbox = sandbox
        self._artifacts = artifacts
        self._compilers: dict[str, LanguageCompiler] = {}
        self._compile_launchers: dict[str, CommandLauncher] = {}
        self._launcher: ZygoteLauncher | None = None
        self._proved: set[tuple[str, int]] = set()

    def compiled(self, source: SourceFile, key: str = "") -> Compiled:
        """The program; that kept under `key`, or made now. A language that is run as it is has its
        source as program.

        Raises:
            ToolMissing: the language's tools are not on this machine.
            SandboxError: the compilation could not run.
            RuntimeError: the compiler does not work for any source.
        """
        if not source.language.is_compiled:
            return Compiled(program=source.text)
        kept = self._artifacts.get(key) if key else None
        if kept is not None:
            return read_artifact(kept)
        compiler = self._compiler(source.language)
        first: Compiled | None = None
        use = ResourceUse()
        for flags in compiler.standards(source.flags):
            found = compiler.compile(source.text, flags, source.limits)
            use = use.plus(found.use)
            if found.verdict != "compile_error":
                return replace(found, use=use)
            first = first or found
        assert first is not None  # noqa: S101 - there is a standard at least
        return replace(first, use=use)

    def check_compiler(self, source: SourceFile) -> None:
        """Compile a trivial program as `source` is.

        Raises:
            SandboxError: the compilation could not run.
            RuntimeError: the tools are missing, or compile nothing.
        """
        if source.language.is_compiled:
            compiler = self._compiler(source.language)
            compiler.check(compiler.standards(source.flags)[0], source.limits)

    def run(
        self,
        language: Language,
        program: bytes,
        *,
        limits: Limits,
        stdin: bytes = b"",
        files: Mapping[str, bytes] = MappingProxyType({}),
        collect: tuple[str, ...] = (),
        arguments: tuple[str, ...] = (),
    ) -> RunResult:
        """Run a program in a fresh box; `limits` are its own, the runtime's share is added.

        Raises:
            ToolMissing: the language's tools are not on this machine.
            SandboxError: it could not be run.
            RuntimeError: no program of the language runs under this memory limit.
        """
        self.check_once(language, limits)
        command = self.command(language, program, limits=limits, arguments=arguments)
        return self.launcher.run(
            CommandRun(
                argv=command.argv,
                env=command.env,
                stdin=stdin,
                files={**files, **command.files},
                executables=command.executables,
                collect=collect,
                limits=command.limits,
            )
        )

    def command(
        self, language: Language, program: bytes, *, limits: Limits, arguments: tuple[str, ...] = ()
    ) -> CommandRun:
        """The command that runs a program.

        Raises:
            ToolMissing: the language's tools are not on this machine.
        """
        toolchain = find_toolchain(language)
        return CommandRun(
            argv=(*run_argv(toolchain, limits.memory_bytes), *arguments),
            env=run_env(toolchain, limits.memory_bytes),
            files={**run_files(language), language.file: program},
            executables=frozenset({language.file}),
            limits=language.bounded(limits),
        )

    def check(self, language: Language, limits: Limits) -> None:
        """Run a trivial program under these limits now.

        Raises:
            SandboxError: it could not be run.
            RuntimeError: it fails, so nothing can be said about other programs.
        """
        source = SourceFile(
            language=language,
            text=language.empty.encode(),
            flags=default_flags(language),
            limits=CompileLimits(cpu_s=60.0, memory_bytes=2 * 1024**3),
        )
        compiled = self.compiled(source)
        if compiled.verdict != PASS:
            raise RuntimeError(f"{language.title} cannot compile a program: {compiled.stderr}")
        trivial = self.command(language, compiled.program, limits=limits)
        result = self.launcher.run(trivial)
        if result.exit_code != 0:
            ended = f"{result.status.value} {text_tail(result.stderr or result.stdout)}"
            raise RuntimeError(f"{language.title} cannot run a program: {ended}")

    def check_once(self, language: Language, limits: Limits) -> None:
        """As `check`, once for each amount of memory.

        Raises:
            SandboxError: it could not be run.
            RuntimeError: it fails, so nothing can be said about other programs.
        """
        proof = (language.name, limits.memory_bytes)
        if proof not in self._proved:
            self.check(language, Limits(memory_bytes=limits.memory_bytes))
            self._proved.add(proof)

    @property
    def launcher(self) -> ZygoteLauncher:
        """Runs programs of all languages of this machine."""
        if self._launcher is None:
            readable = [path for tools in present().values() for path in tools.readable]
            inside = Inside(readable=tuple(readable))
            self._launcher = ZygoteLauncher(self._sandbox, Clock(), inside=inside)
        return self._launcher

    def _compiler(self, language: Language) -> LanguageCompiler:
        if language.name not in self._compilers:
            toolchain = find_toolchain(language)
            library = go_packages(toolchain) if language is GO else None
            launcher = self._compile_launcher(toolchain, library)
            self._compilers[language.name] = LanguageCompiler(
                toolchain, launcher, self._artifacts, library.list if library else None
            )
        return self._compilers[language.name]

    def _compile_launcher(
        self, toolchain: Toolchain, library: GoPackages | None
    ) -> CommandLauncher:
        """One per set of directories that a compiler needs."""
        readable = (*toolchain.readable, *([library.folder] if library else []))
        key = ":".join(map(str, readable))
        if key not in self._compile_launchers:
            inside = Inside(readable=readable)
            self._compile_launchers[key] = open_command_launcher(
                self._sandbox, Clock(), inside=inside
            )
        return self._compile_launchers[key]

    def close(self) -> None:
        """End all launchers."""
        for launcher in (*self._compile_launchers.values(), self._launcher):
            if launcher is not None:
                launcher.close()


def present() -> Mapping[str, Toolchain]:
    """The languages whose tools are on this machine."""
    found = {}
    for language in LANGUAGES.values():
        try:
            found[language.name] = find_toolchain(language)
        except ToolMissing:
            continue
    return found
