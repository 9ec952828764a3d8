"""The stage `harbor.run`: the task's tests, with the declared artifacts, in a fresh box per step.

What ran in the agent's box is not here: no process, no file that the task does not declare, and the
tests come from the reference. A verifier that writes no reward is tried again with the reference's
control; if it writes none there either, the reference is at fault.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from assay.core.verdict import Ended, ResourceUse, StageVerdict
from assay.edge.clock import Clock
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import CommandRun, Limits, RunResult
from assay.verifiers.code.repeat import repeat_while_killed, was_killed
from assay.verifiers.code.scoring import text_tail, use_of
from assay.verifiers.harbor.grades import StepGrade, concluded
from assay.verifiers.harbor.rewards import (
    RewardError,
    key_of,
    read_rewards,
    reward_files,
)
from assay.verifiers.harbor.task import VerifierStep
from assay.verifiers.port import HandlerContext, Work
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
        reference: HarborReference = work.reference
        grades: list[StepGrade] = []
        for step in reference.verifier.steps:
            grades.append(self._step(work, step))
            if grades[-1].reward is None or not step.opens(grades[-1].rewards):
                break
        return concluded(grades, work.settings, by_final=reference.verifier.by_final)

    def _step(self, work: Work, step: VerifierStep) -> StepGrade:
        settings: HarborSettings = work.settings
        reference: HarborReference = work.reference
        files = _declared(reference, step, work)
        return total(
            lambda: self._graded(reference, step, files, settings),
            control=lambda: self._run_control(reference, step),
            at_fault=lambda error: StepGrade(
                step=step.name,
                reward=settings.reward_fail,
                verdict="broke_the_run",
                error=str(error),
            ),
        )

    def _graded(
        self,
        reference: "HarborReference",
        step: VerifierStep,
        files: Mapping[str, bytes],
        settings: "HarborSettings",
    ) -> StepGrade:
        result = self._run_tests(reference, step, files)
        try:
            rewards, key = _rewards_of(result, settings)
        except RewardError as fault:
            return self._without_reward(reference, step, result, fault, settings)
        return StepGrade(
            step=step.name,
            reward=rewards[key],
            key=key,
            rewards=rewards,
            stderr=text_tail(result.stderr or result.stdout),
            use=use_of(result),
        )

    def _without_reward(
        self,
        reference: "HarborReference",
        step: VerifierStep,
        result: RunResult,
        fault: RewardError,
        settings: "HarborSettings",
    ) -> StepGrade:
        """Whose fault it is that there is no reward."""
        control = self._run_control(reference, step)
        use: ResourceUse = use_of(result).plus(use_of(control))
        try:
            _rewards_of(control, settings)
        except RewardError as theirs:
            where = f"reference.steps.{step.name}" if step.name else "reference.tests"
            error = f"{where}: with the control too: {theirs}"
            return StepGrade(step=step.name, error=error, use=use)
        is_limit = result.status.is_limit
        return StepGrade(
            step=step.name,
            reward=settings.reward_resource_limit if is_limit else settings.reward_fail,
            is_limit=is_limit,
            verdict=result.status.value if is_limit else "no_reward",
            stderr=text_tail(result.stderr or result.stdout),
            error=str(fault),
            use=use,
        )

    def _run_control(self, reference: "HarborReference", step: VerifierStep) -> RunResult:
        return self._run_tests(reference, step, step.own(reference.control_files()))

    def _run_tests(
        self, reference: "HarborReference", step: VerifierStep, files: Mapping[str, bytes]
    ) -> RunResult:
        tests = reference.test_files(step.name)
        given = {**files, **tests}
        size = sum(map(len, given.values()))
        return repeat_while_killed(
            lambda: self._launcher.run(
                CommandRun(
                    argv=("bash", "-c", _SCRIPT),
                    env=step.env,
                    files=given,
                    collect=reward_files(tests),
                    limits=Limits(
                        cpu_s=step.timeout_s,
                        blocked_s=min(step.timeout_s, _BLOCKED_S_MAX),
                        memory_bytes=step.memory_bytes,
                        disk_bytes=step.storage_bytes + size,
                        processes=256,
                    ),
                )
            ),
            was_killed,
        )


def _rewards_of(result: RunResult, settings: "HarborSettings") -> tuple[Mapping[str, float], str]:
    """What the tests wrote, and the name of the reward in it, if no limit ended them.

    As for other graders, the exit code of the script decides nothing.

    Raises:
        RewardError: they wrote no reward.
    """
    if result.status.is_limit:
        raise RewardError(f"the tests broke a limit: {result.status.value}")
    rewards = read_rewards(result.files)
    return rewards, key_of(rewards, settings.reward_key)


def _declared(reference: "HarborReference", step: VerifierStep, work: Work) -> Mapping[str, bytes]:
    """The artifacts that the step declares; others stay outside of the box."""
    found = dict(step.own(work.artifacts))
    if reference.response_file:
        place = reference.response_file.strip("/")
        found.setdefault(place, work.response.encode("utf-8", "surrogateescape"))
    return found
