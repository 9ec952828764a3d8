"""Converts between protobuf and the records; the only module of this service that knows both.

Input is checked here against the model and the engine, so that an accepted group can be
generated: every error names its field, and nothing is stored before.
"""

from __future__ import annotations

import array
import itertools
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from assay.core.errors import AssayError, InvalidRequest, NotFound, TooLarge
from assay.core.ids import NAME_FORM
from assay.core.outcome import Outcome
from assay.rollout.checks import check_integer, check_prompt, check_sampling, check_stops
from assay.rollout.layout import PauseMode, Stop
from assay.rollout.rollouts import Sampling
from assay.rollout.service.records import (
    Decoding,
    GroupSpec,
    RewardBatch,
    RewardPlan,
    SessionSpec,
    Trajectory,
)
from assay.rollout.service.weights import Head, Part
from assay.v1 import common_pb2, reward_pb2, rollout_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from assay.core.verdict import Evidence
    from assay.rollout.service.groups import ReadGroup

GROUP_FORM: Final = re.compile(r"[A-Za-z0-9._:/-]{1,256}")
K_MAX: Final = 1_024
REFERENCE_BYTES_MAX: Final = 1 << 20
SHAPE_DIMENSIONS_MAX: Final = 4
OUTCOME: Final = {
    outcome: common_pb2.Outcome.Value(f"OUTCOME_{outcome.value}") for outcome in Outcome
}
PAUSE_MODE: Final = {
    rollout_pb2.PAUSE_MODE_UNSPECIFIED: PauseMode.IN_PLACE,
    rollout_pb2.PAUSE_MODE_IN_PLACE: PauseMode.IN_PLACE,
    rollout_pb2.PAUSE_MODE_FINISH: PauseMode.FINISH,
    rollout_pb2.PAUSE_MODE_RETRACT: PauseMode.RETRACT,
}
FINISH: Final = {
    Stop.LENGTH: rollout_pb2.FINISH_REASON_LENGTH,
    Stop.ID: rollout_pb2.FINISH_REASON_STOP_ID,
    Stop.STRING: rollout_pb2.FINISH_REASON_STOP_STRING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Limits and defaults of this service; requests are checked against them."""

    model: str
    vocab_size: int
    tokens_max: int
    """Maximum of prompt and response together."""
    slots: int
    """Rollouts at once: no group is larger."""
    encode: Callable[[str], list[int]] | None
    """The model's tokenizer; `None`: prompts come as ids."""
    stop_ids: tuple[int, ...]
    """The model's own stop ids, for sessions without any."""
    groups_open_max: int
    reward_wait_s: float
    """Default for sessions."""


# -- in ------------------------------------------------------------------------------------------
def session_spec(message: rollout_pb2.Session, served: Served) -> SessionSpec:
    """OpenSession.

    Raises:
        InvalidRequest: a field is wrong.
        NotFound: another model is served.
    """
    if not NAME_FORM.fullmatch(message.session_id):
        raise _wrong("session.session_id", "1 to 128 of A-Z a-z 0-9 . _ -")
    if message.model not in {"", served.model}:
        raise NotFound(f"the model served is {served.model!r}", field="session.model")
    groups = message.groups_open_max or served.groups_open_max
    if not 0 < groups <= served.groups_open_max:
        raise _wrong("session.groups_open_max", f"1 to {served.groups_open_max}")
    staleness = message.staleness_max if message.HasField("staleness_max") else None
    if staleness is not None and staleness < 0:
        raise _wrong("session.staleness_max", "0 or more")
    default = Decoding(max_tokens=0, stop_ids=served.stop_ids)
    return SessionSpec(
        decoding=_decoding(message.sampling, default, served, "session.sampling"),
        reward=_reward_plan(message, served),
        groups_open_max=groups,
        staleness_max=staleness,
        retry_stale=message.stale_groups == rollout_pb2.STALE_GROUPS_RETRY,
    )


def _reward_plan(message: rollout_pb2.Session, served: Served) -> RewardPlan | None:
    if not message.HasField("reward"):
        return None
    reward = message.reward
    if not reward.pipeline:
        raise _wrong("session.reward.pipeline", "the name of a pipeline")
    if reward.wait_ms_max < 0:
        raise _wrong("session.reward.wait_ms_max", "0 or more")
    return RewardPlan(
        pipeline=reward.pipeline,
        settings_json=reward.settings_json,
        wait_s_max=reward.wait_ms_max / 1000 or served.reward_wait_s,
    )


def group_specs(
    request: rollout_pb2.SubmitPromptsRequest, session: SessionSpec, served: Served
) -> list[GroupSpec]:
    """The prompts of SubmitPrompts.

    Raises:
        InvalidRequest: a field is wrong; `prompts[3].k`.
    """
    specs = []
    for i, prompt in enumerate(request.prompts):
        specs.append(_group_spec(prompt, session, served, f"prompts[{i}]"))
    return specs


def _group_spec(
    message: rollout_pb2.Prompt, session: SessionSpec, served: Served, where: str
) -> GroupSpec:
    if not GROUP_FORM.fullmatch(message.group_id):
        raise _wrong(f"{where}.group_id", "1 to 256 of A-Z a-z 0-9 . _ : / -")
    if not 1 <= message.k <= min(K_MAX, served.slots):
        raise _wrong(f"{where}.k", f"1 to {min(K_MAX, served.slots)}")
    if len(message.reference_json) > REFERENCE_BYTES_MAX:
        name = f"{where}.reference_json"
        raise TooLarge(f"{name}: at most {REFERENCE_BYTES_MAX} bytes", field=name)
    if message.batch_id and not NAME_FORM.fullmatch(message.batch_id):
        raise _wrong(f"{where}.batch_id", "1 to 128 of A-Z a-z 0-9 . _ -")
    decoding = _decoding(message.sampling, session.decoding, served, f"{where}.sampling")
    prompt = _prompt(message, served, where)
    max_tokens = decoding.max_tokens or max(1, served.tokens_max - len(prompt))
    with _inside(where, {"prompt": "prompt_ids", "max_tokens": "sampling.max_tokens"}):
        check_prompt(
            prompt, max_tokens, vocab_size=served.vocab_size, seq_len_max=served.tokens_max
        )
    return GroupSpec(
        group_id=message.group_id,
        prompt=prompt,
        k=message.k,
        seed=message.seed,
        decoding=Decoding(
            sampling=decoding.sampling,
            max_tokens=max_tokens,
            stop_ids=decoding.stop_ids,
            stop_strings=decoding.stop_strings,
        ),
        reference_json=message.reference_json,
        batch_id=message.batch_id,
    )


def _prompt(message: rollout_pb2.Prompt, served: Served, where: str) -> tuple[int, ...]:
    if bool(message.prompt_ids) == bool(message.text):
        raise _wrong(f"{where}.prompt_ids", "one of prompt_ids and text")
    if message.text:
        if served.encode is None:
            raise _wrong(f"{where}.text", "the model has no tokenizer here: send prompt_ids")
        return tuple(served.encode(message.text))
    if len(message.prompt_ids) % 4:
        raise _wrong(f"{where}.prompt_ids", "int32, little-endian")
    return tuple(_from_little_endian("i", message.prompt_ids))


def _decoding(
    message: rollout_pb2.Sampling, default: Decoding, served: Served, where: str
) -> Decoding:
    """The message's values, over the defaults."""
    base = default.sampling
    sampling = Sampling(
        temperature=message.temperature if message.HasField("temperature") else base.temperature,
        top_k=message.top_k if message.HasField("top_k") else base.top_k,
        top_p=message.top_p if message.HasField("top_p") else base.top_p,
        min_p=message.min_p if message.HasField("min_p") else base.min_p,
    )
    decoding = Decoding(
        sampling=sampling,
        max_tokens=message.max_tokens if message.HasField("max_tokens") else default.max_tokens,
        stop_ids=tuple(message.stop_ids) or default.stop_ids,
        stop_strings=tuple(message.stop_strings) or default.stop_strings,
    )
    with _inside(where, {}, drop="sampling."):
        check_sampling(
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
        )
        check_stops(decoding.stop_ids, decoding.stop_strings, vocab_size=served.vocab_size)
        if message.HasField("max_tokens"):
            check_integer("max_tokens", decoding.max_tokens, 1, served.tokens_max)
    return decoding


class _inside:  # noqa: N801 - reads as a statement
    """Prefixes the field of an error with its place in the message."""

    def __init__(self, where: str, names: dict[str, str], *, drop: str = "") -> None:
        self._where, self._names, self._drop = where, names, drop

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, AssayError):
            name = self._names.get(error.field, error.field.removeprefix(self._drop))
            problem = error.message.removeprefix(f"{error.field}: ")
            raise _wrong(f"{self._where}.{name}", problem) from None


def reward_batches(request: rollout_pb2.SubmitPromptsRequest) -> list[RewardBatch]:
    """The reward batches of SubmitPrompts.

    Raises:
        InvalidRequest: a field is wrong.
    """
    found = []
    for i, batch in enumerate(request.batches):
        if not NAME_FORM.fullmatch(batch.batch_id):
            raise _wrong(f"batches[{i}].batch_id", "1 to 128 of A-Z a-z 0-9 . _ -")
        deadline_s = batch.deadline_ms / 1000 if batch.HasField("deadline_ms") else None
        found.append(RewardBatch(batch_id=batch.batch_id, deadline_s=deadline_s, last=batch.last))
    return found


def pause_mode(mode: int) -> PauseMode:
    """Pause and Activate; unspecified is IN_PLACE.

    Raises:
        InvalidRequest: not a pause mode.
    """
    found = PAUSE_MODE.get(mode)  # type: ignore[call-overload]
    if found is None:
        raise _wrong("mode", "one of PauseMode")
    return PauseMode(found)


def part(message: rollout_pb2.PushWeightsRequest) -> Part:
    """One message of PushWeights.

    Raises:
        InvalidRequest: a field is wrong.
    """
    head = None
    if message.HasField("tensor"):
        tensor = message.tensor
        if not 1 <= len(tensor.shape) <= SHAPE_DIMENSIONS_MAX:
            raise _wrong("tensor.shape", f"1 to {SHAPE_DIMENSIONS_MAX} dimensions")
        head = Head(
            name=tensor.name, dtype=tensor.dtype, shape=tuple(tensor.shape), sha256=tensor.sha256
        )
    return Part(
        version=message.policy_version,
        core_share_max=message.core_share_max,
        head=head,
        data=message.data,
    )


# -- out -----------------------------------------------------------------------------------------
def group(read: ReadGroup) -> rollout_pb2.Group:
    """A group with its columns."""
    ended = read.group
    made = [trajectory.decoded for trajectory in ended.trajectories]
    tokens = sum(len(one.tokens) for one in made)
    summary = ended.summary
    return rollout_pb2.Group(
        group_id=ended.spec.group_id,
        prompt_ids=little_endian(array.array("i", ended.spec.prompt)),
        trajectories=map(_trajectory, ended.trajectories),
        response_ids=b"".join(little_endian(one.tokens) for one in made),
        response_mask=b"\1" * tokens,
        rollout_logp=b"".join(little_endian(one.logps) for one in made),
        summary=reward_pb2.GroupSummary(
            group_id=summary.group_id,
            size=summary.size,
            rewards=summary.rewards,
            mean=summary.mean,
            std=summary.std,
            degenerate=summary.degenerate,
        ),
        staleness=read.staleness,
    )


def _trajectory(one: Trajectory) -> rollout_pb2.Trajectory:
    outcome = one.judged.outcome
    return rollout_pb2.Trajectory(
        member=one.member,
        tokens=len(one.decoded.tokens),
        finish_reason=_finish_reason(one),
        outcome=common_pb2.OUTCOME_UNSPECIFIED if outcome is None else OUTCOME[outcome],
        reward=one.judged.reward,
        evidence=evidence(one.judged.evidence),
        seed=one.seed,
        versions=version_runs(one.decoded.versions),
        submitted_ns=one.submitted_ns,
        decoded_ns=one.decoded_ns,
        ended_ns=one.ended_ns,
        attempts=one.attempts,
    )


def _finish_reason(one: Trajectory) -> rollout_pb2.FinishReason.ValueType:
    if one.decoded.stop in FINISH:
        return FINISH[one.decoded.stop]
    if one.judged.outcome is Outcome.CANCELLED:
        return rollout_pb2.FINISH_REASON_CANCELLED
    return rollout_pb2.FINISH_REASON_FAILED


def version_runs(versions: Iterable[int]) -> Iterator[rollout_pb2.VersionRun]:
    """Runs of equal versions, in order."""
    for version, run in itertools.groupby(versions):
        yield rollout_pb2.VersionRun(policy_version=version, tokens=sum(1 for _ in run))


def evidence(one: Evidence) -> common_pb2.Evidence:
    """The evidence of a reward."""
    return common_pb2.Evidence(
        verdict=one.verdict,
        tests_passed=one.tests_passed,
        tests_total=one.tests_total,
        failed_test=one.failed_test,
        stderr_tail=one.stderr_tail,
        extracted=one.extracted,
        error=one.error,
    )


def little_endian(numbers: array.array[int] | array.array[float]) -> bytes:
    """The column's bytes in wire order."""
    if sys.byteorder == "little":
        return numbers.tobytes()
    swapped = numbers[:]
    swapped.byteswap()
    return swapped.tobytes()


def _from_little_endian(code: str, data: bytes) -> array.array[int]:
    numbers = array.array(code, data)
    if sys.byteorder != "little":
        numbers.byteswap()
    return numbers


def _wrong(field: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {problem}", field=field)
