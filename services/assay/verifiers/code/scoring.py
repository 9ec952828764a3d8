"""Turns the outcomes of single tests into the end of a request.

Without partial credit the first failed test decides: a broken limit ends the request as
RESOURCE_LIMIT, anything else as a wrong answer. With partial credit the reward is the fraction of
tests passed, scaled between `reward_fail` and `reward_pass`; only a response that passes no test
and whose first test broke a limit ends as RESOURCE_LIMIT.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from assay.core.outcome import Outcome
from assay.core.tools.rewards import between
from assay.core.verdict import TEXT_CHARS_MAX, Ended, Evidence, ResourceUse
from assay.sandbox.port import RunResult, RunStatus
from assay.verifiers.code.compare import OutputComparison, output_equal
from assay.verifiers.code.settings import CodeSettings
from assay.verifiers.port import resource_limited, scored

PASS: Final = "pass"  # noqa: S105 - a verdict
LIMITS: Final = frozenset(status.value for status in RunStatus if status.is_limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestOutcome:
    """How one test of a program ended, and what it used."""

    __test__ = False

    verdict: str
    """`pass`, `wrong_answer`, `runtime_error`, `crashed`, a limit ..."""
    error: str = ""
    stderr: bytes = b""
    use: ResourceUse = field(default_factory=ResourceUse)
    blocked_s: float = 0.0
    share: float = 0.0
    """Of the test's reward that a program earns which does not pass: points of a judge."""

    @property
    def earned(self) -> float:
        """1 for a test that passed."""
        return 1.0 if self.verdict == PASS else self.share


def use_of(result: RunResult) -> ResourceUse:
    """The usage of a run."""
    return ResourceUse(cpu_s=result.cpu_s, memory_bytes_peak=result.memory_bytes_peak)


def run_verdict(status: RunStatus, exit_code: int | None) -> tuple[str, str]:
    """Verdict and error of a run before its output is compared; `pass` if nothing is wrong."""
    if status.is_limit:
        return status.value, ""
    if status is RunStatus.SIGNALED:
        return "crashed", f"signal {-(exit_code or 0)}"
    if exit_code:
        return "runtime_error", f"exit code {exit_code}"
    return PASS, ""


def compared(result: RunResult, wanted: str, comparison: OutputComparison) -> TestOutcome:
    """The outcome of a test whose program prints what is compared."""
    verdict, error = run_verdict(result.status, result.exit_code)
    if verdict == PASS and not output_equal(result.stdout, wanted, comparison):
        verdict = "wrong_answer"
    return TestOutcome(
        verdict=verdict,
        error=error,
        stderr=result.stderr,
        use=use_of(result),
        blocked_s=result.blocked_s,
    )


def conclude(
    outcomes: Sequence[TestOutcome], *, total: int, settings: CodeSettings, extracted: str
) -> Ended:
    """End the request; tests without an outcome did not run and count as failed."""
    evidence = _evidence(outcomes, total, extracted)
    use = ResourceUse()
    for outcome in outcomes:
        use = use.plus(outcome.use)
    credit = sum(outcome.earned for outcome in outcomes) if settings.partial_credit else 0.0
    if evidence.verdict in LIMITS and not credit:
        return resource_limited(settings=settings, evidence=evidence, use=use)
    if credit and evidence.verdict != PASS:
        share = credit / total
        reward = between(settings.reward_fail, settings.reward_pass, share)
        return Ended(outcome=Outcome.SCORED, reward=reward, evidence=evidence, use=use)
    passed = evidence.verdict == PASS
    return scored(passed=passed, settings=settings, evidence=evidence, use=use)


def _evidence(outcomes: Sequence[TestOutcome], total: int, extracted: str) -> Evidence:
    """What the first test that failed says; without one, the first that did not run."""
    passed = sum(outcome.verdict == PASS for outcome in outcomes)
    failed_at = next((at for at, one in enumerate(outcomes) if one.verdict != PASS), passed)
    decisive = outcomes[failed_at] if failed_at < len(outcomes) else None
    verdict = decisive.verdict if decisive else "not_run" if passed < total else PASS
    return Evidence(
        verdict=verdict,
        tests_passed=passed,
        tests_total=total,
        failed_test=None if verdict == PASS else failed_at,
        stderr_tail=text_tail(decisive.stderr) if decisive else "",
        extracted=bounded_text(extracted),
        error=bounded_text(decisive.error) if decisive else "",
    )


def no_program(settings: CodeSettings) -> Ended:
    """End a response that contains no program in the right language."""
    return scored(passed=False, settings=settings, evidence=Evidence(verdict="no_program"))


def broke_the_run(error: Exception, *, settings: CodeSettings, extracted: str) -> Ended:
    """End a response whose runs cannot be explained while those of a control can."""
    evidence = Evidence(
        verdict="broke_the_run",
        extracted=bounded_text(extracted),
        error=bounded_text(f"{type(error).__name__}: {error}"),
    )
    return scored(passed=False, settings=settings, evidence=evidence)


def bounded_text(text: str) -> str:
    """The beginning of a text, without surrogates, which UTF-8 cannot encode."""
    return text[:TEXT_CHARS_MAX].encode("utf-8", "replace").decode("utf-8")


def text_tail(data: bytes) -> str:
    """The end of a program's output, as bounded text."""
    return data[-TEXT_CHARS_MAX:].decode("utf-8", "replace")[-TEXT_CHARS_MAX:]
