"""Groups as messages of StreamGroups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from assay.core.outcome import Outcome
from assay.core.tools.trajectory_record import TrajectoryRecord, packed_records
from assay.core.trajectory import NO_VERSION, Speaker, little_endian
from assay.core.verdict import Evidence
from assay.edge.wire import OUTCOME, evidence, group_summary
from assay.rollout.layout import Stop
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.core.trajectory import TrajectoryTokens
    from assay.rollout.service.groups import ReadGroup
    from assay.rollout.service.records import Trajectory

NO_EVIDENCE: Final = Evidence()
SPEAKER: Final = {
    Speaker.ENVIRONMENT: rollout_pb2.SPEAKER_ENVIRONMENT,
    Speaker.POLICY: rollout_pb2.SPEAKER_POLICY,
}
FINISH: Final = {
    Stop.LENGTH: rollout_pb2.FINISH_REASON_LENGTH,
    Stop.ID: rollout_pb2.FINISH_REASON_STOP_ID,
    Stop.STRING: rollout_pb2.FINISH_REASON_STOP_STRING,
}


def groups(page: Sequence[ReadGroup], *, records: bool) -> rollout_pb2.StreamGroupsResponse:
    """Groups with their columns, and what is said of each trajectory as records or as messages.

    Every message is made in its place: one that is added to another is copied with all its parts.
    """
    response = rollout_pb2.StreamGroupsResponse(cursor=page[-1].position)
    for read in page:
        ended = read.group
        made = [trajectory.tokens for trajectory in ended.trajectories]
        message = response.groups.add(
            group_id=ended.spec.group_id,
            prompt_ids=little_endian([made[0].prompt_ids], "i"),
            response_ids=little_endian([one.response_ids for one in made], "i"),
            response_mask=little_endian([one.response_mask for one in made], "B"),
            rollout_logp=little_endian([one.rollout_logp for one in made], "f"),
            summary=group_summary(ended.summary),
            staleness=read.staleness,
        )
        if records:
            message.records = packed_records(map(_record, ended.trajectories))
        for one in ended.trajectories:
            if not records:
                _add_trajectory(message, one)
            elif _has_more(one):
                _add_more(message.trajectories.add(member=one.member), one)
    return response


def _record(one: Trajectory) -> TrajectoryRecord:
    judged, tokens = one.judged, one.tokens
    return TrajectoryRecord(
        one.member,
        len(tokens.response_ids),
        one.attempts,
        _finish_reason(one),
        0 if judged.outcome is None else OUTCOME[judged.outcome],
        judged.reward is not None,
        judged.reward or 0.0,
        one.seed,
        _only_version(tokens) or 0,
        one.submitted_ns,
        one.decoded_ns,
        one.ended_ns,
        judged.asked_ns,
        judged.stored_ns,
    )


def _only_version(tokens: TrajectoryTokens) -> int | None:
    """The version that made all tokens; `None`: there are several, or none."""
    runs = tokens.versions
    if len(runs) == 1 and runs[0].policy_version != NO_VERSION:
        return runs[0].policy_version
    return None


def _is_one_turn(tokens: TrajectoryTokens) -> bool:
    segments = tokens.segments
    return len(segments) == 1 and segments[0].speaker is Speaker.POLICY


def _has_more(one: Trajectory) -> bool:
    """Whether there is more to say than a record holds."""
    found, tokens = one.judged.evidence, one.tokens
    if found is not NO_EVIDENCE and found != NO_EVIDENCE:
        return True
    one_version = not tokens.versions or _only_version(tokens) is not None
    return not one_version or not (not tokens.segments or _is_one_turn(tokens))


def _add_trajectory(group: rollout_pb2.Group, one: Trajectory) -> None:
    judged, tokens = one.judged, one.tokens
    message = group.trajectories.add(
        member=one.member,
        tokens=tokens.tokens,
        finish_reason=_finish_reason(one),
        outcome=None if judged.outcome is None else OUTCOME[judged.outcome],
        reward=judged.reward,
        seed=one.seed,
        submitted_ns=one.submitted_ns,
        decoded_ns=one.decoded_ns,
        ended_ns=one.ended_ns,
        attempts=one.attempts,
        reward_asked_ns=judged.asked_ns,
        reward_stored_ns=judged.stored_ns,
        policy_version=_only_version(tokens),
    )
    _add_more(message, one)


def _add_more(message: rollout_pb2.Trajectory, one: Trajectory) -> None:
    """What records do not hold."""
    tokens = one.tokens
    if one.judged.evidence != NO_EVIDENCE:
        message.evidence.CopyFrom(evidence(one.judged.evidence))
    if _only_version(tokens) is None:
        for version, n in tokens.versions:
            message.versions.add(policy_version=version, tokens=n)
    if not _is_one_turn(tokens):
        for speaker, n in tokens.segments:
            message.segments.add(speaker=SPEAKER[speaker], tokens=n)


def _finish_reason(one: Trajectory) -> rollout_pb2.FinishReason.ValueType:
    if one.stop in FINISH:
        return FINISH[one.stop]
    if one.judged.outcome is Outcome.CANCELLED:
        return rollout_pb2.FINISH_REASON_CANCELLED
    return rollout_pb2.FINISH_REASON_FAILED
