"""Adapters over gRPC, and weights in shared memory: what is activated is what was sent, or nothing.

Method: an engine of its own stages the same adapter from peft's files; tokens and log-probs are
compared bit by bit.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import os
import random
import struct
from typing import TYPE_CHECKING, Any, Final

import grpc
import pytest

pytest.importorskip("numpy")

from tests.rollout.engine.exact import random_model
from tests.rollout.service.pushing import pieces, serialized
from tests.rollout.service.served import SETTINGS
from tests.rollout.service.test_service import SAMPLED, prompts, take, weights_of
from tests.rollout.test_adapter_files import LORA, OFT, lora_arrays, oft_arrays, write_folder
from tests.seeds import drawn_seed

from assay.client.rollouts import RolloutGroup, Weight
from assay.client.rollouts.pushes import adapter_push, full_push
from assay.core.errors import FailedPrecondition, InvalidRequest, NotFound
from assay.core.tools.safetensors import Stored, packed
from assay.rollout import Runtime, RuntimeOptions, Sampling
from assay.rollout.models import Engine, read_adapter
from assay.rollout.service.weights import Pushes, PushSpec, WeightPart
from assay.rollout.service.weights.hand import ITEMS_AHEAD, Hand
from assay.v1 import rollout_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from tests.rollout.service.served import Rollouts, RunRollouts

PATIENCE_S = 240.0
MODEL = random_model("qwen3")
CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "lora": (LORA, lora_arrays(MODEL)),
    "rslora": ({**LORA, "use_rslora": True}, lora_arrays(MODEL)),
    "oft": (OFT, oft_arrays(MODEL)),
    "oft, Neumann": (
        {**OFT, "use_cayley_neumann": True, "num_cayley_neumann_terms": 5},
        oft_arrays(MODEL),
    ),
    "oft, exponential": ({**OFT, "oft_transform": "exponential"}, oft_arrays(MODEL)),
}


def tensors(arrays: Any) -> dict[str, Weight]:
    return {
        name: Weight(dtype="F32", shape=array.shape, data=array.tobytes())
        for name, array in arrays.items()
    }


def safetensors(weights: dict[str, Weight], path: Path, *, checksums: bool = True) -> str:
    stored = {
        name: Stored(weight.dtype, weight.shape, weight.data) for name, weight in weights.items()
    }
    sums = {f"sha256.{n}": hashlib.sha256(weight.data).hexdigest() for n, weight in weights.items()}
    path.write_bytes(packed(stored, sums if checksums else None))
    return path.name


def of(group: RolloutGroup) -> list[tuple[list[int], list[float]]]:
    return [(t.response_ids.tolist(), list(t.rollout_logp)) for t in group.trajectories]


def decoded_directly(folder: Path) -> list[tuple[list[int], list[float]]]:
    """Tokens and log-probs of prompt p0 by an engine that staged the folder itself."""
    with (
        Engine.create(MODEL, SETTINGS) as engine,
        Runtime(engine, slots=4, options=RuntimeOptions(seq_len_max=96)) as runtime,
    ):
        engine.stage_adapter(1, read_adapter(folder, MODEL.config))
        runtime.activate(1)
        runtime.submit(
            [1, 2, 3],
            max_tokens=12,
            seeds=range(3),
            sampling=Sampling(temperature=0.8),
            want_reward=False,
        )
        ended = sorted(runtime.drain(60.0), key=lambda one: one.user_id)
        return [(list(one.tokens), list(one.logps)) for one in ended]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("shared", [False, True])
async def test_an_adapter_that_is_pushed_decodes_as_peft_files_do_and_rolls_back(
    run_rollouts: RunRollouts, tmp_path: Path, case: str, shared: bool
) -> None:
    config, arrays = CASES[case]
    own = await run_rollouts(shared_dir=tmp_path)
    session = await own.client.open_session("s", sampling=SAMPLED)
    await session.submit(prompts(1))
    [before] = await take(session, 1)
    weights = tensors(arrays)
    if shared:
        name = safetensors(weights, tmp_path / "adapter.safetensors")
        pushed = await own.client.push_file(1, name, config=config, base_version=0)
    else:
        pushed = await own.client.push_adapter(1, config, weights, base_version=0)
    assert pushed.bytes == sum(len(w.data) for w in weights.values())
    assert await own.client.policy_version() == 0
    await own.client.activate(1)
    await session.submit(prompts(1))
    [after] = await take(session, 1)
    assert of(after) == decoded_directly(write_folder(tmp_path / "folder", config, arrays))
    assert of(after) != of(before)
    assert {v for t in after.trajectories for v, _ in t.policy_versions} == {1}
    await own.client.activate(0)
    await session.submit(prompts(1))
    [again] = await take(session, 1)
    assert of(again) == of(before)


async def test_tokens_before_and_after_an_adapter_are_of_one_rollout(
    run_rollouts: RunRollouts,
) -> None:
    config, arrays = CASES["lora"]
    own = await run_rollouts()
    session = await own.client.open_session("s", sampling=SAMPLED)
    held = await own.client.pause()
    await session.submit(prompts(4))
    await own.client.push_adapter(1, config, tensors(arrays))  # while nothing decodes
    await own.client.resume(held)
    await own.client.activate(1)
    for group in await take(session, 4):
        for one in group.trajectories:
            versions = [v for v, _ in one.policy_versions]
            assert versions == sorted(versions)
            assert set(versions) <= {0, 1}


def a(arrays: Any) -> str:
    return str(next(iter(arrays)))


BROKEN: dict[str, tuple[Any, str, Any]] = {
    "unknown tensor": (InvalidRequest, "unknown", lambda w: {**w, "other.weight": w[a(w)]}),
    "unknown layer": (
        InvalidRequest,
        "no such layer",
        lambda w: {**w, a(w).replace("layers.0", "layers.99"): w[a(w)]},
    ),
    "missing half": (InvalidRequest, "missing", lambda w: dict(list(w.items())[1:])),
    "missing module": (InvalidRequest, "target module", lambda w: dict(list(w.items())[2:])),
    "shape": (
        InvalidRequest,
        "shape",
        lambda w: {**w, a(w): Weight(dtype="F32", shape=(2, 2), data=b"\0" * 16)},
    ),
    "dtype": (
        InvalidRequest,
        "dtype",
        lambda w: {**w, a(w): Weight(dtype="I8", shape=w[a(w)].shape, data=w[a(w)].data)},
    ),
    "too long": (
        InvalidRequest,
        "more than",
        lambda w: {
            **w,
            a(w): Weight(dtype="F32", shape=w[a(w)].shape, data=bytes(w[a(w)].data) + b"1234"),
        },
    ),
    "cut": (
        (InvalidRequest, FailedPrecondition),
        "tensor",
        lambda w: {
            **w,
            a(w): Weight(dtype="F32", shape=w[a(w)].shape, data=bytes(w[a(w)].data)[:-4]),
        },
    ),
    "nan": (
        InvalidRequest,
        "finite",
        lambda w: {
            **w,
            a(w): Weight(
                dtype="F32",
                shape=w[a(w)].shape,
                data=struct.pack("<f", float("nan")) + bytes(w[a(w)].data)[4:],
            ),
        },
    ),
}


async def nothing_to_activate(own: Rollouts) -> None:
    with pytest.raises(FailedPrecondition):
        await own.client.activate(1)
    config, arrays = CASES["lora"]
    await own.client.push_adapter(1, config, tensors(arrays))  # and the next one is taken
    assert (await own.client.activate(1)).policy_version == 1


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("shared", [False, True])
async def test_a_wrong_adapter_is_named_and_leaves_nothing_to_activate(
    run_rollouts: RunRollouts, tmp_path: Path, how: str, shared: bool
) -> None:
    kind, said, change = BROKEN[how]
    config, arrays = CASES["lora"]
    own = await run_rollouts(shared_dir=tmp_path)
    weights = change(tensors(arrays))
    if shared:
        safetensors(weights, tmp_path / "f", checksums=False)
        pushing = own.client.push_file(1, "f", config=config)
    else:
        pushing = own.client.push_adapter(1, config, weights)
    with pytest.raises(kind) as refused:
        await pushing
    if not shared or how not in {"cut", "too long"}:
        assert said in str(refused.value)
    await nothing_to_activate(own)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({**LORA, "r": 5}, "shape"),
        ({**LORA, "use_dora": True}, "use_dora"),
        ({**LORA, "r": 0}, "rank"),
        ({**LORA, "r": 4.5}, "rank: a whole number"),
        ({**LORA, "r": "4"}, "rank: a number"),
        ({**LORA, "r": True}, "rank: a number"),
        ({**LORA, "lora_alpha": "16"}, "lora_alpha: a number"),
        ({**LORA, "lora_alpha": 1e40}, "finite scale"),
        ({**LORA, "use_rslora": "false"}, "use_rslora: true or false"),
        ({**OFT}, "lora_A"),
    ],
)
async def test_a_config_that_does_not_fit_is_refused(
    run_rollouts: RunRollouts, config: dict[str, Any], said: str
) -> None:
    own = await run_rollouts()
    with pytest.raises(InvalidRequest, match=said):
        await own.client.push_adapter(1, config, tensors(CASES["lora"][1]))
    await nothing_to_activate(own)


async def test_versions_and_checksums_of_a_push_are_checked(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    config, arrays = CASES["lora"]
    with pytest.raises(InvalidRequest) as refused:
        await own.client.push_adapter(1, config, tensors(arrays), base_version=7)
    assert refused.value.field == "base_version"
    with pytest.raises(InvalidRequest) as refused:  # version 0 is the model without an adapter
        await own.client.push_adapter(0, config, tensors(arrays))
    assert refused.value.field == "version"
    name, array = next(iter(arrays.items()))

    async def damaged() -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
        yield rollout_pb2.PushWeightsRequest(
            policy_version=1,
            kind=rollout_pb2.WEIGHTS_KIND_LORA,
            adapter=rollout_pb2.AdapterConfig(config_json=json.dumps(config)),
            tensor=rollout_pb2.TensorHead(
                name=name, dtype="F32", shape=array.shape, sha256="0" * 64
            ),
            data=array.tobytes(),
        )

    with pytest.raises(InvalidRequest, match="checksum"):
        await own.client._push(serialized(damaged()))
    with pytest.raises(InvalidRequest):
        await own.client.push_adapter(1, {"peft_type": "IA3"}, {})
    scattered = Weight(dtype="F32", shape=array.shape, data=array.T.data)
    with pytest.raises(InvalidRequest) as refused:  # gRPC would tell it as a cancellation
        await own.client.push_adapter(1, config, {name: scattered})
    assert refused.value.field == f"weights.{name}"
    await nothing_to_activate(own)


@pytest.mark.parametrize(
    "sizes",
    [
        {"together_bytes": 1, "piece_bytes": 1_000},  # rows are cut through
        {"together_bytes": 1},
        {},
    ],
    ids=["in pieces", "one tensor per message", "together"],
)
async def test_damage_of_any_message_of_whole_weights_is_found_by_its_crc_32(
    run_rollouts: RunRollouts, sizes: dict[str, int]
) -> None:
    own = await run_rollouts()
    weights = weights_of(1)
    count = len([one async for one in pieces(full_push(1, 0.0), weights, **sizes)])

    async def damaged(at: int) -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
        i = 0
        async for one in pieces(full_push(1, 0.0), weights, **sizes):
            if i == at:
                one.data = bytes([one.data[0] ^ 1]) + one.data[1:]
            i += 1
            yield one

    for at in {0, count // 2, count - 1}:
        with pytest.raises(InvalidRequest, match="CRC-32") as refused:
            await own.client._push(serialized(damaged(at)))
        assert refused.value.field == "data" or (refused.value.field or "").startswith("tensors.")
        with pytest.raises(FailedPrecondition):
            await own.client.activate(1)
    await own.client._push(serialized(damaged(count)))


PIECES: Final = {"together_bytes": 1, "piece_bytes": 1_000}


@pytest.mark.parametrize("checksums", [True, False])
async def test_messages_that_changed_places_are_doubled_or_missing_end_the_push(
    run_rollouts: RunRollouts, *, checksums: bool
) -> None:
    own, rng = await run_rollouts(), random.Random(drawn_seed())
    every = [
        one async for one in pieces(full_push(1, 0.0), weights_of(1), checksums=checksums, **PIECES)
    ]
    inner = [i for i, one in enumerate(every) if not one.HasField("tensor")]
    for _ in range(12):
        sent, (i, j) = list(every), sorted(rng.sample(inner, 2))
        match rng.choice(["swapped", "doubled", "missing", "moved"]):
            case "swapped":
                sent[i], sent[j] = sent[j], sent[i]
            case "doubled":
                sent.insert(j, sent[i])
            case "missing":
                del sent[i]
            case "moved":
                sent.insert(j, sent.pop(i))
        if sent == every:
            continue
        with pytest.raises(FailedPrecondition, match="is next") as refused:
            await own.client._push(serialized(in_turn(sent)))
        assert refused.value.field == "number"
        assert own.engine.ready_version is None
    await own.client._push(serialized(in_turn(every)))


async def test_bytes_with_their_checksum_at_another_place_are_found(
    run_rollouts: RunRollouts,
) -> None:
    """Of pieces of one tensor, and of two tensors of one shape: only the place differs."""
    own, rng = await run_rollouts(), random.Random(drawn_seed())
    every = [one async for one in pieces(full_push(1, 0.0), weights_of(1), **PIECES)]
    size = max(len(one.data) for one in every)
    whole = [i for i, one in enumerate(every) if len(one.data) == size]
    for _ in range(12):
        sent = [rollout_pb2.PushWeightsRequest.FromString(o.SerializeToString()) for o in every]
        i, j = rng.sample(whole, 2)
        for one, other in ((sent[i], every[j]), (sent[j], every[i])):
            one.data, one.data_crc32 = other.data, other.data_crc32
        with pytest.raises(InvalidRequest, match="CRC-32") as refused:
            await own.client._push(serialized(in_turn(sent)))
        assert (refused.value.field or "").startswith("tensors.")
        assert own.engine.ready_version is None


async def in_turn(
    messages: Sequence[rollout_pb2.PushWeightsRequest],
) -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
    for one in messages:
        yield one


async def test_damage_of_an_adapter_is_found_by_its_crc_32(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    config, arrays = CASES["lora"]

    async def damaged() -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
        async for one in pieces(adapter_push(1, config, None, 0.0), tensors(arrays)):
            one.data_crc32 ^= 1
            yield one

    with pytest.raises(InvalidRequest, match="CRC-32") as refused:
        await own.client._push(serialized(damaged()))
    assert refused.value.field == "data"
    await nothing_to_activate(own)


def lora_head(name: str, shape: tuple[int, ...], **more: Any) -> rollout_pb2.TensorHead:
    return rollout_pb2.TensorHead(name=name, dtype="F32", shape=shape, **more)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ("too few bytes", "data"),
        ("too many bytes", "data"),
        ("a checksum", "tensors.{last}"),
        ("a dtype", "tensors.{last}"),
        ("a shape", "tensors.{last}"),
        ("a negative shape", "tensors.{last}"),
        ("a scalar", "tensors[1].shape"),
        ("a name twice", "tensors.{first}"),
        ("an unknown name", "tensors.no.such"),
        ("a tensor of its own too", "tensors"),
        ("another tensor has not ended", "tensor"),
    ],
)
async def test_tensors_that_come_together_are_checked_one_by_one(
    run_rollouts: RunRollouts, wrong: str, field: str
) -> None:
    own = await run_rollouts()
    config, arrays = CASES["lora"]
    (first, a), (last, b) = list(arrays.items())[:2]
    heads = [lora_head(first, a.shape), lora_head(last, b.shape)]
    data = a.tobytes() + b.tobytes()
    message = adapter_push(1, config, None, 0.0)
    before: list[rollout_pb2.PushWeightsRequest] = []
    if wrong.startswith("too"):
        data = data[:-1] if wrong == "too few bytes" else data + b"\0"
    elif wrong == "a checksum":
        heads[1].sha256 = "0" * 64
    elif wrong == "a dtype":
        heads[1].dtype = "I8"
    elif wrong in {"a shape", "a negative shape", "a scalar"}:
        sizes = {
            "a shape": (b.size,),
            "a negative shape": (-b.shape[0], -b.shape[1]),
            "a scalar": (),
        }
        heads[1] = lora_head(last, sizes[wrong])
    elif wrong == "a name twice":
        heads, data = [heads[0], heads[0]], 2 * a.tobytes()
    elif wrong == "an unknown name":
        heads[1].name = "no.such"
    elif wrong == "a tensor of its own too":
        message.tensor.CopyFrom(heads[0])
    else:
        message.tensor.CopyFrom(heads[0])
        message.data = a.tobytes()[:-1]
        before, message = [message], rollout_pb2.PushWeightsRequest()
    message.tensors.extend(heads)
    message.data = data

    async def sent() -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
        for one in (*before, message):
            yield one

    with pytest.raises((InvalidRequest, FailedPrecondition)) as refused:
        await own.client._push(serialized(sent()))
    assert refused.value.field == field.format(first=first, last=last)
    await nothing_to_activate(own)


@pytest.mark.parametrize("kind", ["full", "lora"])
@pytest.mark.parametrize("ending", ["ends", "is cut"])
async def test_a_push_that_stops_after_any_message_leaves_nothing_to_activate(
    run_rollouts: RunRollouts, kind: str, ending: str
) -> None:
    own = await run_rollouts()
    config, arrays = CASES["lora"]
    config = {**config, "target_modules": sorted({name.split(".")[-3] for name in arrays})}
    weights = tensors(arrays) if kind == "lora" else weights_of(1)
    sizes = {"together_bytes": max(len(one.data) for one in weights.values()) // 2}
    sizes["piece_bytes"] = sizes["together_bytes"]

    def opening() -> rollout_pb2.PushWeightsRequest:
        return adapter_push(1, config, None, 0.0) if kind == "lora" else full_push(1, 0.0)

    every = [one async for one in pieces(opening(), weights, **sizes)]
    assert len(every) > 5
    assert any(not one.HasField("tensor") and not one.tensors for one in every)

    for n in range(1, len(every)):
        sent = asyncio.Event()

        async def first_ones(n: int = n, sent: asyncio.Event = sent) -> AsyncIterator[Any]:
            for one in every[:n]:
                yield one
            sent.set()
            if ending == "is cut":
                await asyncio.Event().wait()

        call = own.client._stub.PushWeights(first_ones())
        if ending == "is cut":
            await sent.wait()
            call.cancel()
        with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
            await call
        with pytest.raises(FailedPrecondition):
            await own.client.activate(1)
    await taken(own, kind, config, weights)
    assert (await own.client.activate(1)).policy_version == 1


async def taken(own: Rollouts, kind: str, config: dict[str, Any], weights: Any) -> None:
    """Push it whole, as soon as the one that was cut is over."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                if kind == "lora":
                    await own.client.push_adapter(1, config, weights)
                else:
                    await own.client.push_weights(1, weights)
            except FailedPrecondition:
                await asyncio.sleep(0.01)
            else:
                return


async def test_one_push_at_a_time(run_rollouts: RunRollouts) -> None:
    own = await run_rollouts()
    begun = asyncio.Event()
    config, arrays = CASES["lora"]
    opening = adapter_push(1, config, None, 0.0)

    async def half() -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
        every = [piece async for piece in pieces(opening, tensors(arrays))]
        yield every[0]
        begun.set()
        await asyncio.Event().wait()

    # An adapter is staged when all of it is there: until then the engine knows nothing of it.
    call = own.client._stub.PushWeights(half())
    await begun.wait()
    async with asyncio.timeout(PATIENCE_S):
        while await is_taken(own, config, arrays):
            await asyncio.sleep(0.01)
        assert not own.engine._staging.locked()
        call.cancel()
        while not await is_taken(own, config, arrays):
            await asyncio.sleep(0.01)


def test_the_staging_thread_may_take_the_last_tensor_while_its_hand_is_emptied() -> None:
    hand = Hand()
    hand._items.empty = lambda: False  # type: ignore[method-assign] # looked too early
    hand.drain()
    hand.give(None, 0)
    assert list(hand.tensors()) == []


def test_staging_that_is_too_slow_for_its_share_names_it() -> None:
    hand = Hand()
    for _ in range(ITEMS_AHEAD):
        hand.give(None, 0)
    with pytest.raises(FailedPrecondition) as late:
        hand.give(None, 0)
    assert late.value.field == "core_share_max"


async def test_a_push_that_is_cancelled_twice_leaves_no_error_without_a_reader(
    run_rollouts: RunRollouts,
) -> None:
    """The second one, as of a server that stops, comes while the staging thread still ends."""
    own = await run_rollouts()
    unread: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, said: unread.append(said))

    async def begun() -> AsyncIterator[WeightPart]:
        yield WeightPart(push=PushSpec(version=1))
        await asyncio.Event().wait()

    for _ in range(5):
        pushing = asyncio.create_task(Pushes(own.engine).receive(begun()))
        async with asyncio.timeout(PATIENCE_S):
            while not own.engine._staging.locked():
                await asyncio.sleep(0)
            pushing.cancel()
            await asyncio.sleep(0)
            pushing.cancel()
            await asyncio.wait([pushing])
            while own.engine._staging.locked():
                await asyncio.sleep(0)
        del pushing
        await asyncio.to_thread(lambda: None)
        gc.collect()
    assert not unread


async def is_taken(own: Rollouts, config: dict[str, Any], arrays: Any) -> bool:
    try:
        await own.client.push_adapter(1, config, tensors(arrays))
    except FailedPrecondition:
        return False
    return True


async def test_a_silent_sender_keeps_no_other_out(
    run_rollouts: RunRollouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.rollout.service.weights.push.SILENT_S_MAX", 0.2)
    own = await run_rollouts()
    config, arrays = CASES["lora"]

    async def silent() -> AsyncIterator[rollout_pb2.PushWeightsRequest]:
        yield adapter_push(1, config, None, 0.0)
        await asyncio.Event().wait()

    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await own.client._stub.PushWeights(silent())
    assert "no message" in str(ended.value.details())
    assert await is_taken(own, config, arrays)


@pytest.mark.parametrize(
    ("named", "field"),
    [
        ({"version": -1}, "policy_version"),
        ({"version": 1 << 32}, "policy_version"),
        ({"version": 1, "core_share_max": float("nan")}, "core_share_max"),
        ({"version": 1, "core_share_max": -0.5}, "core_share_max"),
        ({"version": 1, "core_share_max": 2.0}, "core_share_max"),
    ],
)
async def test_the_head_of_a_push_is_checked_before_its_tensors(
    run_rollouts: RunRollouts, named: dict[str, Any], field: str
) -> None:
    own = await run_rollouts()
    config, _ = CASES["lora"]
    unknown = {"no.such.tensor": Weight(dtype="F32", shape=(1, 1), data=b"\0\0\0\0")}
    for pushing in (
        own.client.push_adapter(config=config, weights=unknown, **named),
        own.client.push_weights(weights=unknown, **named),
    ):
        with pytest.raises(InvalidRequest) as refused:
            await pushing
        assert refused.value.field == field


# -- shared memory ---------------------------------------------------------------------------------
async def test_whole_weights_come_by_shared_memory(
    run_rollouts: RunRollouts, tmp_path: Path
) -> None:
    own = await run_rollouts(shared_dir=tmp_path)
    whole = weights_of(1)
    name = safetensors(whole, tmp_path / "step-1.safetensors")
    by_file = await own.client.push_file(1, name)
    by_messages = await own.client.push_weights(1, whole)
    assert by_file.digest == by_messages.digest
    assert by_file.bytes == by_messages.bytes
    assert (await own.client.activate(1)).policy_version == 1


async def test_only_files_of_the_folder_are_read(run_rollouts: RunRollouts, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    whole = weights_of(1)
    safetensors(whole, tmp_path / "outside")
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "empty").write_bytes(b"")
    (folder / "long").write_bytes(struct.pack("<Q", 1 << 40))
    (folder / "text").write_bytes(struct.pack("<Q", 2) + b"[]")
    own = await run_rollouts(shared_dir=folder)
    wrong = ["../outside", "link", "folder", "pipe", "empty", "long", "text", ".", "..", "a/b"]
    for name in [*wrong, str(tmp_path / "outside")]:
        with pytest.raises(InvalidRequest) as refused:
            await own.client.push_file(1, name)
        assert refused.value.field == "shared_file", name
    with pytest.raises(NotFound):
        await own.client.push_file(1, "absent")
    closed = await run_rollouts()
    with pytest.raises(FailedPrecondition):
        await closed.client.push_file(1, "outside")


async def test_a_file_that_is_cut_or_damaged_leaves_nothing_to_activate(
    run_rollouts: RunRollouts, tmp_path: Path
) -> None:
    own = await run_rollouts(shared_dir=tmp_path)
    path = tmp_path / "file"
    safetensors(weights_of(1), path)
    good = path.read_bytes()
    for bad in (good[:-100], good[:-1] + bytes([good[-1] ^ 1])):
        path.write_bytes(bad)
        with pytest.raises(InvalidRequest):
            await own.client.push_file(1, "file")
    await nothing_to_activate(own)
