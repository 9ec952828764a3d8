"""Messages of other systems are read, or refused by a field; nothing else comes of any JSON."""

import json
import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.endpoints.bodies import BODIES, HUGE, changed, damaged, places

from assay.core.errors import AssayError, InvalidRequest
from assay.reward.endpoints import sandbox_fusion_bodies, trainer_bodies, trainers
from assay.reward.reading import validated

READERS: dict[str, Any] = {
    "/v1/sandboxfusion/run_code": sandbox_fusion_bodies.run_message,
    "/v1/sandboxfusion/submit": sandbox_fusion_bodies.submit_message,
    "/v1/openrlhf/math/get_reward": trainer_bodies.openrlhf_message,
    "/v1/slime/math/rm": trainer_bodies.slime_message,
    "/v1/nemo_gym/math/verify": trainer_bodies.nemo_gym_message,
    "/v1/roll/math/submit": trainer_bodies.roll_message,
}
KINDS = tuple(sandbox_fusion_bodies._JUDGES)
FIELDS = ("test", "labels", "language", "entry_point", "input", "stdin", "asset")
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ("test", "labels", "language", "entry_point", "input", "stdin", "asset")
            )
            | st.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


def read(path: str, body: Any) -> None:
    field = "body"
    try:
        validated(READERS[path], json.dumps(body).encode())
    except AssayError as refused:
        field = refused.field
    assert field, (path, body)


@pytest.mark.parametrize("path", READERS)
def test_a_damaged_message_is_read_or_refused_by_a_field(path: str) -> None:
    chance = random.Random(path)
    for _ in range(400):
        read(path, damaged(BODIES[path], chance))


@pytest.mark.parametrize("path", READERS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_json_in_any_field_is_read_or_refused_by_a_field(
    path: str, data: st.DataObject
) -> None:
    spots = list(places(BODIES[path]))
    read(path, changed(BODIES[path], data.draw(st.sampled_from(spots)), data.draw(json_values)))


@settings(max_examples=150, deadline=None)
@given(kind=st.sampled_from(KINDS), row=json_values)
@example(kind="HumanEvalDataset", row={"labels": ["no object"], "test": ""})
@example(kind="MBPPDataset", row={"labels": "5", "test_list": []})
@example(kind="HumanEvalDataset", row={"language": [], "test": ""})
def test_any_row_of_a_data_set_is_read_or_refused_by_a_field(kind: str, row: Any) -> None:
    body = BODIES["/v1/sandboxfusion/submit"]
    config = {**body["config"], "dataset_type": kind, "provided_data": row}
    read("/v1/sandboxfusion/submit", {**body, "config": config})


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "reward": st.floats() | st.integers() | st.sampled_from(HUGE) | json_values,
                "mask_sample": json_values,
                "_ng_task_index": st.integers(0, 2) | json_values,
            },
        ),
        max_size=6,
    )
)
@settings(deadline=None)
def test_statistics_of_any_results_are_numbers_or_refused(results: list[dict[str, Any]]) -> None:
    found: Any = None
    with suppress(AssayError):
        found = trainers.aggregated(results)
    json.dumps(found, allow_nan=False)


@given(compile_s=st.floats(1e-9, 1e300), run_s=st.floats(1e-9, 1e300))
def test_no_caller_waits_longer_than_the_cap(compile_s: float, run_s: float) -> None:
    body = dict(BODIES["/v1/sandboxfusion/run_code"])
    body |= {"compile_timeout": compile_s, "run_timeout": run_s}
    message = sandbox_fusion_bodies.run_message(body)
    most = sandbox_fusion_bodies.WAIT_S + 2 * sandbox_fusion_bodies.TIME_S_MAX
    wait_s = json.loads(message.context)["wait_s"]
    assert sandbox_fusion_bodies.WAIT_S < wait_s <= most
    run = json.loads(message.requests[0].reference)
    assert run["cpu_s"] <= sandbox_fusion_bodies.TIME_S_MAX
    assert run["compile_cpu_s"] <= sandbox_fusion_bodies.TIME_S_MAX


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("memory_limit_MB", 2**40, "memory_limit_MB"),
        ("fetch_files", ["../x"], "fetch_files"),
        ("files", {"a": "no base64"}, "files"),
        ("stdin", 5, "stdin"),
    ],
)
def test_a_refusal_has_the_callers_own_word_for_the_field(
    field: str, value: Any, named: str
) -> None:
    body = {**BODIES["/v1/sandboxfusion/run_code"], field: value}
    with pytest.raises(InvalidRequest) as caught:
        validated(sandbox_fusion_bodies.run_message, json.dumps(body).encode())
    assert caught.value.field == named
