"""Conversion between protobuf and the types of rollouts."""

from __future__ import annotations

import array
import functools
from typing import TYPE_CHECKING, Any, Final

from assay.client import wire
from assay.client.rollouts.types import Activated, RolloutGroup, Trajectory
from assay.client.types import Evidence
from assay.core.errors import InvalidRequest
from assay.core.tools.building import builder
from assay.core.tools.trajectory_record import TrajectoryRecord, records_in
from assay.core.trajectory import (
    Segment,
    Speaker,
    TrajectoryTokens,
    VersionRun,
    little_endian,
    view,
)
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from assay.client.rollouts.types import NextTurn, Prompt, SamplingParams, StepBatch
    from assay.client.types import Outcome

PAUSE_MODES: Final = {
    "in_place": rollout_pb2.PAUSE_MODE_IN_PLACE,
    "finish": rollout_pb2.PAUSE_MODE_FINISH,
    "retract": rollout_pb2.PAUSE_MODE_RETRACT,
}

ACTIVATION_MODES: Final = {"sessions": rollout_pb2.PAUSE_MODE_UNSPECIFIED, **PAUSE_MODES}

FINISH_REASONS: Final[Mapping[int, str]] = {
    number: name.removeprefix("FINISH_REASON_").lower()
    for name, number in rollout_pb2.FinishReason.items()
}
OUTCOMES: Final[Mapping[int, Outcome]] = {int(n): one for n, one in wire.OUTCOME.items()}
NO_EVIDENCE: Final = Evidence()
KEPT_MAX: Final = 4_096
"""Versions and turns of whole responses, which are the same for many."""


# -- out -----------------------------------------------------------------------------------------
def sampling_message(params: SamplingParams, where: str) -> rollout_pb2.Sampling:
    return wire.filled(
        rollout_pb2.Sampling,
        where,
        temperature=params.temperature,
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
        max_tokens=params.max_tokens,
        stop_ids=params.stop_ids,
        stop_strings=params.stop_strings,
    )


def plan_message(
    pipeline: str, settings: Mapping[str, Any] | None, wait_s: float
) -> rollout_pb2.RewardPlan:
    where = "session.reward"
    return wire.filled(
        rollout_pb2.RewardPlan,
        where,
        pipeline=pipeline,
        settings_json=wire.object_text(settings, "settings"),
        wait_ms_max=wire.milliseconds(wait_s, f"{where}.wait_s"),
    )


def stale_groups(*, retry: bool) -> rollout_pb2.StaleGroups.ValueType:
    return rollout_pb2.STALE_GROUPS_RETRY if retry else rollout_pb2.STALE_GROUPS_DROP


def pause_mode(mode: str) -> rollout_pb2.PauseMode.ValueType:
    if mode not in PAUSE_MODES:
        raise InvalidRequest(f"mode: one of {', '.join(PAUSE_MODES)}", field="mode")
    return PAUSE_MODES[mode]


def activation_mode(mode: str) -> rollout_pb2.PauseMode.ValueType:
    if mode not in ACTIVATION_MODES:
        raise InvalidRequest(f"mode: one of {', '.join(ACTIVATION_MODES)}", field="mode")
    return ACTIVATION_MODES[mode]


def activated(answer: rollout_pb2.ActivateResponse) -> Activated:
    return Activated(
        policy_version=answer.policy_version,
        previous_version=answer.previous_version,
        wait_s=answer.wait_s,
        pause_s=answer.pause_s,
    )


def _ids(ids: Sequence[int], where: str) -> bytes:
    with wire.holding(where):
        return little_endian([memoryview(array.array("i", ids))], "i")


def prompt_message(prompt: Prompt, where: str) -> rollout_pb2.Prompt:
    return wire.filled(
        rollout_pb2.Prompt,
        where,
        group_id=prompt.group_id,
        prompt_ids=_ids(prompt.prompt_ids, f"{where}.prompt_ids"),
        text=prompt.text,
        k=prompt.k,
        sampling=sampling_message(prompt.sampling, f"{where}.sampling"),
        seed=prompt.seed,
        reference_json=wire.object_bytes(prompt.reference, f"{where}.reference"),
        batch_id=prompt.batch_id,
        continues=prompt.continues,
        turns=[_turn_message(turn, f"{where}.turns[{i}]") for i, turn in enumerate(prompt.turns)],
        unscored=not prompt.scored,
    )


def _turn_message(turn: NextTurn, where: str) -> rollout_pb2.NextTurn:
    return wire.filled(
        rollout_pb2.NextTurn,
        where,
        member=turn.member,
        environment_ids=_ids(turn.environment_ids, f"{where}.environment_ids"),
        environment_text=turn.environment_text,
    )


def batch_message(batch: StepBatch, where: str) -> rollout_pb2.RewardBatch:
    return wire.filled(
        rollout_pb2.RewardBatch,
        where,
        batch_id=batch.batch_id,
        deadline_ms=wire.milliseconds(batch.deadline_s, f"{where}.deadline_s"),
        last=batch.last,
        enough_groups=batch.enough_groups,
        only_varied=batch.only_varied,
    )


# -- in ------------------------------------------------------------------------------------------
def group(message: rollout_pb2.Group, position: int) -> RolloutGroup:
    prompt, ids, mask, logp = (
        view(message.prompt_ids, "i"),
        view(message.response_ids, "i"),
        view(message.response_mask, "B"),
        view(message.rollout_logp, "f"),
    )
    more = {one.member: one for one in message.trajectories}
    trajectories, start = [], 0
    for record in _records(message):
        end = start + record.tokens
        further = more.get(record.member)
        tokens = _tokens(
            prompt,
            ids[start:end],
            mask[start:end],
            logp[start:end],
            _versions(further, record),
            _segments(further, record),
            None,
        )
        trajectories.append(_trajectory(record, further, tokens))
        start = end
    return RolloutGroup(
        group_id=message.group_id,
        cursor=position,
        prompt_ids=prompt,
        trajectories=tuple(trajectories),
        summary=wire.group_summary(message.summary),
        staleness=message.staleness,
    )


def _records(message: rollout_pb2.Group) -> Iterator[TrajectoryRecord]:
    """Of every trajectory; a service that is older than records sends messages alone."""
    if message.records:
        return records_in(message.records)
    return map(_record_of, message.trajectories)


def _record_of(message: rollout_pb2.Trajectory) -> TrajectoryRecord:
    return TrajectoryRecord(
        member=message.member,
        tokens=message.tokens,
        attempts=message.attempts,
        finish_reason=message.finish_reason,
        outcome=message.outcome,
        rewarded=message.HasField("reward"),
        reward=message.reward,
        seed=message.seed,
        policy_version=message.policy_version,
        submitted_ns=message.submitted_ns,
        decoded_ns=message.decoded_ns,
        ended_ns=message.ended_ns,
        reward_asked_ns=message.reward_asked_ns,
        reward_stored_ns=message.reward_stored_ns,
    )


def _versions(
    more: rollout_pb2.Trajectory | None, record: TrajectoryRecord
) -> tuple[VersionRun, ...]:
    if more is not None and (runs := more.versions):
        return tuple(VersionRun(run.policy_version, run.tokens) for run in runs)
    return _one_version(record.policy_version, record.tokens)


def _segments(more: rollout_pb2.Trajectory | None, record: TrajectoryRecord) -> tuple[Segment, ...]:
    if more is not None and (segments := more.segments):
        return tuple(Segment(Speaker(s.speaker), s.tokens) for s in segments)
    return _one_turn(record.tokens)


@functools.lru_cache(maxsize=KEPT_MAX)
def _one_version(policy_version: int, tokens: int) -> tuple[VersionRun, ...]:
    return (VersionRun(policy_version, tokens),) if tokens else ()


@functools.lru_cache(maxsize=KEPT_MAX)
def _one_turn(tokens: int) -> tuple[Segment, ...]:
    return (Segment(Speaker.POLICY, tokens),) if tokens else ()


_tokens: Final = builder(TrajectoryTokens)
_made: Final = builder(Trajectory)


def _trajectory(
    record: TrajectoryRecord, more: rollout_pb2.Trajectory | None, tokens: TrajectoryTokens
) -> Trajectory:
    judged = more is not None and more.HasField("evidence")
    return _made(
        record.member,
        tokens,
        FINISH_REASONS[record.finish_reason],
        OUTCOMES.get(record.outcome),
        record.reward if record.rewarded else None,
        wire.evidence(more.evidence) if judged and more is not None else NO_EVIDENCE,
        record.seed,
        record.attempts,
        record.submitted_ns,
        record.decoded_ns,
        record.reward_asked_ns,
        record.reward_stored_ns,
        record.ended_ns,
    )
