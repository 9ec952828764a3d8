"""Adapters of one form, pushed one after the other: each is taken as if it came alone.

Method: pushes drawn at random, sound and spoilt, go to one receiver in turn, which remembers the
form of the last one, and each to a receiver of its own. Digests and errors have to be the same.
Then tokens: of the second adapter of a form, beside an engine that staged its files.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rollout.service.served import SETTINGS
from tests.rollout.service.test_push_messages import part_of
from tests.rollout.service.test_pushes import (
    MODEL,
    decoded_directly,
    of,
    safetensors,
    tensors,
)
from tests.rollout.service.test_service import SAMPLED, prompts, take
from tests.rollout.test_adapter_files import LORA, OFT, lora_arrays, oft_arrays, write_folder

from assay.client.rollouts.pushes import TOGETHER_BYTES, adapter_push, bodies
from assay.core.errors import AssayError
from assay.rollout.models import Engine
from assay.rollout.service.weights import Pushes
from assay.rollout.service.weights import push as pushing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from tests.rollout.service.served import RunRollouts

    from assay.client.rollouts import Weight
    from assay.rollout.service.weights import WeightPart

CONFIGS: list[dict[str, Any]] = [
    LORA,
    {**LORA, "lora_alpha": 3},
    {**LORA, "use_rslora": True},
    {**LORA, "r": 3},
    {**LORA, "target_modules": ["q_proj"]},
    OFT,
    {**OFT, "oft_transform": "exponential"},
]
ARRAYS = {"LORA": lora_arrays(MODEL), "OFT": oft_arrays(MODEL)}
SPOILT = (
    *("", "order", "a name", "missing", "transposed", "half", "infinite", "a sum"),
    *("a right sum", "a bit", "a byte less", "two messages", "unaligned", "one tensor"),
)


def arrays_of(config: dict[str, Any], factor: float) -> dict[str, Any]:
    return {name: array * np.float32(factor) for name, array in ARRAYS[config["peft_type"]].items()}


def spoilt(weights: dict[str, Weight], how: str, at: int) -> dict[str, Weight]:
    names = list(weights)
    name = names[at % len(names)]
    one = weights[name]
    if how == "order":
        return {name: one, **weights}
    if how == "a name":
        return {n.replace("lora_A", "lora_C") if n == name else n: w for n, w in weights.items()}
    if how == "missing":
        return {n: w for n, w in weights.items() if n != name}
    if how == "one tensor":
        return {name: one}
    if how == "transposed":
        one = replace(one, shape=tuple(reversed(one.shape)))
    elif how == "half":
        half = np.frombuffer(one.data, np.float32).astype(np.float16)
        one = replace(one, dtype="F16", data=half.tobytes())
    elif how == "infinite":
        one = replace(one, data=b"\0\0\x80\x7f" + bytes(one.data)[4:])
    return {**weights, name: one}


async def parts_of(
    version: int, config: dict[str, Any], weights: dict[str, Weight], how: str
) -> list[WeightPart]:
    together = 3_000 if how == "two messages" else TOGETHER_BYTES
    first = adapter_push(version, config, None, 0.0)
    found = [part_of(body) async for body in bodies(first, weights, together_bytes=together)]
    if how in {"a bit", "a byte less"}:
        data = bytearray(found[-1].data)
        data[-1] ^= 1
        found[-1] = replace(found[-1], data=bytes(data[: len(data) - (how != "a bit")]))
    elif how in {"a sum", "a right sum"} and found[0].together:
        heads, sent = found[0].together, found[0].data
        right = hashlib.sha256(sent[: heads[0].size]).hexdigest().upper()
        first_head = heads[0]._replace(sha256=right if how == "a right sum" else "0" * 64)
        found[0] = replace(found[0], together=(first_head, *heads[1:]))
    elif how == "unaligned":
        found[-1] = replace(found[-1], data=memoryview(b"\0" + bytes(found[-1].data))[1:])
    return found


def outcome(pushes: Pushes, parts: list[WeightPart]) -> tuple[object, ...]:
    async def sent() -> AsyncIterator[WeightPart]:
        for one in parts:
            yield one

    try:
        staged = asyncio.run(pushes.receive(sent())).weights
    except AssayError as error:
        return type(error), error.field, error.message
    return staged.version, staged.digest, staged.bytes


def check_each(drawn: Sequence[tuple[dict[str, Any], float, str, int]]) -> None:
    with Engine.create(MODEL, SETTINGS) as one, Engine.create(MODEL, SETTINGS) as other:
        remembering = Pushes(one)
        for version, (config, factor, how, at) in enumerate(drawn, 1):
            weights = spoilt(tensors(arrays_of(config, factor)), how, at)
            parts = asyncio.run(parts_of(version, config, weights, how))
            alone = outcome(Pushes(other), parts)
            assert outcome(remembering, parts) == alone


@pytest.mark.parametrize("config", [LORA, OFT], ids=["lora", "oft"])
@pytest.mark.parametrize("how", SPOILT)
def test_a_push_of_the_form_of_the_last_one_has_the_outcome_that_it_has_alone(
    config: dict[str, Any], how: str
) -> None:
    check_each([(config, 1.0, "", 0), (config, 2.0, how, 3), (config, 1.0, "", 0)])


@given(
    drawn=st.lists(
        st.tuples(
            st.sampled_from(CONFIGS),
            st.sampled_from([1.0, -0.5, 2.0]),
            st.sampled_from((*4 * ("",), *SPOILT)),
            st.integers(0, 40),
        ),
        min_size=2,
        max_size=8,
    )
)
@settings(max_examples=40)
def test_whatever_was_pushed_before_a_push_has_the_outcome_that_it_has_alone(
    drawn: list[tuple[dict[str, Any], float, str, int]],
) -> None:
    check_each(drawn)


@pytest.mark.parametrize("config", [LORA, OFT], ids=["lora", "oft"])
@pytest.mark.parametrize("shared", [False, True])
async def test_the_next_adapter_of_a_form_is_taken_by_that_and_decodes_as_its_files_do(
    run_rollouts: RunRollouts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: dict[str, Any],
    shared: bool,
) -> None:
    own = await run_rollouts(shared_dir=tmp_path)
    session = await own.client.open_session("s", sampling=SAMPLED)

    async def pushed(version: int, arrays: dict[str, Any]) -> None:
        if shared:
            name = safetensors(tensors(arrays), tmp_path / "adapter.safetensors")
            await own.client.push_file(version, name, config=config, activate="in_place")
        else:
            weights = tensors(arrays)
            await own.client.push_adapter(version, config, weights, activate="in_place")

    await pushed(1, arrays_of(config, 2.0))
    monkeypatch.setattr(pushing, "adapter_of", None)  # from here on, the form is all there is
    arrays = arrays_of(config, -0.5)
    await pushed(2, arrays)
    await session.submit(prompts(1))
    [group] = await take(session, 1)
    assert of(group) == decoded_directly(write_folder(tmp_path / "folder", config, arrays))
