"""What a caller with a token can do to the calls of the rollout service, each from a seed.

An attack returns the errors that it was answered with; all of them have to be typed and to name a
field. None of them changes weights in use, so that what other sessions generate stays the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import grpc
from tests.rollout.service.pushing import pieces
from tests.rollout.service.served import SLOTS, TOKENS_MAX
from tests.rollout.service.test_service import weights_of

from assay.client.failures import error_of
from assay.client.rollouts.pushes import full_push
from assay.v1 import rollout_pb2 as pb

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from assay.core.errors import AssayError

STAGED_NEVER: Final = 4_000
TURNS_MAX: Final = 40
SECONDS_MAX: Final = 60.0
ONE: Final = struct.pack("<i", 1)
LEFT: Final = "left"
"""The pause of a caller that does not wait for the answer."""
NAMES: Final = ("a", "b")
"""Of the attacker's sessions."""


@dataclass(slots=True)
class Attacker:
    """One caller: its stub, what it shows, and its numbers."""

    stub: Any
    channel: Any
    metadata: Any
    rng: random.Random
    vocab_size: int
    victim: str
    """Name of another tenant's session."""
    said: list[tuple[str, AssayError]]

    async def ask(self, name: str, message: Any) -> Any:
        """One call; `None` if it is refused."""
        try:
            return await getattr(self.stub, name)(message, metadata=self.metadata)
        except grpc.aio.AioRpcError as failed:
            self.said.append((f"{name} {str(message)[:300]}", error_of(failed)))
        return None

    async def read(self, seconds: float = 0.05, **request: Any) -> list[Any]:
        """What a stream of groups has within this time."""
        call = self.stub.StreamGroups(pb.StreamGroupsRequest(**request), metadata=self.metadata)
        found = []
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while (page := await call.read()) is not grpc.aio.EOF:
                        found.append(page)
        except grpc.aio.AioRpcError as failed:
            if failed.code() is not grpc.StatusCode.CANCELLED:
                self.said.append((f"StreamGroups {request}", error_of(failed)))
        call.cancel()
        return found

    async def push(self, sent: Sequence[Any], what: str) -> None:
        """A push of these messages, which must not be staged."""

        async def all_of_them() -> AsyncIterator[Any]:
            for one in sent:
                await asyncio.sleep(0)
                yield one

        try:
            answer = await self.stub.PushWeights(all_of_them(), metadata=self.metadata)
        except grpc.aio.AioRpcError as failed:
            self.said.append((f"PushWeights {what}", error_of(failed)))
            return
        message = f"staged although {what}: {answer}"
        raise AssertionError(message)

    async def leave(self, call: Any) -> None:
        """Cancel a call after some turns of the loop."""
        for _ in range(self.rng.randrange(TURNS_MAX)):
            await asyncio.sleep(0)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
            await call


def session(name: str, **more: Any) -> pb.OpenSessionRequest:
    made = pb.Session(session_id=name, **more)
    made.sampling.max_tokens = 8
    return pb.OpenSessionRequest(session=made)


def prompt(n: int, **more: Any) -> pb.Prompt:
    return pb.Prompt(**{"group_id": f"g{n}", "prompt_ids": ONE, "k": 2, "seed": n, **more})


def submission(name: str, *prompts: pb.Prompt) -> pb.SubmitPromptsRequest:
    return pb.SubmitPromptsRequest(session_id=name, prompts=prompts)


async def opens_twice(by: Attacker) -> None:
    """The same session, and others of its name, at once: one of them is open."""
    mine = [session("a"), session("a", minority_min=3)] * 3
    by.rng.shuffle(mine)
    answers = await asyncio.gather(*(by.ask("OpenSession", one) for one in mine))
    opened = [answer for answer in answers if answer is not None]
    assert len({one.session.minority_min for one in opened}) == 1
    assert sum(one.created for one in opened) == 1


async def closes_twice(by: Attacker) -> None:
    """A session is closed by several calls while it is read and written."""
    await by.ask("OpenSession", session("b"))
    await by.ask("SubmitPrompts", submission("b", *(prompt(n) for n in range(9))))
    reading = asyncio.create_task(by.read(SECONDS_MAX, session_id="b"))
    await asyncio.sleep(0)
    closing = [by.ask("CloseSession", pb.CloseSessionRequest(session_id="b")) for _ in range(3)]
    answers = await asyncio.gather(*closing, by.ask("SubmitPrompts", submission("b", prompt(99))))
    assert sum(answer is not None for answer in answers[:3]) == 1
    await reading


async def sends_bad_prompts(by: Attacker) -> None:
    """One field of one of two prompts is wrong: none is accepted."""
    await by.ask("OpenSession", session("a"))
    nan, inf = math.nan, math.inf
    ids = [by.vocab_size, -1, (1 << 31) - 1, -(1 << 31)]
    sampled: list[dict[str, Any]] = [{"temperature": t} for t in (nan, inf, -inf, -1.0)]
    sampled += [{"top_p": p} for p in (nan, inf, 0.0, -0.5, 1.5)] + [{"min_p": nan}, {"top_k": -1}]
    sampled += [{"max_tokens": n} for n in (0, -1, TOKENS_MAX + 1, (1 << 31) - 1)]
    sampled += [{"stop_ids": [one]} for one in ids] + [{"stop_ids": [1] * 10_000}]
    sampled += [{"stop_strings": [one]} for one in (b"", b"x" * 100_000)]
    bad: list[dict[str, Any]] = [{"k": k} for k in (0, -1, SLOTS + 1, (1 << 31) - 1)]
    bad += [{"prompt_ids": struct.pack("<i", one)} for one in ids]
    bad += [{"prompt_ids": b""}, {"prompt_ids": b"\1\2\3"}, {"prompt_ids": ONE * TOKENS_MAX}]
    bad += [{"group_id": name} for name in ("", " ", "x" * 257, "\n", "\u00e9")]
    bad += [{"sampling": pb.Sampling(**one)} for one in sampled]
    bad += [{"continues": "none", "prompt_ids": b"", "turns": [pb.NextTurn(member=0)], "k": 1}]
    bad += [{"turns": [pb.NextTurn()]}, {"text": "x", "prompt_ids": b""}, {"batch_id": " "}]
    bad += [{"reference_json": one} for one in (b"[]", b"{", b"\xff", b"x" * (1 << 21))]
    before = len(by.said)
    for wrong in by.rng.sample(bad, 12):
        both = [prompt(1), prompt(2, **wrong)]
        by.rng.shuffle(both)
        assert await by.ask("SubmitPrompts", submission("a", *both)) is None, wrong
    assert len(by.said) - before == 12
    many = submission("a", *[prompt(1)] * 10_000)
    assert await by.ask("SubmitPrompts", many) is None
    assert by.said[-1][1].field == "prompts"
    many = pb.SubmitPromptsRequest(session_id="a", batches=[pb.RewardBatch(batch_id="b")] * 9_999)
    assert await by.ask("SubmitPrompts", many) is None
    assert not await by.read(session_id="a"), "something was stored"


async def says_unknown_words(by: Attacker) -> None:
    """Values that no enum has."""
    calls: list[tuple[str, Any]] = [
        ("OpenSession", session("b", stale_groups=99)),
        ("OpenSession", session("b", at_activation=-1)),
        ("Pause", pb.PauseRequest(mode=by.rng.choice([-1, 99]))),  # type: ignore[arg-type]
        ("Activate", pb.ActivateRequest(mode=99)),  # type: ignore[arg-type]
    ]
    for name, message in calls:
        assert await by.ask(name, message) is None
    for wrong in (
        pb.PushWeightsRequest(policy_version=1, kind=99),  # type: ignore[arg-type]
        pb.PushWeightsRequest(policy_version=1, activate=99),  # type: ignore[arg-type]
    ):
        await by.push([wrong], "an unknown word")


async def reads_from_elsewhere(by: Attacker) -> None:
    """Positions of the future, of another session, and below the first."""
    await by.ask("OpenSession", session("a"))
    await by.ask("OpenSession", session("b"))
    await by.ask("SubmitPrompts", submission("a", *(prompt(n) for n in range(4))))
    pages: list[Any] = []
    async with asyncio.timeout(SECONDS_MAX):
        while sum(len(page.groups) for page in pages) < 4:
            pages = await by.read(session_id="a")
    before = len(by.said)
    last = pages[-1].cursor
    for at in (last + 1, (1 << 63) - 1, -1):
        for name in ("cursor", "after"):
            assert not await by.read(session_id="a", **{name: at})
    assert not await by.read(session_id="b", cursor=last)
    assert not await by.read(session_id=by.victim)
    request = pb.SubmitPromptsRequest(session_id="b", acknowledged=last)
    assert await by.ask("SubmitPrompts", request) is None
    assert len(by.said) - before == 9
    assert [group for page in await by.read(session_id="a") for group in page.groups]


async def cancels_what_ended(by: Attacker) -> None:
    """Groups that ended, that were acknowledged, that never were."""
    await by.ask("OpenSession", session("a"))
    await by.ask("SubmitPrompts", submission("a", *(prompt(n) for n in range(6))))
    for _ in range(by.rng.randrange(3)):
        await by.read(session_id="a")
    some = [["g1"], ["g1", "g1", "none"], [], ["x" * 1_000] * 50]
    for names in some:
        request = pb.CancelRolloutsRequest(session_id="a", group_ids=names)
        assert await by.ask("CancelRollouts", request) is not None
    async with asyncio.timeout(SECONDS_MAX):
        while sum(len(page.groups) for page in await by.read(session_id="a")) < 6:
            pass
    answer = await by.ask("CancelRollouts", pb.CancelRolloutsRequest(session_id="a"))
    assert answer.rollouts == 0


async def asks_for_anothers(by: Attacker) -> None:
    """The session of another tenant is not there."""
    before = len(by.said)
    named: dict[str, Any] = {"session_id": by.victim}
    await by.ask("SubmitPrompts", submission(by.victim, prompt(1)))
    await by.ask("CancelRollouts", pb.CancelRolloutsRequest(**named))
    await by.ask("CloseSession", pb.CloseSessionRequest(**named))
    await by.read(**named)
    assert [error.field for _, error in by.said[before:]] == ["session_id"] * 4
    status = await by.ask("GetStatus", pb.GetStatusRequest(rollouts=True))
    assert by.victim not in {one.session_id for one in status.rollouts}


async def activates_nothing(by: Attacker) -> None:
    """Versions that were never staged, in each mode, while the engine is paused."""
    held = await by.ask("Pause", pb.PauseRequest(mode=pb.PAUSE_MODE_IN_PLACE))
    for mode in (0, 1, 2, 3):
        request = pb.ActivateRequest(policy_version=STAGED_NEVER + mode, mode=mode)  # type: ignore[arg-type]
        assert await by.ask("Activate", request) is None
    for gone in ("", "none", " ", "x" * 999):
        assert await by.ask("Continue", pb.ContinueRequest(pause_id=gone)) is None
    assert await by.ask("Continue", held) is not None
    assert await by.ask("Continue", held) is None


async def _messages() -> list[Any]:
    """A whole push in many messages; checksums of tensors see the order of pieces."""
    weights = weights_of(1)
    divided = pieces(full_push(STAGED_NEVER, 0.0), weights, together_bytes=1, piece_bytes=5_000)
    every = [one async for one in divided]
    for one in every:
        if one.HasField("tensor"):
            one.tensor.sha256 = hashlib.sha256(weights[one.tensor.name].data).hexdigest()
    return every


def _spoilt(every: list[Any], rng: random.Random) -> tuple[list[Any], str]:
    """Messages of a push with one thing wrong, and what."""
    at = rng.randrange(1, len(every) - 1)
    one = every[at]
    kind = rng.choice(sorted(SPOIL))
    if kind == "order":
        every[at], every[at + 1] = every[at + 1], every[at]
    elif kind == "twice":
        every.insert(at, one)
    elif kind == "missing":
        del every[at]
    elif kind == "cut":
        del every[at + 1 :]
    elif kind == "adapter":
        every[0].kind = pb.WEIGHTS_KIND_LORA
        every[0].adapter.config_json = rng.choice(["", "[]", "{", '{"r": 1e999}'])
    elif kind == "file":
        name = rng.choice(["../x", "/etc/passwd", "none", "x" * 5_000])
        every[:] = [pb.PushWeightsRequest(policy_version=STAGED_NEVER, shared_file=name)]
    elif kind == "version":
        every[0].policy_version = rng.choice([-1, 1 << 32, 1 << 62])
    elif kind == "share":
        every[0].core_share_max = rng.choice([math.nan, -1.0, 2.0, math.inf])
    elif kind == "sum":
        one.data_crc32 ^= 1
    else:
        heads = [m for m in every if m.HasField("tensor")]
        SPOIL[kind](rng.choice(heads))
    return every, kind


def _both(one: Any) -> None:
    one.tensors.add().CopyFrom(one.tensor)


SPOIL: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(
        ("order", "twice", "missing", "cut", "adapter", "file", "version", "share", "sum"), str
    ),
    "name": lambda one: setattr(one.tensor, "name", one.tensor.name + ".x"),
    "dtype": lambda one: setattr(one.tensor, "dtype", "F64"),
    "rank": lambda one: one.tensor.shape.extend([1, 1, 1, 1]),
    "none": lambda one: one.tensor.ClearField("shape"),
    "shape": lambda one: one.tensor.shape.__setitem__(0, one.tensor.shape[0] + 1),
    "zero": lambda one: one.tensor.shape.__setitem__(0, 0),
    "below": lambda one: one.tensor.shape.__setitem__(0, -one.tensor.shape[0]),
    "hash": lambda one: setattr(one.tensor, "sha256", "0" * 64),
    "more": lambda one: setattr(one, "data", one.data + b"\0"),
    "both": _both,
}


async def pushes_wrong(by: Attacker) -> None:
    """A push with one thing wrong."""
    await by.push(*_spoilt(await _messages(), by.rng))


async def pushes_two_at_once(by: Attacker) -> None:
    """Two pushes of which neither is whole: they do not become one."""
    every = await _messages()
    second = next(i for i, one in enumerate(every) if i > len(every) // 2 and one.tensor.name)
    other = [pb.PushWeightsRequest(policy_version=STAGED_NEVER), *every[second:]]
    await asyncio.gather(by.push(every[:second], "half"), by.push(other, "the other half"))


async def sends_no_message(by: Attacker) -> None:
    """Bytes that are not messages."""
    for name in (
        "OpenSession",
        "SubmitPrompts",
        "CancelRollouts",
        "Pause",
        "Activate",
        "GetStatus",
    ):
        call = by.channel.unary_unary(f"/assay.v1.RolloutService/{name}")
        junk = by.rng.choice([b"\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x00" * 9, b"\x0a\x05ab"])
        try:
            await call(junk, metadata=by.metadata)
        except grpc.aio.AioRpcError as failed:
            by.said.append((f"{name} {junk!r}", error_of(failed)))
        else:
            raise AssertionError(name)


async def vanishes(by: Attacker) -> None:
    """Each call, left at any moment."""
    await by.ask("OpenSession", session("a"))
    await by.ask("SubmitPrompts", submission("a", *(prompt(n) for n in range(9))))
    every = await _messages()

    async def stalled() -> AsyncIterator[Any]:
        for one in every[: by.rng.randrange(len(every))]:
            yield one
        await asyncio.Event().wait()

    mode: Any = by.rng.choice([1, 2, 3])
    stub, shown = by.stub, {"metadata": by.metadata}
    calls: list[Callable[[], Any]] = [
        lambda: stub.OpenSession(session("b"), **shown),
        lambda: stub.SubmitPrompts(submission("a", prompt(77)), **shown),
        lambda: stub.StreamGroups(pb.StreamGroupsRequest(session_id="a"), **shown),
        lambda: stub.CancelRollouts(pb.CancelRolloutsRequest(session_id="a"), **shown),
        lambda: stub.PushWeights(stalled(), **shown),
        lambda: stub.Activate(pb.ActivateRequest(mode=mode), **shown),
        lambda: stub.GetStatus(pb.GetStatusRequest(rollouts=True), **shown),
        lambda: stub.StreamTrace(pb.StreamTraceRequest(), **shown),
        lambda: stub.Pause(pb.PauseRequest(mode=2, pause_id=LEFT), **shown),  # type: ignore[arg-type]
        lambda: stub.KeepPaused(pb.KeepPausedRequest(pause_id=LEFT), **shown),
        lambda: stub.CloseSession(pb.CloseSessionRequest(session_id="a"), **shown),
    ]
    for make in by.rng.sample(calls, len(calls)):
        made = make()
        is_stream = isinstance(made, grpc.aio.UnaryStreamCall)
        await by.leave(asyncio.ensure_future(made.read()) if is_stream else made)
        made.cancel()  # `read` may not have begun, and an unread message keeps a call open


ATTACKS: Final[Sequence[Callable[[Attacker], Awaitable[None]]]] = (
    opens_twice,
    closes_twice,
    sends_bad_prompts,
    says_unknown_words,
    reads_from_elsewhere,
    cancels_what_ended,
    asks_for_anothers,
    activates_nothing,
    pushes_wrong,
    pushes_two_at_once,
    sends_no_message,
    vanishes,
)


async def done_with(by: Attacker) -> None:
    """Its sessions are closed."""
    stub = replace(by, said=[])
    for name in NAMES:
        await stub.ask("CloseSession", pb.CloseSessionRequest(session_id=name))
