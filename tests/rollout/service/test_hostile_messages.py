"""Whatever a trainer's message says: a typed error that names its field, or what can be generated.

Messages are generated from the proto: each field has values that it can hold on the wire and that
no one means, up to a megabyte and the ends of its type. What is accepted is within every limit.
"""

from __future__ import annotations

import contextlib
import math
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.rollout.engine.exact import random_model
from tests.rollout.service.served import SLOTS, TOKENS_MAX, limits
from tests.rollout.test_adapter_files import LORA, OFT, lora_arrays, oft_arrays

from assay.core.errors import AssayError, NotFound
from assay.rollout.layout import STOP_BYTES_MAX, STOP_IDS_MAX, STOP_STRINGS_MAX
from assay.rollout.models.adapters import RANK_MAX, adapter_of, parse_config
from assay.rollout.models.errors import ModelError
from assay.rollout.models.model import Tensor
from assay.rollout.service import wire
from assay.rollout.service.records import Decoding, SessionSpec
from assay.rollout.service.weights.parts import Assembly, Head, Receiver
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.protobuf.message import Message

MODEL = random_model("qwen3")
SERVED = replace(
    limits(MODEL.config.vocab_size, SLOTS),
    encode=lambda text: [1] * min(len(text), TOKENS_MAX),
    encode_more=lambda text: [1] * min(len(text), TOKENS_MAX),
    text_bytes_max=300,
)
MEGABYTE = 1 << 20
I32, I64, U64 = (-(1 << 31), (1 << 31) - 1), (-(1 << 63), (1 << 63) - 1), (0, (1 << 64) - 1)
ENDS = {"INT32": I32, "INT64": I64, "UINT64": U64, "UINT32": (0, (1 << 32) - 1)}
FRACTIONS = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e308, -1.0, 0.5, 1.0, 2.0]
TEXTS = ["a", "", " ", "\x00", "../x", "\u00e9\U0001f600", "x" * 300, "x" * MEGABYTE, "[", "{}"]
IDS = [struct.pack("<i", one) for one in (0, 1, -1, MODEL.config.vocab_size, *I32)]
BYTES = [*IDS, b"", b"\xff", b"x" * MEGABYTE, b"{}", b"[" * 100_000, b'{"a":NaN}']
LISTED_MAX = 3
MANY_TIMES = 1_000
SESSION = SessionSpec(
    decoding=Decoding(), reward=None, groups_open_max=9, staleness_max=None, retry_stale=False
)


def odd(field: Any) -> list[Any]:
    """Values of a field that is no message."""
    kinds = {getattr(field, f"CPPTYPE_{name}"): ends for name, ends in ENDS.items()}
    if field.cpp_type in kinds:
        return [*kinds[field.cpp_type], 0, 1, 2, SLOTS, SLOTS + 1]
    if field.cpp_type in {field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT}:
        return FRACTIONS
    if field.cpp_type == field.CPPTYPE_ENUM:
        return [-1, 0, 1, 5, 99]
    if field.cpp_type == field.CPPTYPE_BOOL:
        return [False, True]
    return TEXTS if field.type == field.TYPE_STRING else BYTES


def value(field: Any) -> st.SearchStrategy[Any]:
    """One value of such a field: an odd one, or any small one."""
    found = st.sampled_from(odd(field))
    if field.cpp_type == field.CPPTYPE_STRING:
        return found | (st.text(max_size=9) if odd(field) is TEXTS else st.binary(max_size=9))
    if field.cpp_type in {field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT}:
        return found | st.floats()
    return found


@st.composite
def filled(draw: st.DrawFn, message: type[Message]) -> Any:
    """A message of this type, with some of its fields set."""
    made: Any = message()
    fields: Any = message.DESCRIPTOR.fields
    for field in fields:
        if not draw(st.booleans()):
            continue
        inner = field.message_type
        one = value(field) if inner is None else filled(inner._concrete_class)
        if field.is_repeated:
            getattr(made, field.name).extend(draw(st.lists(one, max_size=LISTED_MAX)))
        elif inner is None:
            setattr(made, field.name, draw(one))
        else:
            getattr(made, field.name).CopyFrom(draw(one))
    return made


def spoilt(message: Any) -> Iterator[Any]:
    """Copies of a message, each with one field of it or of its parts set to one odd value."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None:
            yield from _spoilt_part(message, field)
            continue
        for one in odd(field):
            made = type(message)()
            made.CopyFrom(message)
            if field.is_repeated:
                getattr(made, field.name).append(one)
            else:
                setattr(made, field.name, one)
            yield made
        if field.is_repeated:
            made = type(message)()
            made.CopyFrom(message)
            getattr(made, field.name).extend(odd(field)[:1] * MANY_TIMES)
            yield made


def _spoilt_part(message: Any, field: Any) -> Iterator[Any]:
    held = getattr(message, field.name)
    inner = (held[0] if held else held.add()) if field.is_repeated else held
    for part in spoilt(inner):
        made = type(message)()
        made.CopyFrom(message)
        if field.is_repeated:
            getattr(made, field.name)[0].CopyFrom(part)
        else:
            getattr(made, field.name).CopyFrom(part)
        yield made


def good_session() -> rollout_pb2.Session:
    session = rollout_pb2.Session(session_id="s")
    session.sampling.max_tokens = 4
    session.reward.pipeline = "noop"
    return session


def good_prompts() -> rollout_pb2.SubmitPromptsRequest:
    request = rollout_pb2.SubmitPromptsRequest(session_id="s")
    for i in range(2):
        prompt = request.prompts.add(group_id=f"g{i}", k=2, seed=1, prompt_ids=IDS[1])
        prompt.sampling.max_tokens = 3
    request.batches.add(batch_id="b", deadline_ms=1_000)
    return request


def good_push() -> rollout_pb2.PushWeightsRequest:
    good = rollout_pb2.PushWeightsRequest(policy_version=1, data=bytes(8))
    good.tensor.CopyFrom(rollout_pb2.TensorHead(name="t", dtype="F32", shape=[2]))
    return good


def check_decoding(decoding: Decoding) -> None:
    sampling = decoding.sampling
    for number in (sampling.temperature, sampling.top_p, sampling.min_p):
        assert math.isfinite(number)
        assert number >= 0
    assert 0 <= decoding.max_tokens <= TOKENS_MAX
    assert len(decoding.stop_ids) <= STOP_IDS_MAX
    assert len(decoding.stop_strings) <= STOP_STRINGS_MAX
    assert all(0 < len(one) <= STOP_BYTES_MAX for one in decoding.stop_strings)


def unknown_words(message: Any) -> list[str]:
    """Fields whose value is not in its enum, in the message and its parts."""
    found = []
    for field, held in message.ListFields():
        for one in held if field.is_repeated else [held]:
            if field.message_type is not None:
                found += unknown_words(one)
            elif field.enum_type is not None and one not in field.enum_type.values_by_number:
                found.append(field.full_name)
    return found


MANY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def check_session(message: rollout_pb2.Session) -> bool:
    """Whether it is accepted."""
    try:
        spec = wire.session_spec(message, SERVED)
    except AssayError as error:
        assert error.field.startswith("session."), repr(error)  # noqa: PT017
        return False
    check_decoding(spec.decoding)
    assert 1 <= spec.groups_open_max <= SERVED.groups_open_max
    assert spec.staleness_max is None or spec.staleness_max >= 0
    assert spec.reward is None or 0 < spec.reward.wait_s_max <= wire.SPAN_MS_MAX / 1_000
    return True


def check_prompts(request: rollout_pb2.SubmitPromptsRequest) -> bool:
    """Whether they are accepted."""

    def none(*_: object) -> Any:
        message = "no such group"
        raise NotFound(message)

    try:
        specs = wire.group_specs(request, SESSION, SERVED, none)
        batches = wire.reward_batches(request)
    except AssayError as error:
        assert error.field.startswith(("prompts[", "batches[")), repr(error)  # noqa: PT017
        return False
    for spec in specs:
        check_decoding(spec.decoding)
        assert 1 <= spec.k <= SLOTS
        assert 0 < len(spec.prompt) + spec.decoding.max_tokens <= TOKENS_MAX
        assert all(0 <= one < SERVED.vocab_size for one in spec.prompt)
        assert spec.bytes_max >= spec.k * spec.decoding.max_tokens + len(spec.reference_json)
    assert all(one.deadline_s is None or one.deadline_s > 0 for one in batches)
    return True


def check_push(message: rollout_pb2.PushWeightsRequest) -> bool:
    """Whether its tensors are accepted; those of more than the message has are not begun here, as
    the model's shapes are compared before their memory is taken."""

    def begin(head: Head, data: memoryview | None) -> Assembly:
        known = (2,) if math.prod(head.shape) > 8 * (1 + len(message.data)) else head.shape
        return Assembly(head, known, data)

    try:
        found = Receiver(begin).take(wire.part(message))
    except AssayError as error:
        assert error.field, repr(error)  # noqa: PT017
        return False
    for one in found:
        assert one.whole
        assert one.tensor().data.nbytes == one.head.size
    return True


CHECKS: list[tuple[Any, Callable[[Any], bool]]] = [
    (good_session, check_session),
    (good_prompts, check_prompts),
    (good_push, check_push),
]


@pytest.mark.parametrize(("good", "check"), CHECKS)
def test_each_field_with_each_odd_value_is_named_or_within_the_limits(
    good: Any, check: Any
) -> None:
    assert check(good())
    every = list(spoilt(good()))
    accepted = [message for message in every if check(message)]
    assert 0 < len(accepted) < len(every)
    assert not [unknown_words(message) for message in accepted if unknown_words(message)]


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    session=filled(rollout_pb2.Session),
    prompts=filled(rollout_pb2.SubmitPromptsRequest),
    push=filled(rollout_pb2.PushWeightsRequest),
)
def test_any_message_is_refused_by_its_field_or_within_the_limits(
    session: Any, prompts: Any, push: Any
) -> None:
    for message, check in ((session, check_session), (prompts, check_prompts), (push, check_push)):
        if check(message):
            assert not unknown_words(message)


ODD_JSON: list[Any] = [
    *(math.inf, math.nan, 1e308, -1, 0, 1.5, 10**400, "4", "a", True, None, [], [1], {}),
    *({"q_proj": math.inf}, {"(": 1}, {"": -1}, {"q_proj": "x"}),
]
JSON = st.sampled_from(ODD_JSON) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
NAMES = [
    *("r", "lora_alpha", "target_modules", "rank_pattern", "alpha_pattern", "use_rslora"),
    *("peft_type", "use_cayley_neumann", "num_cayley_neumann_terms", "oft_transform"),
    *("block_share", "layers_to_transform", "bias", "use_dora"),
]
ADAPTERS = [
    (config, {name: Tensor.of(array) for name, array in arrays.items()})
    for config, arrays in ((LORA, lora_arrays(MODEL)), (OFT, oft_arrays(MODEL)))
]


def check_adapter(config: dict[str, Any], tensors: dict[str, Tensor]) -> bool:
    """Whether it is accepted."""
    try:
        adapter = adapter_of(config, tensors, MODEL.config)
    except ModelError:
        return False
    for one in adapter.projections:
        assert 1 <= one.size <= RANK_MAX
        assert math.isfinite(one.scale)
    return True


@pytest.mark.parametrize(("config", "tensors"), ADAPTERS)
def test_each_entry_of_an_adapters_config_is_computed_or_refused(config: Any, tensors: Any) -> None:
    assert check_adapter(config, tensors)
    accepted = [check_adapter({**config, name: one}, tensors) for name in NAMES for one in ODD_JSON]
    assert not all(accepted)


@given(
    base=st.sampled_from(ADAPTERS),
    changes=st.dictionaries(st.sampled_from(NAMES), JSON, min_size=2, max_size=3),
)
def test_any_config_of_an_adapter_is_computed_or_refused(base: Any, changes: Any) -> None:
    config, tensors = base
    check_adapter({**config, **changes}, tensors)


@given(text=st.text(max_size=30) | JSON.map(str) | st.sampled_from(["[" * 99_999, "1e999", "{}"]))
def test_the_text_of_an_adapters_config_is_an_object_or_refused(text: str) -> None:
    with contextlib.suppress(ModelError):
        assert isinstance(parse_config(text), dict)
