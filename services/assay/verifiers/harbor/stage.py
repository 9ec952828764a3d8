"""The stage `harbor.run`: the task's tests, with the declared artifacts, in a fresh box.

What ran in the agent's box is not here: no process, no file that the task does not declare, and the
tests come from the reference. A verifier that writes no reward is tried again with the reference's
control; if it writes none there either, the reference is at fault.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from assay.core.outcome import Outcome
from assay.core.verdict import Component, Ended, Evidence, ResourceUse, StageVerdict
from assay.edge.clock import Clock
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import CommandRun, Limits, RunResult
from assay.verifiers.code.repeat import repeat_while_killed, was_killed
from assay.verifiers.code.scoring import bounded_text, text_tail, use_of
from assay.verifiers.harbor.rewards import JSON_FILE, TEXT_FILE, RewardError, read_rewards
from assay.verifiers.port import HandlerContext, Work, resource_limited, scored
from assay.verifiers.total import total

if TYPE_CHECKING:
    from assay.verifiers.harbor.definition import HarborReference, HarborSettings

_SCRIPT: Final = (
    "mkdir -p app tests solution logs/agent logs/artifacts logs/verifier && "
    "rm -f logs/verifier/reward.json logs/verifier/reward.txt && cd app && "
    "exec bash /tests/test.sh"
)
_BLOCKED_S_MAX: Final = 600.0


class HarborHandler:
    """Grades one task at a time."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context
        self._opened: ZygoteLauncher | None = None

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Grade each by itself."""
        return [self._one(work) for work in works]

    def close(self) -> None:
        """End the launcher."""
        if self._opened is not None:
            self._opened.close()

    @property
    def _launcher(self) -> ZygoteLauncher:
        if self._opened is None:
            self._opened = ZygoteLauncher(self._context.sandbox, Clock())
        return self._opened

    def _one(self, work: Work) -> Ended:
        settings: HarborSettings = work.settings
        reference: HarborReference = work.reference
        artifacts = _declared(reference, work.artifacts, work.response)
        return total(
            lambda: self._graded(reference, artifacts, settings),
            control=lambda: self._run_tests(reference, reference.control_files()),
            at_fault=lambda error: scored(
                passed=False,
                settings=settings,
                evidence=Evidence(verdict="broke_the_run", error=bounded_text(str(error))),
            ),
        )

    def _graded(
        self, reference: "HarborReference", files: Mapping[str, bytes], settings: "HarborSettings"
    ) -> Ended:
        result = self._run_tests(reference, files)
        use = use_of(result)
        try:
            chosen, parts = _rewards_of(result, settings)
        except RewardError as fault:
            return self._without_reward(reference, result, fault, settings)
        reward = parts[chosen]
        passed = reward >= settings.reward_pass
        said = result.stderr or result.stdout
        return Ended(
            outcome=Outcome.SCORED,
            reward=reward,
            evidence=Evidence(
                verdict="pass" if passed else "wrong_answer",
                stderr_tail="" if passed else text_tail(said),
            ),
            use=use,
            components=tuple(
                Component(name=name, value=value, weight=float(name == chosen))
                for name, value in parts.items()
                if name
            ),
        )

    def _without_reward(
        self,
        reference: "HarborReference",
        result: RunResult,
        fault: RewardError,
        settings: "HarborSettings",
    ) -> Ended:
        """Whose fault it is that there is no reward."""
        control = self._run_tests(reference, reference.control_files())
        use: ResourceUse = use_of(result).plus(use_of(control))
        try:
            _rewards_of(control, settings)
        except RewardError as theirs:
            error = f"reference.tests: with the control too: {theirs}"
            evidence = Evidence(verdict="invalid_reference", error=bounded_text(error))
            return Ended(outcome=Outcome.REJECTED_INVALID, reward=None, evidence=evidence, use=use)
        evidence = Evidence(
            verdict=result.status.value if result.status.is_limit else "no_reward",
            stderr_tail=text_tail(result.stderr or result.stdout),
            error=bounded_text(str(fault)),
        )
        if result.status.is_limit:
            return resource_limited(settings=settings, evidence=evidence, use=use)
        return scored(passed=False, settings=settings, evidence=evidence, use=use)

    def _run_tests(self, reference: "HarborReference", files: Mapping[str, bytes]) -> RunResult:
        task = reference.verifier
        given = {**files, **reference.test_files()}
        size = sum(map(len, given.values()))
        return repeat_while_killed(
            lambda: self._launcher.run(
                CommandRun(
                    argv=("bash", "-c", _SCRIPT),
                    env=task.env,
                    files=given,
                    collect=(JSON_FILE, TEXT_FILE),
                    limits=Limits(
                        cpu_s=task.timeout_s,
                        blocked_s=min(task.timeout_s, _BLOCKED_S_MAX),
                        memory_bytes=task.memory_bytes,
                        disk_bytes=task.storage_bytes + size,
                        processes=256,
                    ),
                )
            ),
            was_killed,
        )


def _rewards_of(result: RunResult, settings: "HarborSettings") -> tuple[str, Mapping[str, float]]:
    """What the tests wrote, if no limit ended them: as for other graders, the exit code of the
    script decides nothing.

    Raises:
        RewardError: they wrote no reward.
    """
    if result.status.is_limit:
        raise RewardError(f"the tests broke a limit: {result.status.value}")
    return read_rewards(result.files, settings.reward_key)


def _declared(
    reference: "HarborReference", artifacts: Mapping[str, bytes], response: str
) -> Mapping[str, bytes]:
    """The artifacts that the task declares; others stay outside of the box."""
    task = reference.verifier
    found = {name: content for name, content in artifacts.items() if task.takes(name)}
    if reference.response_file:
        place = reference.response_file.strip("/")
        found.setdefault(place, response.encode("utf-8", "surrogateescape"))
    return found
