"""Conversion between protobuf and the types of rollouts."""

from __future__ import annotations

import array
import functools
from typing import TYPE_CHECKING, Final

from assay.client import wire
from assay.client.rollouts.types import RolloutGroup, Trajectory
from assay.client.types import Evidence
from assay.core.errors import InvalidRequest
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
    from collections.abc import Sequence

    from assay.client.rollouts.types import Prompt, SamplingParams, StepBatch

PAUSE_MODES: Final = {
    "in_place": rollout_pb2.PAUSE_MODE_IN_PLACE,
    "finish": rollout_pb2.PAUSE_MODE_FINISH,
    "retract": rollout_pb2.PAUSE_MODE_RETRACT,
}

FINISH_REASONS: Final = {
    number: name.removeprefix("FINISH_REASON_").lower()
    for name, number in rollout_pb2.FinishReason.items()
}
NO_EVIDENCE: Final = Evidence()
KEPT_MAX: Final = 4_096
"""Versions and turns of whole responses, which are the same for many."""


# -- out -----------------------------------------------------------------------------------------
def sampling_message(params: SamplingParams) -> rollout_pb2.Sampling:
    return rollout_pb2.Sampling(
        temperature=params.temperature,
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
        max_tokens=params.max_tokens,
        stop_ids=params.stop_ids,
        stop_strings=params.stop_strings,
    )


def stale_groups(*, retry: bool) -> rollout_pb2.StaleGroups.ValueType:
    return rollout_pb2.STALE_GROUPS_RETRY if retry else rollout_pb2.STALE_GROUPS_DROP


def pause_mode(mode: str) -> rollout_pb2.PauseMode.ValueType:
    if mode not in PAUSE_MODES:
        raise InvalidRequest(f"mode: one of {', '.join(PAUSE_MODES)}", field="mode")
    return PAUSE_MODES[mode]


def _ids(ids: Sequence[int], where: str) -> bytes:
    with wire.holding(where):
        return little_endian([memoryview(array.array("i", ids))], "i")


def prompt_message(prompt: Prompt, where: str) -> rollout_pb2.Prompt:
    with wire.holding(where):
        return rollout_pb2.Prompt(
            group_id=prompt.group_id,
            prompt_ids=_ids(prompt.prompt_ids, f"{where}.prompt_ids"),
            text=prompt.text,
            k=prompt.k,
            sampling=sampling_message(prompt.sampling),
            seed=prompt.seed,
            reference_json=wire.object_bytes(prompt.reference, f"{where}.reference"),
            batch_id=prompt.batch_id,
            continues=prompt.continues,
            turns=[
                rollout_pb2.NextTurn(
                    member=turn.member,
                    environment_ids=_ids(
                        turn.environment_ids, f"{where}.turns[{i}].environment_ids"
                    ),
                    environment_text=turn.environment_text,
                )
                for i, turn in enumerate(prompt.turns)
            ],
            unscored=not prompt.scored,
        )


def batch_message(batch: StepBatch, where: str) -> rollout_pb2.RewardBatch:
    with wire.holding(where):
        return rollout_pb2.RewardBatch(
            batch_id=batch.batch_id,
            deadline_ms=None if batch.deadline_s is None else round(batch.deadline_s * 1000),
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
    trajectories, start = [], 0
    for one in message.trajectories:
        part = slice(start, start + one.tokens)
        tokens = TrajectoryTokens(
            prompt_ids=prompt,
            response_ids=ids[part],
            response_mask=mask[part],
            rollout_logp=logp[part],
            versions=_versions(one),
            segments=_segments(one),
        )
        trajectories.append(_trajectory(one, tokens))
        start += one.tokens
    return RolloutGroup(
        group_id=message.group_id,
        cursor=position,
        prompt_ids=prompt,
        trajectories=tuple(trajectories),
        summary=wire.group_summary(message.summary),
        staleness=message.staleness,
    )


def _versions(message: rollout_pb2.Trajectory) -> tuple[VersionRun, ...]:
    if runs := message.versions:
        return tuple(VersionRun(run.policy_version, run.tokens) for run in runs)
    return _one_version(message.policy_version, message.tokens)


def _segments(message: rollout_pb2.Trajectory) -> tuple[Segment, ...]:
    if segments := message.segments:
        return tuple(Segment(Speaker(s.speaker), s.tokens) for s in segments)
    return _one_turn(message.tokens)


@functools.lru_cache(maxsize=KEPT_MAX)
def _one_version(policy_version: int, tokens: int) -> tuple[VersionRun, ...]:
    return (VersionRun(policy_version, tokens),) if tokens else ()


@functools.lru_cache(maxsize=KEPT_MAX)
def _one_turn(tokens: int) -> tuple[Segment, ...]:
    return (Segment(Speaker.POLICY, tokens),) if tokens else ()


def _trajectory(message: rollout_pb2.Trajectory, tokens: TrajectoryTokens) -> Trajectory:
    return Trajectory(
        member=message.member,
        tokens=tokens,
        finish_reason=FINISH_REASONS[message.finish_reason],
        outcome=wire.OUTCOME.get(message.outcome),
        reward=message.reward if message.HasField("reward") else None,
        evidence=wire.evidence(message.evidence) if message.HasField("evidence") else NO_EVIDENCE,
        seed=message.seed,
        attempts=message.attempts,
        submitted_ns=message.submitted_ns,
        decoded_ns=message.decoded_ns,
        reward_asked_ns=message.reward_asked_ns,
        reward_stored_ns=message.reward_stored_ns,
        ended_ns=message.ended_ns,
    )
