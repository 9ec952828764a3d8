"""Whatever a trainer's message says: a typed error that names its field, or what can be generated.

Messages are generated from the proto: each field has values that it can hold on the wire and that
no one means, up to a megabyte and the ends of its type. What is accepted is within every limit.
"""

from __future__ import annotations

import contextlib
import math
import struct
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.rollout.engine.exact import random_model
from tests.rollout.service.served import SLOTS, TOKENS_MAX, limits
from tests.rollout.test_adapter_files import LORA, OFT, lora_arrays, oft_arrays

from assay.core.errors import AssayError
from assay.rollout.layout import STOP_BYTES_MAX, STOP_IDS_MAX, STOP_STRINGS_MAX
from assay.rollout.models.adapters import RANK_MAX, adapter_of, parse_config
from assay.rollout.models.errors import ModelError
from assay.rollout.models.model import Tensor
from assay.rollout.service import wire
from assay.rollout.service.records import Decoding, SessionSpec
from assay.rollout.service.weights.parts import Assembly, Receiver
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor
    from google.protobuf.message import Message

MODEL = random_model("qwen3")
SERVED = limits(MODEL.config.vocab_size, SLOTS)
MEGABYTE = 1 << 20
I32, I64, U64 = (-(1 << 31), (1 << 31) - 1), (-(1 << 63), (1 << 63) - 1), (0, (1 << 64) - 1)
ENDS = {"INT32": I32, "INT64": I64, "UINT64": U64, "UINT32": (0, (1 << 32) - 1)}
FRACTIONS = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e308, -1.0, 0.5, 1.0, 2.0]
TEXTS = ["a", "", " ", "\x00", "../x", "\u00e9\U0001f600", "x" * 300, "x" * MEGABYTE, "[", "{}"]
IDS = [struct.pack("<i", one) for one in (0, 1, -1, MODEL.config.vocab_size, *I32)]
BYTES = [*IDS, b"", b"\xff", b"x" * MEGABYTE, b"{}", b"[" * 100_000, b'{"a":NaN}']
LISTED_MAX = 3


def value(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    """One value of a field that is no message."""
    kinds = {getattr(field, f"CPPTYPE_{name}"): ends for name, ends in ENDS.items()}
    if field.cpp_type in kinds:
        least, most = kinds[field.cpp_type]
        return st.sampled_from([least, most, 0, 1, 2, SLOTS, SLOTS + 1]) | st.integers(least, most)
    if field.cpp_type in {field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT}:
        return st.sampled_from(FRACTIONS) | st.floats()
    if field.cpp_type == field.CPPTYPE_ENUM:
        return st.integers(-1, 5)
    if field.cpp_type == field.CPPTYPE_BOOL:
        return st.booleans()
    texts = field.type == field.TYPE_STRING
    return st.sampled_from(TEXTS if texts else BYTES) | (
        st.text(max_size=9) if texts else st.binary(max_size=9)
    )


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


def nearly(message: Message, draw: st.DrawFn) -> Any:
    """A good message with one field, somewhere, as `filled` would have it."""
    made: Any = type(message)()
    made.CopyFrom(message)
    place: Any = made
    while True:
        field = draw(st.sampled_from(list(place.DESCRIPTOR.fields)))
        inner = field.message_type
        if inner is None:
            break
        if field.is_repeated:
            some = getattr(place, field.name)
            place = draw(st.sampled_from(list(some))) if some else some.add()
        else:
            place = getattr(place, field.name)
            place.SetInParent()
    if field.is_repeated:
        getattr(place, field.name).append(draw(value(field)))
    else:
        setattr(place, field.name, draw(value(field)))
    return made


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


@st.composite
def any_session(draw: st.DrawFn) -> Any:
    spoilt = draw(st.booleans())
    return nearly(good_session(), draw) if spoilt else draw(filled(rollout_pb2.Session))


@st.composite
def any_prompts(draw: st.DrawFn) -> Any:
    spoilt = draw(st.booleans())
    request = rollout_pb2.SubmitPromptsRequest
    return nearly(good_prompts(), draw) if spoilt else draw(filled(request))


@st.composite
def any_push(draw: st.DrawFn) -> Any:
    good = rollout_pb2.PushWeightsRequest(policy_version=1, data=bytes(8))
    good.tensor.CopyFrom(rollout_pb2.TensorHead(name="t", dtype="F32", shape=[2]))
    spoilt = draw(st.booleans())
    return nearly(good, draw) if spoilt else draw(filled(rollout_pb2.PushWeightsRequest))


def check_decoding(decoding: Decoding) -> None:
    sampling = decoding.sampling
    for number in (sampling.temperature, sampling.top_p, sampling.min_p):
        assert math.isfinite(number)
        assert number >= 0
    assert 0 <= decoding.max_tokens <= TOKENS_MAX
    assert len(decoding.stop_ids) <= STOP_IDS_MAX
    assert len(decoding.stop_strings) <= STOP_STRINGS_MAX
    assert all(0 < len(one) <= STOP_BYTES_MAX for one in decoding.stop_strings)


MANY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@MANY
@given(message=any_session())
def test_a_session_is_within_the_limits_or_its_field_is_named(message: Any) -> None:
    try:
        spec = wire.session_spec(message, SERVED)
    except AssayError as error:
        assert error.field.startswith("session."), repr(error)  # noqa: PT017
        return
    check_decoding(spec.decoding)
    assert 1 <= spec.groups_open_max <= SERVED.groups_open_max
    assert spec.staleness_max is None or spec.staleness_max >= 0
    assert spec.reward is None or 0 < spec.reward.wait_s_max <= wire.SPAN_MS_MAX / 1_000


@MANY
@given(request=any_prompts())
def test_prompts_are_within_the_limits_or_their_field_is_named(request: Any) -> None:
    session = SessionSpec(
        decoding=Decoding(), reward=None, groups_open_max=9, staleness_max=None, retry_stale=False
    )
    try:
        specs = wire.group_specs(request, session, SERVED, lambda *_: ())
        batches = wire.reward_batches(request)
    except AssayError as error:
        assert error.field.startswith(("prompts[", "batches[")), repr(error)  # noqa: PT017
        return
    except IndexError:  # of `lambda *_: ()`: a group that is continued has no trajectories here
        assert any(one.continues for one in request.prompts)
        return
    for spec in specs:
        check_decoding(spec.decoding)
        assert 1 <= spec.k <= SLOTS
        assert 0 < len(spec.prompt) + spec.decoding.max_tokens <= TOKENS_MAX
        assert all(0 <= one < SERVED.vocab_size for one in spec.prompt)
        assert spec.bytes_max >= spec.k * spec.decoding.max_tokens + len(spec.reference_json)
    assert all(one.deadline_s is None or one.deadline_s > 0 for one in batches)


@MANY
@given(message=any_push())
def test_the_tensors_of_a_message_are_as_it_says_or_their_field_is_named(message: Any) -> None:
    receiver = Receiver(lambda head, data: Assembly(head, head.shape, data))
    try:
        part = wire.part(message)
        size = max(len(message.data), 1) * 8
        if any(math.prod(head.shape) > size for head in (part.head, *part.together) if head):
            return  # its memory would be taken; the model's shapes are compared before (`Begin`)
        found = receiver.take(part)
    except AssayError as error:
        assert error.field or "before the last" in str(error), repr(error)  # noqa: PT017
        return
    for one in found:
        assert one.whole
        assert one.tensor().data.nbytes == one.head.size


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
NAMED = st.sampled_from(
    [
        *("r", "lora_alpha", "target_modules", "rank_pattern", "alpha_pattern", "use_rslora"),
        *("peft_type", "use_cayley_neumann", "num_cayley_neumann_terms", "oft_transform"),
        *("block_share", "layers_to_transform", "bias", "use_dora"),
    ]
)
ADAPTERS = [
    (config, {name: Tensor.of(array) for name, array in arrays.items()})
    for config, arrays in ((LORA, lora_arrays(MODEL)), (OFT, oft_arrays(MODEL)))
]


@given(base=st.sampled_from(ADAPTERS), changes=st.dictionaries(NAMED, JSON, max_size=3))
def test_an_adapters_config_is_computed_or_refused(base: Any, changes: dict[str, Any]) -> None:
    config, tensors = base
    try:
        adapter = adapter_of({**config, **changes}, tensors, MODEL.config)
    except ModelError:
        return
    for one in adapter.projections:
        assert 1 <= one.size <= RANK_MAX
        assert math.isfinite(one.scale)


@given(text=st.text(max_size=30) | JSON.map(str) | st.sampled_from(["[" * 99_999, "1e999", "{}"]))
def test_the_text_of_an_adapters_config_is_an_object_or_refused(text: str) -> None:
    with contextlib.suppress(ModelError):
        assert isinstance(parse_config(text), dict)
