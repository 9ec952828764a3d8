"""Turns a slot's verdict, or the way the slot ended, into a report to the store. Pure."""

from typing import Final

from assay.core.codec import pack_body, unpack_body, unpack_handover
from assay.core.ids import WorkerId
from assay.core.outcome import Outcome
from assay.core.records import (
    Claim,
    EndRequest,
    FailAttempt,
    Finish,
    FinishGroup,
    HandOver,
    StageReport,
)
from assay.core.verdict import (
    MISSING_PACKAGE,
    SECOND_JUDGE,
    TEXT_CHARS_MAX,
    Ended,
    Evidence,
    ResourceUse,
)
from assay.verifiers.audit import audit_setting, refused
from assay.verifiers.packages import USUAL_PACKAGES
from assay.verifiers.port import reward_at_fault, reward_at_limit
from assay.verifiers.version import version_after
from assay.worker.slots.messages import (
    Said,
    SaidEnded,
    SaidFailed,
    SaidGroup,
    SaidHandedOver,
    Verdict,
)

ERROR_CHARS_MAX: Final = 4_000
_OPINIONS: Final = ("agrees", "disagrees", "abstains")


def finish_of(claim: Claim, said: Said) -> Finish:
    """Return the effect of a slot's verdict on the request."""
    if isinstance(said, SaidFailed):
        return FailAttempt(error=said.error[-ERROR_CHARS_MAX:])
    if isinstance(said, SaidGroup):
        return _finish_of_group(claim, said)
    if claim.members:
        return FailAttempt(error=f"stage {claim.stage} gave one verdict for a whole group")
    return _finish_of_request(claim, said)


def _finish_of_request(claim: Claim, said: Said) -> EndRequest | HandOver | FailAttempt:
    match said:
        case SaidEnded():
            return EndRequest(outcome=said.outcome, reward=said.reward, body=said.body)
        case SaidFailed():
            return FailAttempt(error=said.error[-ERROR_CHARS_MAX:])
        case SaidGroup():
            return FailAttempt(error=f"stage {claim.stage} gave verdicts in verdicts")
        case SaidHandedOver():
            following = claim.task.stages.index(claim.stage) + 1
            if following == len(claim.task.stages):
                return FailAttempt(error=f"stage {claim.stage} hands over, but it is the last one")
            next_stage = claim.task.stages[following]
            gathers = next_stage == claim.task.group_stage
            return HandOver(next_stage=next_stage, handover=said.handover, gathers=gathers)


def _finish_of_group(claim: Claim, said: SaidGroup) -> Finish:
    """If no member could be judged, the attempt has failed, as if the handler had raised."""
    if len(said.members) != len(claim.members):
        counts = f"{len(said.members)} verdicts about {len(claim.members)} requests"
        return FailAttempt(error=f"stage {claim.stage} gave {counts}")
    if any(isinstance(one, SaidEnded) and one.unaudited for one in said.members):
        return FailAttempt(error=f"stage {claim.stage} judges groups, so nothing audits it")
    finishes = [_finish_of_request(claim, one) for one in said.members]
    failures = [finish for finish in finishes if isinstance(finish, FailAttempt)]
    if len(failures) == len(finishes):
        return failures[0]
    jobs = (member.job_id for member in claim.members)
    return FinishGroup(members=tuple(zip(jobs, finishes, strict=True)))


def second_opinion(said: Said) -> str | None:
    """Return the second judge's result; `None` if there is none. Few bodies are unpacked."""
    if not isinstance(said, SaidEnded) or SECOND_JUDGE.encode() not in said.body:
        return None
    opinion = unpack_body(said.body)[0].error.removeprefix(SECOND_JUDGE)
    return opinion if opinion in _OPINIONS else None


def missing_package(said: Said) -> str | None:
    """Return the package that the program wanted and boxes lack; `other` for an unusual name, as
    responses choose it. `None`: it did not fail by that."""
    if not isinstance(said, SaidEnded) or MISSING_PACKAGE.encode() not in said.body:
        return None
    error = unpack_body(said.body)[0].error
    if not error.startswith(MISSING_PACKAGE):
        return None
    name = error.removeprefix(MISSING_PACKAGE).partition(" ")[0]
    return name if name in USUAL_PACKAGES else "other"


def refused_by_audit(claim: Claim, said: SaidEnded) -> SaidEnded:
    """Return the verdict that passed by a reference that lets an empty response pass too.

    Raises:
        CodecError, ValueError: the body, or the task's settings, cannot be read.
    """
    body = unpack_body(said.body)
    ended = Ended(
        outcome=said.outcome,
        reward=said.reward,
        evidence=body.evidence,
        use=body.use,
        components=body.components,
        rescorable=body.rescorable,
    )
    ended = refused(ended, audit_setting(claim.task.settings_json))
    packed = pack_body(
        ended.evidence,
        ended.use,
        components=ended.components,
        pipeline_version=body.pipeline_version,
        rescorable=ended.rescorable,
    )
    return SaidEnded(outcome=ended.outcome, reward=ended.reward, body=packed)


def broke_limit(
    claim: Claim, *, handover: bytes, limit: str, error: str, cpu_s: float, version: str = ""
) -> EndRequest:
    """End a request whose own work was killed for a limit, with the reward that its task sets.

    Args:
        claim: the request, or the group that it belongs to.
        handover: of the request.
        limit: the limit's name.
        error: for the evidence.
        cpu_s: that its work used.
        version: of the pipeline on this host.

    Raises:
        CodecError: the hand-over cannot be read.
        ValueError: the task's settings cannot be read.
    """
    carried = unpack_handover(handover)
    return EndRequest(
        outcome=Outcome.RESOURCE_LIMIT,
        reward=reward_at_limit(claim.task.settings_json),
        body=pack_body(
            Evidence(verdict=limit, error=error),
            carried.use.plus(ResourceUse(cpu_s=cpu_s)),
            pipeline_version=version_after(carried.pipeline_version, version),
            rescorable=True,
        ),
    )


def broke_the_run(claim: Claim, *, handover: bytes, error: str, version: str = "") -> EndRequest:
    """End a member of a group that makes the stage fail where a control does not, as wrong.

    Args:
        claim: the group.
        handover: of the member.
        error: for the evidence.
        version: of the pipeline on this host.

    Raises:
        CodecError: the hand-over cannot be read.
        ValueError: the task's settings cannot be read.
    """
    carried = unpack_handover(handover)
    return EndRequest(
        outcome=Outcome.SCORED,
        reward=reward_at_fault(claim.task.settings_json),
        body=pack_body(
            Evidence(verdict="broke_the_run", error=error[-TEXT_CHARS_MAX:]),
            carried.use,
            pipeline_version=version_after(carried.pipeline_version, version),
            rescorable=False,
        ),
    )


def times(verdict: Verdict, *, worker: WorkerId, claimed_ns: int, now_ns: int) -> StageReport:
    """Return the slot's times, capped by the host's own measurements."""
    finished_ns = min(max(verdict.finished_ns, claimed_ns), now_ns)
    started_ns = min(max(verdict.started_ns, claimed_ns), finished_ns)
    return StageReport(
        worker=worker,
        started_after_ns=started_ns - claimed_ns,
        finished_after_ns=finished_ns - claimed_ns,
    )
