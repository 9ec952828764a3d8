"""Whatever bytes a caller sends: a typed error or acceptance, nothing stored if refused, and no
callback of the API's event loop does much, because all other calls wait meanwhile.

The API has its own thread. What each callback of its loop does is counted, so that the machine's
load changes nothing: the calls that it makes, of Python and of C functions, and the size of what it
parses itself, because a parser is one call however much it gets.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.running import own_shard, running_api

from assay.config.settings import RewardSettings
from assay.edge import grpc_edge
from assay.edge.grpc_edge import CONTROL_BYTES_MAX, PART_BYTES_MAX, PART_FRAME_BYTES_MAX
from assay.edge.http_edge import CONTROL_COMMAS_MAX
from assay.reward import reading
from assay.reward.admission import SETTINGS_BYTES_MAX, SETTINGS_COMMAS_MAX
from assay.reward.operations import tasks
from assay.reward.readers import HERE_COMMAS_MAX
from assay.v1 import reward_pb2, reward_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.running import Running

    from assay.store.embedded import EmbeddedValkey

CALLBACK_CALLS_MAX = 6_000
"""Calls of functions; one takes a fraction of a microsecond."""
PARSERS: tuple[tuple[Any, str, int, int, int], ...] = (
    (json, "loads", 0, CONTROL_BYTES_MAX, CONTROL_COMMAS_MAX),
    (reading, "read", 1, RewardSettings().read_inline_bytes_max, HERE_COMMAS_MAX),
    (tasks, "parse_settings", 1, SETTINGS_BYTES_MAX, SETTINGS_COMMAS_MAX),
    (grpc_edge, "parsed_message", 1, PART_BYTES_MAX + PART_FRAME_BYTES_MAX, sys.maxsize),
)
"""Module, function, place of what it parses, most bytes, most commas."""
TIMEOUT_S = 60.0
SCORE_S = 1.0
"""There is no worker: an accepted `Score` waits without success."""
SERVICE = "/assay.v1.RewardService/"
REASONS = {
    *("invalid_request", "too_large", "not_found", "conflict", "failed_precondition"),
    *("saturated", "deadline_passed"),
}
UNARY = (
    *("RegisterTask", "OpenBatch", "Submit", "SealBatch", "Score", "CancelBatch", "GetBatch"),
    *("ListPipelines", "Hint"),
)
STREAMS = ("SubmitStream", "SubmitParts", "ScoreParts")
ROUTES = (
    *("tasks", "tasks/t/hint", "batches", "batches/b/requests", "batches/none/seal", "score"),
)


class Work:
    """What the callbacks of a thread do."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        self.calls_most = 0
        self.parsed_too_much: list[tuple[str, int, int]] = []
        self._calls = 0

    def callback(self, run: Callable[[], None]) -> None:
        if threading.current_thread() is not self.thread:
            run()
            return
        self._calls = 0
        # For each callback: Python drops a profile that raised, such as at a stack's limit.
        sys.setprofile(self._profile)
        try:
            run()
        finally:
            sys.setprofile(None)
            self.calls_most = max(self.calls_most, self._calls)

    def _profile(self, _frame: object, event: str, _arg: object) -> None:
        self._calls += event in {"call", "c_call"}

    def watched(self, parse: Any, name: str, at: int, bytes_max: int, commas_max: int) -> Any:
        """A parser that notes when it gets too much in the thread."""

        def watch(*args: Any, **options: Any) -> Any:
            if threading.current_thread() is self.thread:
                comma = "," if isinstance(args[at], str) else b","
                size, commas = len(args[at]), args[at].count(comma)
                if size > bytes_max or commas > commas_max:
                    self.parsed_too_much.append((name, size, commas))
            return parse(*args, **options)

        return watch

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Every callback and every parser passes here."""
        run: Any = asyncio.Handle._run
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio.Handle, "_run", lambda handle: self.callback(lambda: run(handle)))
            for module, name, at, bytes_max, commas_max in PARSERS:
                parse = getattr(module, name)
                patch.setattr(module, name, self.watched(parse, name, at, bytes_max, commas_max))
            yield


class Api:
    """A reward API in a thread of its own."""

    def __init__(
        self, running: Running, channel: grpc.Channel, http: httpx.Client, work: Work
    ) -> None:
        self.running = running
        self.channel: Any = channel
        self.http = http
        self.stub: Any = reward_pb2_grpc.RewardServiceStub(channel)
        self.work = work

    def submitted(self) -> int:
        request = reward_pb2.GetBatchRequest(batch_id="b")
        return int(self.stub.GetBatch(request, timeout=TIMEOUT_S).batch.submitted)

    def answered(self, send: Callable[[], tuple[str, int]]) -> str:
        """The reason of the answer; no callback did much meanwhile."""
        self.work.calls_most = 0
        self.work.parsed_too_much.clear()
        reason, accepted = send()
        assert reason in {"ok", *REASONS}, reason
        assert accepted or reason != "ok"
        assert 0 < self.work.calls_most <= CALLBACK_CALLS_MAX
        assert not self.work.parsed_too_much
        return reason


@pytest.fixture(scope="module")
def api(valkey: EmbeddedValkey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A listening service with a task `t` and a batch `b`."""
    started: list[Running] = []
    ready, stop = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve(data_dir: Path) -> None:
        loops.append(asyncio.get_running_loop())
        async with running_api(own_shard(valkey), data_dir) as running:
            started.append(running)
            ready.set()
            await stop.wait()

    work = Work()

    def run() -> None:
        # Not of the policy: a loop that is not asyncio's own runs its callbacks elsewhere.
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(serve(tmp_path_factory.mktemp("stalls")))

    thread = work.thread = threading.Thread(target=run, daemon=True)
    try:
        with work.noted():
            thread.start()
            assert ready.wait(TIMEOUT_S)
            addresses = started[0].addresses
            with (
                grpc.insecure_channel(addresses.grpc) as channel,
                httpx.Client(base_url=addresses.http, timeout=TIMEOUT_S) as http,
            ):
                api = Api(started[0], channel, http, work)
                _prepare(api)
                yield api
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(TIMEOUT_S)


def _prepare(api: Api) -> None:
    task = reward_pb2.Task(task_id="t", pipeline="exact")
    api.stub.RegisterTask(reward_pb2.RegisterTaskRequest(task=task))
    api.stub.OpenBatch(reward_pb2.OpenBatchRequest(task_id="t", batch_id="b"))
    large = b'{"requests":[{"request_id":"%b"}]}' % (b"1" * 20_000)
    for path in ROUTES:  # what is loaded with the first call of a kind
        _post(api, path, b"{}")
        _post(api, path, large)


# -- one call --------------------------------------------------------------------------------------
def _post(api: Api, path: str, body: bytes) -> tuple[str, int]:
    answer = api.http.post(
        f"/v1/{path}", content=body, headers={"content-type": "application/json"}
    )
    if answer.status_code < 300:
        return "ok", 1
    if answer.status_code in {404, 405} and not answer.json().get("error"):
        return "not_found", 0
    return str(answer.json()["error"]["reason"]), 0


def _call(api: Api, method: str, body: bytes) -> tuple[str, int]:
    timeout_s = SCORE_S if method.startswith("Score") else TIMEOUT_S
    try:
        if method in STREAMS:
            api.channel.stream_unary(SERVICE + method)(iter([body]), timeout=timeout_s)
        else:
            api.channel.unary_unary(SERVICE + method)(body, timeout=timeout_s)
    except grpc.RpcError as failed:
        error: Any = failed
        trailers = dict(error.trailing_metadata() or ())
        by_grpc = {  # its own limit, and our timeout
            grpc.StatusCode.RESOURCE_EXHAUSTED: "too_large",
            grpc.StatusCode.DEADLINE_EXCEEDED: "deadline_passed",
        }
        return str(trailers.get("reason", by_grpc.get(error.code(), error.code()))), 0
    return "ok", 1


# -- the bodies ------------------------------------------------------------------------------------
SHAPES: dict[str, Callable[[int], bytes]] = {
    "lists": lambda size: b"[" + b"[]," * (size // 3) + b"[]]",
    "objects": lambda size: b"[" + b"{}," * (size // 3) + b"{}]",
    "numbers": lambda size: b"[" + b"1," * (size // 2) + b"1]",
    "one number": lambda size: b"1" * size,
    "a fraction": lambda size: b"0." + b"1" * size,
    "keys": lambda size: b"{" + b",".join(b'"%d":1' % i for i in range(size // 9)) + b"}",
    "escapes": lambda size: b'"' + b"\\u00e9" * (size // 6) + b'"',
    "text": lambda size: b'"' + b"x" * size + b'"',
    "deep lists": lambda size: b"[" * (size // 2) + b"]" * (size // 2),
    "deep objects": lambda size: b'{"a":' * (size // 6) + b"1" + b"}" * (size // 6),
    "left open": lambda size: b"[" * size,
    "not UTF-8": lambda size: b'"' + b"\xff\xc0" * (size // 2) + b'"',
    "surrogates": lambda size: b'"' + b"\\ud800" * (size // 6) + b'"',
    "NUL": lambda size: b"\0" * size,
    "empty fields": lambda size: b"\x22\x00" * (size // 2),
    "empty requests": lambda size: b"\x12\x00" * (size // 2),
    "groups": lambda size: b"\x0b" * size,
}


def _json_body(place: str, value: bytes) -> bytes:
    request = b'{"request_id":"r","response":"x","reference":%b}'
    return {
        "whole": value,
        "settings": b'{"task_id":"n","pipeline":"exact","settings":' + value + b"}",
        "requests": b'{"task_id":"t","requests":' + value + b"}",
        "reference": b'{"task_id":"t","requests":[' + request % value + b"]}",
        "answers": b'{"task_id":"t","requests":[' + request % (b'{"answers":' + value + b"}]}"),
    }[place]


def _message(method: str, place: str, value: bytes) -> bytes:
    text = value.decode("utf-8", "replace")
    if place == "whole":
        body = value
    elif method == "RegisterTask":
        task = reward_pb2.Task(task_id="n", pipeline="exact", settings_json=text)
        body = reward_pb2.RegisterTaskRequest(task=task).SerializeToString()
    else:
        reference = b'{"answers":' + value + b"}" if place == "answers" else value
        response = value if place == "requests" else b"x"
        request = reward_pb2.RewardRequest(
            request_id="r", response=response, reference_json=reference
        )
        if method in {"Score", "ScoreParts"}:
            task_id, count = ("", 1) if place == "settings" else ("t", 1)
            body = reward_pb2.ScoreRequest(
                task_id=task_id,
                pipeline="" if task_id else "exact",
                settings_json="" if task_id else text,
                requests=[request] * count,
            ).SerializeToString()
        else:
            batch_id = "b" if method.startswith("Submit") else "none"
            submit = reward_pb2.SubmitRequest(batch_id=batch_id, requests=[request])
            body = submit.SerializeToString()
    if method in {"SubmitParts", "ScoreParts"}:
        return reward_pb2.MessagePart(data=body[: 1024**2]).SerializeToString()
    return body


PLACES = ("whole", "settings", "requests", "reference", "answers")
INLINE_BYTES = 15_000
SETTINGS_BYTES = 60_000
_sizes = st.sampled_from([10, 1_000, 15_000, 64_000, 250_000, 1_000_000])
_places = st.sampled_from(PLACES)


def _judge(api: Api, send: Callable[[], tuple[str, int]]) -> None:
    """A typed answer; nothing stored if refused; no callback that does much."""
    before = api.submitted()
    if api.answered(send) != "ok":
        assert api.submitted() == before


@pytest.mark.parametrize("place", PLACES)
def test_every_shape_just_small_enough_to_be_read_in_the_api(api: Api, place: str) -> None:
    for shape in sorted(SHAPES):
        value = SHAPES[shape](INLINE_BYTES)
        body = _json_body(place, value)
        body = body.replace(b'"task_id":"t",', b"")
        http = partial(_post, api, "batches/b/requests", body)
        _judge(api, http)
        grpc_call = partial(_call, api, "Submit", _message("Submit", place, value))
        _judge(api, grpc_call)


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_every_shape_of_settings(api: Api, shape: str) -> None:
    value = SHAPES[shape](SETTINGS_BYTES)
    body = _json_body("settings", value)
    _judge(api, lambda: _post(api, "tasks", body))
    _judge(api, lambda: _post(api, "score", body))
    message = _message("RegisterTask", "settings", value)
    _judge(api, lambda: _call(api, "RegisterTask", message))
    score = _message("Score", "settings", value)
    _judge(api, lambda: _call(api, "Score", score))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    path=st.sampled_from(ROUTES), place=_places, shape=st.sampled_from(sorted(SHAPES)), size=_sizes
)
def test_over_http(api: Api, path: str, place: str, shape: str, size: int) -> None:
    body = _json_body(place, SHAPES[shape](size))
    if path == "score":  # SCORE_S
        body = body.replace(b'{"task_id"', b'{"timeout_s":0.2,"task_id"', 1)
    _judge(api, lambda: _post(api, path, body))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    method=st.sampled_from([*UNARY, *STREAMS]),
    place=_places,
    shape=st.sampled_from(sorted(SHAPES)),
    size=_sizes,
)
def test_over_grpc(api: Api, method: str, place: str, shape: str, size: int) -> None:
    body = _message(method, place, SHAPES[shape](size))
    _judge(api, lambda: _call(api, method, body))


@pytest.mark.parametrize("shape", ["text", "objects", "NUL"])
def test_the_largest_messages(api: Api, shape: str) -> None:
    value = SHAPES[shape](11 * 1024**2)
    _judge(api, lambda: _post(api, "score", _json_body("answers", value)))
    _judge(api, lambda: _call(api, "Submit", _message("Submit", "answers", value[: 4 * 10**6])))


def test_a_message_in_parts_is_the_message(api: Api) -> None:
    body = json.dumps({"answers": ["x" * 3_000_000, "y" * 3_000_000]}).encode()
    request = reward_pb2.RewardRequest(request_id="large", response=b"x", reference_json=body)
    data = reward_pb2.SubmitRequest(batch_id="b", requests=[request]).SerializeToString()
    parts = [
        reward_pb2.MessagePart(data=data[first : first + 900_000])
        for first in range(0, len(data), 900_000)
    ]
    before = api.submitted()
    assert api.stub.SubmitParts(iter(parts), timeout=TIMEOUT_S).accepted == 1
    assert api.stub.SubmitParts(iter(parts), timeout=TIMEOUT_S).duplicates == 1
    assert api.submitted() == before + 1
