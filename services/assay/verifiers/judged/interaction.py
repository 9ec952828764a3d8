"""One conversation of a program with an interactor, and what it says about the program."""

import json
import math
import signal
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.config.settings import SandboxSettings
from assay.core.verdict import ResourceUse
from assay.edge.clock import Clock
from assay.sandbox.launchers.order import ENVIRONMENT, Inside
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import MIB, HarnessResult, HarnessRun, Limits, RunStatus, SandboxError
from assay.verifiers.code.scoring import PASS, TestOutcome, run_verdict
from assay.verifiers.judged import harness
from assay.verifiers.judged.points import GIVEN, share_of
from assay.verifiers.languages.language import Language
from assay.verifiers.languages.programs import Programs, present

_HARNESS: Final = "interaction"
_OWN_MEMORY_BYTES: Final = 64 * MIB
"""Of the process between the two, with what waits for them."""
_OWN_CPU_S: Final = 5.0
_ACCEPTED: Final = 0
_REFUSED: Final = frozenset({1, 2})


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """How a conversation ended."""

    result: HarnessResult
    report: Mapping[str, Any] | None
    """What the harness said; absent where a limit of the box ended it."""
    cpu_s_max: float
    """Of the program."""
    points_max: float | None
    """Of the test, where the interactor gives points."""

    @property
    def failure(self) -> str:
        """Why the interactor has judged nothing, as far as it may be its own fault."""
        if self.report is None:
            return self.result.status.value
        interactor = self.report["interactor"]
        code = interactor["code"]
        if self.report["flood"] or self._program_over() or code == _ACCEPTED or code in _REFUSED:
            return ""
        if self._share() is not None:
            return ""
        return f"exit code {code} {self.report['tail'][-300:]}"

    def _program_over(self) -> bool:
        """Whether the program itself used more than its CPU time."""
        assert self.report is not None  # noqa: S101 - the callers'
        program = self.report["program"]
        over = program["cpu_s"] > self.cpu_s_max
        return bool(over or program["code"] == -signal.SIGXCPU)

    def _share(self) -> float | None:
        """Of the test's points; `None` where the interactor has given none, or has said so much
        that the beginning is not here."""
        assert self.report is not None  # noqa: S101 - the callers'
        if self.report["interactor"]["code"] != GIVEN or self.report["tail_cut"]:
            return None
        return share_of(self.report["tail"].encode("utf-8", "replace"), self.points_max)

    def outcome(self) -> TestOutcome:
        """The outcome of the test."""
        use = ResourceUse(cpu_s=self.result.cpu_s, memory_bytes_peak=self.result.memory_bytes_peak)
        verdict, error = self._verdict()
        share = self._share() if verdict == "wrong_answer" else None
        return TestOutcome(
            verdict=verdict,
            error=error,
            share=share or 0.0,
            stderr=self.result.stderr,
            use=use,
            blocked_s=self.result.blocked_s,
        )

    def _verdict(self) -> tuple[str, str]:
        if self.report is None:
            return self.result.status.value, ""
        if self.report["flood"]:
            return RunStatus.OUTPUT_LIMIT.value, ""
        if self._program_over():
            return RunStatus.CPU_LIMIT.value, ""
        program, code = self.report["program"], self.report["interactor"]["code"]
        own = program["code"]
        if own and not program["killed"] and own != -signal.SIGPIPE:
            status = RunStatus.EXITED if own > 0 else RunStatus.SIGNALED
            return run_verdict(status, own)
        if code == _ACCEPTED or self._share() == 1.0:
            return PASS, ""
        return "wrong_answer", str(self.report["tail"])


class Interactions:
    """Runs conversations in boxes."""

    def __init__(self, sandbox: SandboxSettings, programs: Programs) -> None:
        self._sandbox = sandbox
        self._programs = programs
        self._launcher: ZygoteLauncher | None = None

    def run(
        self,
        *,
        program: tuple[Language, bytes],
        interactor: tuple[Language, bytes],
        files: Mapping[str, bytes],
        limits: Limits,
        judge_cpu_s: float,
        judge_memory_bytes: int,
        points_max: float | None = None,
    ) -> Interaction:
        """Connect the two until both have ended.

        Args:
            program: language and program of the response.
            interactor: those of the reference.
            files: what the interactor reads.
            limits: bounds of the program.
            judge_cpu_s: CPU time of the interactor.
            judge_memory_bytes: memory of the interactor.
            points_max: of the test, where the interactor gives points.

        Raises:
            SandboxError: the sandbox broke.
            RuntimeError: no program of one of the languages runs here.
        """
        self._programs.check_once(program[0], limits)
        judge = Limits(cpu_s=judge_cpu_s, memory_bytes=judge_memory_bytes)
        self._programs.check_once(interactor[0], judge)
        order = {
            "program": self._order(program, limits, {}, ()),
            "output_bytes": limits.output_bytes,
        }
        secret = self._order(interactor, judge, files, ("input", "output", "answer"))
        result = self._launch().run_harness(
            HarnessRun(
                module=_HARNESS,
                payload=json.dumps(order).encode("ascii"),
                sealed=json.dumps(secret).encode("ascii"),
                limits=_together(program[0].bounded(limits), interactor[0].bounded(judge)),
            )
        )
        report = _read(result)
        return Interaction(
            result=result, report=report, cpu_s_max=limits.cpu_s, points_max=points_max
        )

    def _order(
        self,
        what: tuple[Language, bytes],
        limits: Limits,
        files: Mapping[str, bytes],
        arguments: tuple[str, ...],
    ) -> dict[str, Any]:
        command = self._programs.command(*what, limits=limits, arguments=arguments)
        contents = {**files, **command.files}
        return {
            "argv": list(command.argv),
            "env": {"HOME": "/box", **ENVIRONMENT, **command.env},
            "files": {name: b64encode(content).decode() for name, content in contents.items()},
            "executables": sorted(command.executables),
            "cpu_s": math.ceil(limits.cpu_s) + 1,
        }

    def _launch(self) -> ZygoteLauncher:
        if self._launcher is None:
            readable = [path for tools in present().values() for path in tools.readable]
            inside = Inside(readable=tuple(readable), harnesses={_HARNESS: Path(harness.__file__)})
            self._launcher = ZygoteLauncher(self._sandbox, Clock(), inside=inside)
        return self._launcher

    def close(self) -> None:
        """End the launcher."""
        if self._launcher is not None:
            self._launcher.close()


def _together(program: Limits, interactor: Limits) -> Limits:
    """Bounds of the box with both. Nothing runs while both wait: that is the program's limit."""
    memory = program.memory_bytes + interactor.memory_bytes + _OWN_MEMORY_BYTES
    addresses = max(program.address_bytes or 0, interactor.address_bytes or 0)
    return Limits(
        cpu_s=program.cpu_s + interactor.cpu_s + _OWN_CPU_S,
        blocked_s=program.blocked_s,
        memory_bytes=memory,
        address_bytes=addresses or 2 * memory,
        processes=program.processes + interactor.processes,
        output_bytes=program.output_bytes,
    )


def _read(result: HarnessResult) -> Mapping[str, Any] | None:
    """The harness's report.

    Raises:
        SandboxError: it ended without one, though no limit was broken.
    """
    if result.status.is_limit:
        return None
    try:
        report: Mapping[str, Any] = json.loads(result.channel)
    except ValueError:
        raise SandboxError(f"no report of a conversation: {result.stderr[-300:]!r}") from None
    return report
