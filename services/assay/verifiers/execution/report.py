"""What a program did: the report of one run, and the key under which it is kept.

A report is an artifact, because outputs are larger than evidence may be. Its key is a hash of the
call's name and of everything that was run, so that no other call finds or replaces it.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from assay.core.codec import CodecError, pack, unpack
from assay.core.ids import REPORT
from assay.core.outcome import Outcome
from assay.core.verdict import Ended, Evidence, ResourceUse
from assay.sandbox.port import RunResult
from assay.verifiers.code.scoring import (
    LIMITS,
    PASS,
    bounded_text,
    run_verdict,
    text_tail,
)
from assay.verifiers.execution.definition import FILES_BYTES_MAX, ProgramRun
from assay.verifiers.port import Artifacts, PipelineSettings, resource_limited, scored

BROKE_THE_RUN: Final = "broke_the_run"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A compilation or a run."""

    verdict: str
    """`pass`, `runtime_error`, `crashed`, `compile_error`, `broke_the_run` or a limit."""
    exit_code: int | None
    """Minus the signal's number after a crash; `None` if a limit ended it."""
    wall_s: float = 0.0
    stdout: bytes = b""
    stderr: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What happened to a program."""

    compiled: Step | None = None
    """Absent for languages that are not compiled."""
    ran: Step | None = None
    """Absent if it was not compiled."""
    files: Mapping[str, bytes] = field(default_factory=lambda: MappingProxyType({}))
    use: ResourceUse = field(default_factory=ResourceUse)

    @property
    def verdict(self) -> str:
        """That of the last step."""
        step = self.ran or self.compiled
        return "not_run" if step is None else step.verdict


def report_key(program: bytes, run: ProgramRun) -> str:
    """The key of the report of `program` under `run`; empty if the call has no name."""
    if not run.call:
        return ""
    digest = hashlib.sha256()
    for part in (program, run.model_dump_json().encode()):
        digest.update(len(part).to_bytes(8, "big") + part)
    return f"{REPORT}{digest.hexdigest()}"


def step_of(result: RunResult) -> Step:
    """A run that ended."""
    verdict, _ = run_verdict(result.status, result.exit_code)
    return Step(
        verdict=verdict,
        exit_code=None if verdict in LIMITS else result.exit_code,
        wall_s=result.wall_s,
        stdout=result.stdout,
        stderr=result.stderr,
    )


def bounded_files(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """The files, in order, without those that would make the report too large."""
    found: dict[str, bytes] = {}
    left = FILES_BYTES_MAX
    for name, content in files.items():
        if len(content) <= left:
            found[name] = content
            left -= len(content)
    return found


def reported(
    make: Callable[[], RunReport],
    *,
    artifacts: Artifacts,
    program: str,
    run: ProgramRun,
    settings: PipelineSettings,
) -> Ended:
    """Make the report, keep it if the call has a name, and end the request by it.

    It is made before leave to store it is requested: a slot makes one artifact at a time, and a run
    may need another (a trivial program, compiled to prove that the tools work).
    """
    key = report_key(program.encode("utf-8", "surrogateescape"), run)
    kept = artifacts.get(key) if key else None
    if kept is not None:
        return _ended(unpack_report(kept), program, settings)
    report = make()
    if key:
        kept = artifacts.get_or_make(key, lambda: pack_report(report))
        report = unpack_report(kept)
    return _ended(report, program, settings)


def _ended(report: RunReport, program: str, settings: PipelineSettings) -> Ended:
    verdict = report.verdict
    step = report.ran or report.compiled
    passed = verdict == PASS
    evidence = Evidence(
        verdict=verdict,
        tests_passed=int(passed),
        tests_total=1,
        failed_test=None if passed else 0,
        stderr_tail=text_tail(step.stderr) if step is not None else "",
        extracted=bounded_text(program),
        error=f"exit code {step.exit_code}" if step is not None and step.exit_code else "",
    )
    if verdict.removeprefix("compile_") in LIMITS:
        return resource_limited(settings=settings, evidence=evidence, use=report.use)
    ended = scored(passed=passed, settings=settings, evidence=evidence, use=report.use)
    assert ended.outcome is Outcome.SCORED  # noqa: S101 - the end of this function's cases
    return ended


def pack_report(report: RunReport) -> bytes:
    """The report as an artifact."""
    return pack(
        (
            _VERSION,
            _fields(report.compiled),
            _fields(report.ran),
            dict(report.files),
            report.use.cpu_s,
            report.use.memory_bytes_peak,
        )
    )


def unpack_report(packed: bytes) -> RunReport:
    """Undo `pack_report`.

    Raises:
        CodecError: the bytes are no report of this version.
    """
    match unpack(packed):
        case [1, compiled, ran, dict() as files, int() | float() as cpu_s, int() as memory]:
            return RunReport(
                compiled=_step(compiled),
                ran=_step(ran),
                files={str(name): content for name, content in files.items()},
                use=ResourceUse(cpu_s=float(cpu_s), memory_bytes_peak=memory),
            )
    raise CodecError("not a report of a known version")


def _fields(step: Step | None) -> tuple[object, ...] | None:
    if step is None:
        return None
    return (step.verdict, step.exit_code, step.wall_s, step.stdout, step.stderr)


def _step(fields: object) -> Step | None:
    match fields:
        case None:
            return None
        case [
            str() as verdict,
            int() | None as exit_code,
            int() | float() as wall_s,
            bytes() as stdout,
            bytes() as stderr,
        ]:
            return Step(
                verdict=verdict,
                exit_code=exit_code,
                wall_s=float(wall_s),
                stdout=stdout,
                stderr=stderr,
            )
    raise CodecError("not a step of a report")
