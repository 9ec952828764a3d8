"""A remote engine in front of servers that lie: whatever they send, each rollout ends, and no token
counts that no model made.

The server answers as Assay's does, except where a test has it lie. Lies are written out, or an
honest event is spoilt at a random place with a value that JSON can hold.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from tests.rollout.serving import serving
from tests.seeds import drawn_seed

from assay.rollout import Completed, RolloutOutcome
from assay.rollout.errors import ServerLost, ServerRefused
from assay.rollout.remote import AssayServer, RemoteEngine, RemoteOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

VOCAB, TOKENS, SLOTS = 50, 6, 4
BOOT = "boot"
OPTIONS = RemoteOptions(
    seq_len_max=64,
    attempts_max=2,
    backoff_s_min=0.001,
    backoff_s_max=0.002,
    connect_s=60.0,
    health_s=60.0,
    check_logps=False,
    event_bytes_max=1 << 16,
)
S_MAX = 120.0
CASES = 60
DEEP = "[" * 100_000 + "]" * 100_000
MODEL = {"id": "m", "policy_version": 3, "vocab_size": VOCAB, "boot": BOOT, "max_model_len": 64}

Events = list[dict[str, Any]]


def choice(*tokens: int, **more: Any) -> dict[str, Any]:
    of_each = {"token_ids": list(tokens), "policy_versions": [3] * len(tokens)}
    return {**of_each, "logprobs": {"token_logprobs": [-0.5] * len(tokens)}, **more}


def event(*tokens: int, **more: Any) -> dict[str, Any]:
    return {"system_fingerprint": BOOT, "choices": [choice(*tokens, **more)]}


def honest(n: int) -> Events:
    """n tokens, two in an event."""
    whole = [event(*range(at, min(n, at + 2))) for at in range(0, n, 2)]
    whole[-1]["choices"][0]["finish_reason"] = "length"
    return whole


@dataclass(slots=True)
class Liar:
    """What the server says."""

    events: Callable[[int], Events] = honest
    model: Any = field(default_factory=lambda: dict(MODEL))
    text: str | None = None
    """In place of a stream."""
    drips: bool = False
    """It sends an event without a token, again and again."""
    headers: dict[str, str] = field(default_factory=dict)

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.get("/health")
        def health() -> str:
            return ""

        @app.get("/v1/models")
        def models() -> Response:
            body = json.dumps({"data": [self.model]}) if self.text is None else self.text
            return self._answer(body.encode())

        @app.post("/v1/completions")
        async def completions(request: Request) -> Response:
            asked = await request.json()
            if self.text is not None:
                return self._answer(self.text.encode())
            stream = self._stream(self.events(asked["max_tokens"]))
            return StreamingResponse(stream, media_type="text/event-stream")

        return app

    def _answer(self, body: bytes) -> Response:
        packed = gzip.compress(body) if self.headers else body
        return Response(packed, media_type="application/json", headers=self.headers)

    async def _stream(self, events: Events) -> AsyncIterator[str]:
        while self.drips:
            yield f"data: {json.dumps(event())}\n\n"
            await asyncio.sleep(0.01)
        for one in events:
            yield f"data: {json.dumps(one)}\n\n"
        yield "data: [DONE]\n\n"


@pytest.fixture
def liar() -> Liar:
    return Liar()


@pytest.fixture
def engine(liar: Liar) -> Iterator[RemoteEngine]:
    with serving(liar.app()) as url, connected(url) as engine:
        yield engine


def connected(url: str) -> RemoteEngine:
    return RemoteEngine(url, AssayServer(), SLOTS, options=OPTIONS)


def rollouts(engine: RemoteEngine) -> list[Completed]:
    """Two of them, which have ended; nothing of them is left in the engine."""
    engine.submit([1, 2], max_tokens=TOKENS, seeds=[1, 2], want_reward=False)
    came: list[Completed] = []
    waited_s = 0.0
    while len(came) < 2:
        waited_s += engine.wait(0.1)
        came += engine.poll()
        assert waited_s < S_MAX, engine.stats()
    stats = engine.stats()
    assert (stats.in_flight, stats.slots_free) == (0, SLOTS)
    assert stats.decode_available == OPTIONS.decode_credits
    return came


def outcomes(engine: RemoteEngine) -> set[RolloutOutcome]:
    return {one.outcome for one in rollouts(engine)}


def spoilt_first(**more: Any) -> Callable[[int], Events]:
    return lambda n: [event(1, 2, **more), *honest(n)]


def early(n: int) -> Events:
    return [*honest(n - 3)[:1], event(finish_reason="length")]


LIES: dict[str, Callable[[int], Events]] = {
    "no token at all": lambda _n: [event(finish_reason="stop")],
    "too long at no token": lambda _n: [event(finish_reason="length")],
    "an id below 0": lambda _n: [event(-1)],
    "an id beyond the vocabulary": lambda _n: [event(VOCAB)],
    "an id beyond 32 bits": lambda _n: [event(1 << 40)],
    "an id that is a text": spoilt_first(token_ids=["1", "2"]),
    "no log-probs": spoilt_first(logprobs=None),
    "fewer log-probs": spoilt_first(logprobs={"token_logprobs": [-0.5]}),
    "a log-prob that is NaN": spoilt_first(logprobs={"token_logprobs": [math.nan, -1.0]}),
    "an infinite log-prob": spoilt_first(logprobs={"token_logprobs": [-math.inf, -1.0]}),
    "a probability above 1": spoilt_first(logprobs={"token_logprobs": [0.5, -1.0]}),
    "a version that never was": spoilt_first(policy_versions=[3, 4]),
    "a receipt of another form": spoilt_first(receipt={"versions": 1}),
    "a receipt that is a text": spoilt_first(receipt="x"),
    "choices of another form": lambda _n: [{"system_fingerprint": BOOT, "choices": [7]}],
    "an error in the stream": lambda _n: [{"error": {"message": "out of memory"}}],
    "another process": lambda n: [{**one, "system_fingerprint": "other"} for one in honest(n)],
    "an end without the response's end": lambda _n: [event(1, 2)][:0],
}


def test_a_lie_ends_its_rollouts_with_a_reason_and_the_next_ones_are_decoded(
    engine: RemoteEngine, liar: Liar
) -> None:
    for name, events in LIES.items():
        liar.events = events
        assert outcomes(engine) == {RolloutOutcome.CRASHED}, name
        assert engine.stats().last_error, name
        liar.events = honest
        assert outcomes(engine) == {RolloutOutcome.COMPLETED}, name


def test_a_response_that_ends_as_too_long_before_its_length_is_continued(
    engine: RemoteEngine, liar: Liar
) -> None:
    liar.events = lambda n: early(n) if n == TOKENS else honest(n)
    for one in rollouts(engine):
        assert one.outcome is RolloutOutcome.COMPLETED
        assert len(one.tokens) == len(one.logps) == TOKENS


BODIES = {
    "an error": '{"error": "overloaded"}',
    "nothing": "",
    "nested": f"data: {DEEP}\n\n",
    "no JSON": "data: x\n\n",
    "no end": "x" * (1 << 17),
}


def test_a_status_of_200_with_another_body_is_no_response(engine: RemoteEngine, liar: Liar) -> None:
    for name, text in BODIES.items():
        liar.text = text
        assert outcomes(engine) == {RolloutOutcome.CRASHED}, name
        liar.text = None
        assert outcomes(engine) == {RolloutOutcome.COMPLETED}, name


def test_a_stream_that_drips_without_a_token_is_lost(liar: Liar) -> None:
    options = replace(OPTIONS, idle_s=0.3)
    with (
        serving(liar.app()) as url,
        RemoteEngine(url, AssayServer(), SLOTS, options=options) as engine,
    ):
        liar.drips = True
        assert outcomes(engine) == {RolloutOutcome.CRASHED}
        assert "no token" in engine.stats().last_error


ODD_NUMBERS: list[Any] = [-1, 1.5, "1", None, [], math.nan, 1 << 40]


def nonsense() -> Iterator[str]:
    """What a server may say of itself."""
    yield from ('{"data": 5}', "[]", '{"data": [1]}', '{"data": [{"policy_version": 1}]}')
    yield from (DEEP, "x", '{"data": ["' + "x" * (1 << 17) + '"]}')
    for name in ("policy_version", "vocab_size"):
        for value in ODD_NUMBERS:
            yield json.dumps({"data": [{**MODEL, name: value}]})


def test_a_server_that_says_nonsense_of_itself_is_refused_by_a_typed_error(liar: Liar) -> None:
    with serving(liar.app()) as url:
        for text in nonsense():
            liar.text = text
            with pytest.raises((ServerRefused, ServerLost)):
                connected(url)


def test_a_compressed_answer_is_refused_before_it_is_unpacked(liar: Liar) -> None:
    liar.headers, liar.text = {"content-encoding": "gzip"}, " " * (1 << 24)
    with serving(liar.app()) as url, pytest.raises(ServerRefused, match="compressed"):
        connected(url)


ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    1e308,
    10**30,
    math.nan,
    math.inf,
    "",
    "x",
    [],
    [[]],
    {},
    [None],
]


def spoil(value: Any, rng: random.Random) -> Any:
    """The value with one part of it replaced or left out."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        name = rng.choice(list(value))
        rest = {key: one for key, one in value.items() if key != name}
        return rest if rng.random() < 0.2 else {**value, name: spoil(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        spoilt = [] if rng.random() < 0.2 else [spoil(value[at], rng)]
        return value[:at] + spoilt + value[at + 1 :]
    return rng.choice(ODD)


def test_events_that_are_spoilt_anywhere_end_their_rollouts_and_bring_only_sound_tokens(
    engine: RemoteEngine, liar: Liar
) -> None:
    rng = random.Random(drawn_seed())

    def events(n: int) -> Events:
        made = honest(n)
        at = rng.randrange(len(made))
        spoilt = spoil(made[at], rng)
        return [*made[:at], spoilt if isinstance(spoilt, dict) else {}, *made[at + 1 :]]

    liar.events = events
    for _ in range(CASES):
        for one in rollouts(engine):
            assert len(one.tokens) == len(one.logps) == len(one.policy_versions)
            assert all(0 <= token < VOCAB for token in one.tokens)
            assert all(math.isfinite(logp) and logp <= 1e-3 for logp in one.logps)
            assert set(one.policy_versions) <= {3}
            if one.outcome is not RolloutOutcome.COMPLETED:
                assert one.outcome is RolloutOutcome.CRASHED
