"""The stage `cuda.compile`: reads the response, compiles its kernels with NVRTC on a CPU worker.

No GPU is held for a response that is no program, has no kernel of its own, or whose kernels do not
compile. Kernels that NVRTC cannot take by themselves (headers that are not installed, Triton) go on
unchecked: the run stage compiles them.
"""

import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

from assay.core.errors import FailedPrecondition
from assay.core.verdict import Ended, Evidence, HandedOver, ResourceUse, StageVerdict
from assay.edge.clock import Clock
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import MIB, HarnessRun, Limits, SandboxError
from assay.verifiers.code.scoring import bounded_text
from assay.verifiers.code.source.choices import PYTHON
from assay.verifiers.code.source.programs import program_of
from assay.verifiers.cuda import nvrtc_harness
from assay.verifiers.cuda.definition import CudaSettings
from assay.verifiers.cuda.device_code import PRELUDE, device_code
from assay.verifiers.cuda.solution import Solution, Unreadable, read_solution
from assay.verifiers.port import HandlerContext, Work, resource_limited, scored
from assay.verifiers.total import total

_HARNESS: Final = "nvrtc"
_DISTRIBUTION: Final = "nvidia-cuda-nvrtc"
_ADDRESS_BYTES: Final = 16 * 1_024 * MIB
_BLOCKED_S: Final = 20.0
"""A compiler waits for its files only."""
_SIMPLEST: Final = "__global__ void empty() {}\n"


class CompilerMissing(FailedPrecondition):
    """NVRTC is not installed; the operator installs the extra `cuda`."""


def nvrtc_library() -> Path:
    """NVRTC's shared library, of its distribution.

    Raises:
        CompilerMissing: it is not installed.
    """
    try:
        files = distribution(_DISTRIBUTION).files or []
    except PackageNotFoundError:
        files = []
    for file in files:
        if file.name.startswith("libnvrtc.so"):
            return Path(str(file.locate())).resolve()
    raise CompilerMissing("NVRTC is not installed: pip install 'assay[cuda-rewards]'")


def program_in(work: Work) -> str | None:
    """The response's Python program; `None`: it has none."""
    settings: CudaSettings = work.settings
    return program_of(work.response, settings.extraction, settings.block, PYTHON, ("ModelNew",))


def broke_the_run(error: Exception, settings: CudaSettings, program: str) -> Ended:
    """End a response that breaks what runs it while a control does not."""
    evidence = Evidence(
        verdict="broke_the_run",
        extracted=bounded_text(program),
        error=bounded_text(f"{type(error).__name__}: {error}"),
    )
    return scored(passed=False, settings=settings, evidence=evidence)


class CompileHandler:
    """Compiles the kernels of responses, each in a fresh box."""

    def __init__(self, context: HandlerContext) -> None:
        """Nothing is opened before the first source: a host of all stages need not have NVRTC."""
        self._sandbox = context.sandbox
        self._opened: tuple[str, ZygoteLauncher] | None = None

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Read and compile each response.

        Raises:
            CompilerMissing: NVRTC is not installed.
            IsolationUnavailable: this host cannot isolate untrusted code.
        """
        return [self._one(work) for work in works]

    def close(self) -> None:
        """End the zygote."""
        if self._opened is not None:
            self._opened[1].close()

    def _nvrtc(self) -> tuple[str, ZygoteLauncher]:
        """The library's path, and the launcher of boxes that show it."""
        if self._opened is None:
            library = nvrtc_library()
            inside = Inside(
                readable=(library.parent,), harnesses={_HARNESS: Path(nvrtc_harness.__file__)}
            )
            launcher = ZygoteLauncher(self._sandbox, Clock(), inside=inside)
            self._opened = str(library), launcher
        return self._opened

    def _one(self, work: Work) -> StageVerdict:
        settings: CudaSettings = work.settings
        program = program_in(work)
        if program is None:
            return scored(passed=False, settings=settings, evidence=Evidence(verdict="no_program"))
        try:
            solution = read_solution(program)
        except Unreadable as error:
            return _wrong("syntax_error", str(error), settings, program)
        if solution.fault == "no_model" or (solution.fault and settings.own_kernel):
            return _wrong(solution.fault, "", settings, program)
        return total(
            lambda: self._compiled(solution, settings, program),
            control=lambda: self._check(settings),
            at_fault=lambda error: broke_the_run(error, settings, program),
        )

    def _compiled(self, solution: Solution, settings: CudaSettings, program: str) -> StageVerdict:
        use, notes = ResourceUse(), []
        for source in solution.cuda:
            code = device_code(source)
            if code.reason:
                notes.append(code.reason)
                continue
            report, limit, own = self._compile(code.text, settings)
            use = use.plus(own)
            if limit:
                evidence = Evidence(verdict=f"compile_{limit}", extracted=bounded_text(program))
                return resource_limited(settings=settings, evidence=evidence, use=use)
            if report["is_fault"]:
                return _wrong("compile_error", str(report["log"]), settings, program, use)
            if report["status"]:
                raise SandboxError(f"NVRTC: result {report['status']}: {report['log'][-300:]}")
        return HandedOver(artifact=json.dumps({"unchecked": notes[:16]}).encode("ascii"), use=use)

    def _compile(
        self, text: str, settings: CudaSettings
    ) -> tuple[dict[str, Any], str, ResourceUse]:
        """The harness's report, or the limit that the compilation broke."""
        library, launcher = self._nvrtc()
        order = {
            "library": library,
            "source": f"{PRELUDE}#line 1\n{text}",
            "options": [f"--gpu-architecture={settings.architecture}", "--std=c++17"],
        }
        result = launcher.run_harness(
            HarnessRun(
                module=_HARNESS,
                payload=json.dumps(order).encode("ascii"),
                limits=Limits(
                    cpu_s=settings.compile_cpu_s,
                    blocked_s=_BLOCKED_S,
                    memory_bytes=settings.compile_memory_bytes,
                    address_bytes=_ADDRESS_BYTES,
                ),
            )
        )
        use = ResourceUse(cpu_s=result.cpu_s, memory_bytes_peak=result.memory_bytes_peak)
        if result.status.is_limit:
            return {}, result.status.value, use
        try:
            return json.loads(result.channel), "", use
        except ValueError:
            tail = result.stderr[-300:].decode("utf-8", "replace")
            message = f"no report of a compilation: {result.status.value} {tail}"
            raise SandboxError(message) from None

    def _check(self, settings: CudaSettings) -> None:
        """Compile a trivial kernel.

        Raises:
            SandboxError: NVRTC does not work here.
        """
        report, limit, _ = self._compile(_SIMPLEST, settings)
        if limit or report["status"]:
            raise SandboxError(f"NVRTC cannot compile a kernel: {limit or report['log'][-300:]}")


def _wrong(
    verdict: str,
    error: str,
    settings: CudaSettings,
    program: str,
    use: ResourceUse | None = None,
) -> Ended:
    evidence = Evidence(verdict=verdict, error=bounded_text(error), extracted=bounded_text(program))
    return scored(passed=False, settings=settings, evidence=evidence, use=use)
