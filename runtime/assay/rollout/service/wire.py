"""Converts between protobuf and the records; the only module of this service that knows both.

Input is checked here against the model and the engine, so that an accepted group can be
generated: every error names its field, and nothing is stored before.
"""

from __future__ import annotations

import array
import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from assay.core.errors import AssayError, InvalidRequest, NotFound, TooLarge
from assay.core.ids import NAME_FORM
from assay.rollout.interface.checks import check_integer, check_prompt, check_sampling, check_stops
from assay.rollout.interface.rollouts import Sampling
from assay.rollout.layout import Event, PauseMode
from assay.rollout.service.inspection import QueueName
from assay.rollout.service.records import (
    Decoding,
    GroupSpec,
    NextTurn,
    RewardBatch,
    RewardPlan,
    SessionSpec,
)
from assay.rollout.service.rewards import json_object
from assay.rollout.service.weights import Head, PushKind, PushSpec, WeightPart
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from assay.core.trajectory import TrajectoryTokens
    from assay.rollout.interface.rollouts import Activation
    from assay.rollout.service.inspection import RolloutPlace, TracePage

    Histories = Callable[[str, str, Sequence[int]], tuple[TrajectoryTokens, ...]]

GROUP_FORM: Final = re.compile(r"[A-Za-z0-9._:/-]{1,256}")
K_MAX: Final = 1_024
REFERENCE_BYTES_MAX: Final = 1 << 20
SPAN_MS_MAX: Final = 7 * 24 * 3_600 * 1_000
"""A week: the longest deadline and wait, as in the reward service."""
SHAPE_DIMENSIONS_MAX: Final = 4
BATCHES_MAX: Final = 4_096
TENSORS_MAX: Final = 1 << 16
"""Reward batches, and tensors, of one message: 16 MiB hold millions, which take a minute."""
NO_TOKENIZER: Final = "the model has no tokenizer here: send {}"
PAUSE_MODE: Final = {
    rollout_pb2.PAUSE_MODE_UNSPECIFIED: PauseMode.IN_PLACE,
    rollout_pb2.PAUSE_MODE_IN_PLACE: PauseMode.IN_PLACE,
    rollout_pb2.PAUSE_MODE_FINISH: PauseMode.FINISH,
    rollout_pb2.PAUSE_MODE_RETRACT: PauseMode.RETRACT,
}
QUEUE: Final = {
    QueueName.PREFILL: rollout_pb2.ROLLOUT_QUEUE_PREFILL,
    QueueName.DECODE: rollout_pb2.ROLLOUT_QUEUE_DECODE,
    QueueName.REWARD: rollout_pb2.ROLLOUT_QUEUE_REWARD,
    QueueName.TRAJECTORY: rollout_pb2.ROLLOUT_QUEUE_TRAJECTORY,
}
EVENT: Final = {event.value: event.name.lower() for event in Event}
PUSH_KIND: Final = {
    rollout_pb2.WEIGHTS_KIND_UNSPECIFIED: PushKind.FULL,
    rollout_pb2.WEIGHTS_KIND_FULL: PushKind.FULL,
    rollout_pb2.WEIGHTS_KIND_LORA: PushKind.LORA,
    rollout_pb2.WEIGHTS_KIND_OFT: PushKind.OFT,
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
    """The model's tokenizer, for a prompt; `None`: prompts come as ids."""
    encode_more: Callable[[str], list[int]] | None
    """The same for text within a sequence: without a first token of its own."""
    text_bytes_max: int
    """Of a text that fits (it has no more characters): longer ones are not encoded."""
    stop_ids: tuple[int, ...]
    """The model's own stop ids, for sessions without any."""
    groups_open_max: int
    reward_wait_s: float
    """Default for sessions."""
    reward_wait_s_max: float
    """Most that a session may set."""
    device: str = ""
    device_reason: str = ""
    """As in `Backend`."""


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
    if not 0 <= message.minority_min < K_MAX:
        raise _wrong("session.minority_min", f"0 to {K_MAX - 1}")
    if message.stale_groups not in rollout_pb2.StaleGroups.values():
        raise _wrong("session.stale_groups", "one of StaleGroups")
    default = Decoding(max_tokens=0, stop_ids=served.stop_ids)
    return SessionSpec(
        decoding=_decoding(message.sampling, default, served, "session.sampling"),
        reward=_reward_plan(message, served),
        groups_open_max=groups,
        staleness_max=staleness,
        retry_stale=message.stale_groups == rollout_pb2.STALE_GROUPS_RETRY,
        minority_min=message.minority_min,
        at_activation=pause_mode(message.at_activation, "session.at_activation"),
    )


def _reward_plan(message: rollout_pb2.Session, served: Served) -> RewardPlan | None:
    if not message.HasField("reward"):
        return None
    reward = message.reward
    if not reward.pipeline:
        raise _wrong("session.reward.pipeline", "the name of a pipeline")
    most = round(1000 * served.reward_wait_s_max)
    if not 0 <= reward.wait_ms_max <= most:
        name = "session.reward.wait_ms_max"
        raise _wrong(name, f"0 to {most} (rollout.reward_wait_s_max)")
    return RewardPlan(
        pipeline=reward.pipeline,
        settings_json=reward.settings_json,
        wait_s_max=reward.wait_ms_max / 1000 or served.reward_wait_s,
    )


def check_counts(request: rollout_pb2.SubmitPromptsRequest, served: Served) -> None:
    """Refuse (TooLarge) more than a session may have, before anything is done for each."""
    _bound("prompts", len(request.prompts), served.groups_open_max)
    _bound("batches", len(request.batches), BATCHES_MAX)


def group_specs(
    request: rollout_pb2.SubmitPromptsRequest,
    session: SessionSpec,
    served: Served,
    histories: Histories,
) -> list[GroupSpec]:
    """The prompts of SubmitPrompts.

    Args:
        request: the message.
        session: parameters of its session.
        served: limits of the service.
        histories: finds the trajectories of a group that is continued; `Groups.histories`.

    Raises:
        InvalidRequest: a field is wrong; `prompts[3].k`.
        NotFound: a group that is continued is not there.
    """
    specs = []
    for i, prompt in enumerate(request.prompts):
        specs.append(_group_spec(prompt, session, served, histories, f"prompts[{i}]"))
    return specs


def _group_spec(
    message: rollout_pb2.Prompt,
    session: SessionSpec,
    served: Served,
    histories: Histories,
    where: str,
) -> GroupSpec:
    if not GROUP_FORM.fullmatch(message.group_id):
        raise _wrong(f"{where}.group_id", "1 to 256 of A-Z a-z 0-9 . _ : / -")
    if not 1 <= message.k <= min(K_MAX, served.slots):
        raise _wrong(f"{where}.k", f"1 to {min(K_MAX, served.slots)}")
    if len(message.reference_json) > REFERENCE_BYTES_MAX:
        name = f"{where}.reference_json"
        raise TooLarge(f"{name}: at most {REFERENCE_BYTES_MAX} bytes", field=name)
    if message.reference_json:
        json_object(message.reference_json, f"{where}.reference_json")
    if message.batch_id and not NAME_FORM.fullmatch(message.batch_id):
        raise _wrong(f"{where}.batch_id", "1 to 128 of A-Z a-z 0-9 . _ -")
    decoding = _decoding(message.sampling, session.decoding, served, f"{where}.sampling")
    spec = GroupSpec(
        group_id=message.group_id,
        prompt=(),
        k=message.k,
        seed=message.seed,
        decoding=decoding,
        reference_json=message.reference_json,
        batch_id=message.batch_id,
        scored=not message.unscored,
    )
    if message.continues:
        spec = _continued(spec, message, served, histories, where)
    elif message.turns:
        raise _wrong(f"{where}.turns", "only with continues")
    else:
        spec = replace(spec, prompt=_prompt(message, served, where))
    return _fitted(spec, served, where, "text" if message.text else "prompt_ids")


def _continued(
    spec: GroupSpec,
    message: rollout_pb2.Prompt,
    served: Served,
    histories: Histories,
    where: str,
) -> GroupSpec:
    if message.prompt_ids or message.text:
        raise _wrong(f"{where}.prompt_ids", "not with continues")
    if len(message.turns) != message.k:
        raise _wrong(f"{where}.turns", f"k = {message.k} of them")
    turns = tuple(
        NextTurn(member=turn.member, environment=_environment(turn, served, f"{where}.turns[{i}]"))
        for i, turn in enumerate(message.turns)
    )
    for i, turn in enumerate(turns):
        if turn.member < 0:
            raise _wrong(f"{where}.turns[{i}].member", "0 or more")
    try:
        found = histories(spec.group_id, message.continues, [turn.member for turn in turns])
    except IndexError:
        raise _wrong(f"{where}.turns", f"a member is not in group {message.continues!r}") from None
    except NotFound as error:
        raise NotFound(error.message, field=f"{where}.continues") from None
    prompt = tuple(found[0].prompt_ids)
    return replace(spec, prompt=prompt, continues=message.continues, turns=turns, histories=found)


def _environment(turn: rollout_pb2.NextTurn, served: Served, where: str) -> tuple[int, ...]:
    if turn.environment_ids and turn.environment_text:
        raise _wrong(f"{where}.environment_ids", "one of environment_ids and environment_text")
    if turn.environment_text:
        if served.encode_more is None:
            raise _wrong(f"{where}.environment_text", NO_TOKENIZER.format("environment_ids"))
        _bound(f"{where}.environment_text", len(turn.environment_text), served.text_bytes_max)
        return tuple(served.encode_more(turn.environment_text))
    return _ids(turn.environment_ids, f"{where}.environment_ids")


def _fitted(spec: GroupSpec, served: Served, where: str, given: str) -> GroupSpec:
    """With `max_tokens` set, after checking that each response fits into the context."""
    decoding = spec.decoding
    contexts = [spec.context(i) for i in range(len(spec.turns) or 1)]
    room = served.tokens_max - max(map(len, contexts))
    max_tokens = decoding.max_tokens or max(1, room)
    for i, context in enumerate(contexts):
        prompt = f"turns[{i}].environment_ids" if spec.turns else given
        with _inside(where, {"prompt": prompt, "max_tokens": "sampling.max_tokens"}):
            check_prompt(
                context, max_tokens, vocab_size=served.vocab_size, seq_len_max=served.tokens_max
            )
    return replace(spec, decoding=replace(decoding, max_tokens=max_tokens))


def _prompt(message: rollout_pb2.Prompt, served: Served, where: str) -> tuple[int, ...]:
    if bool(message.prompt_ids) == bool(message.text):
        raise _wrong(f"{where}.prompt_ids", "one of prompt_ids and text")
    if message.text:
        if served.encode is None:
            raise _wrong(f"{where}.text", NO_TOKENIZER.format("prompt_ids"))
        _bound(f"{where}.text", len(message.text), served.text_bytes_max)
        return tuple(served.encode(message.text))
    return _ids(message.prompt_ids, f"{where}.prompt_ids")


def _ids(data: bytes, where: str) -> tuple[int, ...]:
    if len(data) % 4:
        raise _wrong(where, "int32, little-endian")
    numbers = array.array("i", data)
    if sys.byteorder != "little":
        numbers.byteswap()
    return tuple(numbers)


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
    if decoding.stop_strings and served.encode is None:  # nothing knows the text of its tokens
        raise _wrong(f"{where}.stop_strings", NO_TOKENIZER.format("stop_ids"))
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
        if batch.HasField("deadline_ms") and not 1 <= batch.deadline_ms <= SPAN_MS_MAX:
            raise _wrong(f"batches[{i}].deadline_ms", f"1 to {SPAN_MS_MAX}")
        deadline_s = batch.deadline_ms / 1000 if batch.HasField("deadline_ms") else None
        if batch.enough_groups < 0:
            raise _wrong(f"batches[{i}].enough_groups", "0 or more")
        found.append(
            RewardBatch(
                batch_id=batch.batch_id,
                deadline_s=deadline_s,
                last=batch.last,
                enough_groups=batch.enough_groups,
                only_varied=batch.only_varied,
            )
        )
    return found


def pause_mode(mode: int, field: str = "mode") -> PauseMode:
    """Pause, and what a session says; unspecified is IN_PLACE.

    Raises:
        InvalidRequest: not a pause mode; names the field.
    """
    found = PAUSE_MODE.get(mode)  # type: ignore[call-overload]
    if found is None:
        raise _wrong(field, "one of PauseMode")
    return PauseMode(found)


def activation_mode(mode: int, field: str = "mode") -> PauseMode | None:
    """Activate and a push that activates; `None`: as the open sessions say.

    Raises:
        InvalidRequest: not a pause mode; names the field.
    """
    return None if mode == rollout_pb2.PAUSE_MODE_UNSPECIFIED else pause_mode(mode, field)


def activated(done: Activation) -> rollout_pb2.ActivateResponse:
    """What came of an activation."""
    return rollout_pb2.ActivateResponse(
        policy_version=done.version,
        previous_version=done.previous,
        wait_s=done.wait_s,
        pause_s=done.pause_s,
    )


def pause_id(name: str) -> str:
    """The caller's name of a pause; empty: it has none.

    Raises:
        InvalidRequest: not a name.
    """
    if name and not NAME_FORM.fullmatch(name):
        raise _wrong("pause_id", "1 to 128 of A-Z a-z 0-9 . _ -")
    return name


def part(message: rollout_pb2.PushWeightsRequest, data: bytes | memoryview = b"") -> WeightPart:
    """One message of PushWeights.

    Args:
        message: without the bytes that were taken out of it.
        data: those bytes; see `apart`. As for every field of protobuf, the last value counts.

    Raises:
        InvalidRequest: a field is wrong.
    """
    head: Head | None = None
    together: tuple[Head, ...] = ()
    if message.HasField("tensor"):
        if message.tensors:
            raise _wrong("tensors", "not with tensor")
        head = _head(message.tensor, "tensor")
    elif message.tensors:
        _bound("tensors", len(message.tensors), TENSORS_MAX)
        together = tuple(_head(one, f"tensors[{i}]") for i, one in enumerate(message.tensors))
    return WeightPart(
        push=_push(message),
        head=head,
        together=together,
        data=message.data or data,
        crc32=message.data_crc32 if message.HasField("data_crc32") else None,
        number=message.number if message.HasField("number") else None,
    )


def _head(tensor: rollout_pb2.TensorHead, where: str) -> Head:
    shape = tuple(tensor.shape)
    if not 1 <= len(shape) <= SHAPE_DIMENSIONS_MAX:
        raise _wrong(f"{where}.shape", f"1 to {SHAPE_DIMENSIONS_MAX} dimensions")
    return Head(name=tensor.name, dtype=tensor.dtype, shape=shape, sha256=tensor.sha256)


def _push(message: rollout_pb2.PushWeightsRequest) -> PushSpec:
    if message.kind not in PUSH_KIND:
        raise _wrong("kind", "one of WeightsKind")
    adapter = message.adapter
    return PushSpec(
        version=message.policy_version,
        core_share_max=message.core_share_max,
        kind=PUSH_KIND[message.kind],
        config_json=adapter.config_json or "{}",
        base_version=adapter.base_version if adapter.HasField("base_version") else None,
        shared_file=message.shared_file,
        activate=message.HasField("activate"),
        mode=activation_mode(message.activate, "activate"),
    )


# -- out -----------------------------------------------------------------------------------------
def place(one: RolloutPlace) -> rollout_pb2.RolloutPlace:
    """Where a rollout is."""
    return rollout_pb2.RolloutPlace(
        session_id=one.session_id,
        group_id=one.group_id,
        member=one.member,
        queue=QUEUE[one.queue],
        submitted_ns=one.submitted_ns,
        decoded_ns=one.decoded_ns,
        slot=one.ref.slot,
        generation=one.ref.generation,
    )


def trace_page(page: TracePage) -> rollout_pb2.StreamTraceResponse:
    """Events of the engine."""
    return rollout_pb2.StreamTraceResponse(
        events=(
            rollout_pb2.TraceEvent(
                event=EVENT[record.event],
                slot=record.slot,
                generation=record.generation,
                monotonic_ns=record.ticks,
            )
            for record in page.records
        ),
        lost=page.lost,
    )


def _bound(field: str, size: int, most: int) -> None:
    if size > most:
        raise TooLarge(f"{field}: {size}, where at most {most} can fit", field=field)


def _wrong(field: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {problem}", field=field)
