"""A message of requests, from bytes to records: the pure part, and the process that runs it.

`python -m assay.reward.reading` is the template of the reader processes: it receives one connected
socket per message, and forks a child that reads this one message and exits. What a message does to
its child (memory, CPU time, a crash in a parser) affects neither other messages nor the API. The
child's limits are the kernel's; if a child could not report how it ended, the template does.
"""

import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NoReturn, TypeVar

from google.protobuf.message import DecodeError
from pydantic import ValidationError

from assay.config.priority import run_in_background
from assay.config.settings import RewardSettings, VerifierSettings
from assay.core.codec import pack, unpack
from assay.core.errors import (
    AssayError,
    InvalidRequest,
    field_path,
    not_json,
    not_protobuf,
)
from assay.core.ids import GroupId, PipelineName, RequestId
from assay.core.records import Artifact, NewRequest
from assay.core.tools.framing import HEAD, FramingError, body_bytes
from assay.reward import wire
from assay.reward.admission import RequestCheck
from assay.reward.bodies.incoming import ScoreBody, SubmitBody
from assay.reward.drafts import Message, ScoreDraft
from assay.reward.endpoints import sandbox_fusion_bodies, trainer_bodies
from assay.v1 import reward_pb2
from assay.verifiers.port import PipelineDefinition
from assay.verifiers.registry import load_pipelines

MessageT = TypeVar("MessageT", reward_pb2.SubmitRequest, reward_pb2.ScoreRequest)
ReadT = TypeVar("ReadT")

NICENESS: Final = 10
"""Niceness of a reader: answering calls has priority over reading messages."""
NICENESS_IDLE: Final = 19
"""Niceness of the session of a reading that gets idle CPU time only."""
ORDINARY: Final = b"o"
IDLE: Final = b"i"
"""Sent with a message's socket: how its process is scheduled."""
PART_REQUESTS_MAX: Final = 64
PART_BYTES_MAX: Final = 256 * 1024
"""Bound of a frame of an answer: unpacking it blocks the API for less than a millisecond."""
OUT_OF_MEMORY: Final = 3
"""Exit status of a child that ran out of memory."""
FIELD_BYTES_MAX: Final = 64 * 1024
"""A longer field of a request follows its frame unpacked: receiving it does not hold the
interpreter's lock, unpacking it would."""
FRAME_BYTES_MAX: Final = 2**31


class Form(StrEnum):
    """Format of a message."""

    SUBMIT = "Submit"
    SCORE = "Score"
    SUBMIT_JSON = "SubmitJson"
    SCORE_JSON = "ScoreJson"
    SANDBOX_FUSION_RUN = "SandboxFusionRun"
    SANDBOX_FUSION_SUBMIT = "SandboxFusionSubmit"
    OPENRLHF = "OpenRlhf"
    SLIME = "Slime"
    NEMO_GYM = "NemoGym"
    ROLL = "Roll"


FOREIGN: Final[Mapping[Form, Callable[[object], Message]]] = {
    Form.SANDBOX_FUSION_RUN: sandbox_fusion_bodies.run_message,
    Form.SANDBOX_FUSION_SUBMIT: sandbox_fusion_bodies.submit_message,
    Form.OPENRLHF: trainer_bodies.openrlhf_message,
    Form.SLIME: trainer_bodies.slime_message,
    Form.NEMO_GYM: trainer_bodies.nemo_gym_message,
    Form.ROLL: trainer_bodies.roll_message,
}
"""How the messages of other systems are read."""


FIND_PROGRAMS: Final = frozenset({Form.SANDBOX_FUSION_RUN, Form.SANDBOX_FUSION_SUBMIT})
"""Forms that are read after `sandbox_fusion_bodies.prepare`, which delays a first one."""


class TooManyHereError(Exception):
    """More requests than this process reads by itself."""


def read(form: Form, body: bytes, check: RequestCheck, *, here_max: int | None = None) -> Message:
    """Parse a message.

    Raises:
        InvalidRequest, TooLarge: it is malformed, or has too many requests.
        TooManyHereError: it has more than `here_max` requests.
    """

    def count(requests: int) -> None:
        check.count(requests)
        if here_max is not None and requests > here_max:
            raise TooManyHereError

    match form:
        case Form.SUBMIT:
            submit = _parsed(reward_pb2.SubmitRequest, body)
            count(len(submit.requests))
            return Message(
                score=ScoreDraft(),
                batch_id=submit.batch_id,
                requests=wire.request_drafts(submit.requests),
            )
        case Form.SCORE:
            score = _parsed(reward_pb2.ScoreRequest, body)
            count(len(score.requests))
            return Message(
                score=wire.score_draft(score),
                batch_id="",
                requests=wire.request_drafts(score.requests),
            )
        case Form.SUBMIT_JSON:
            submit_body = validated(SubmitBody.model_validate, body)
            count(len(submit_body.requests))
            return Message(score=ScoreDraft(), batch_id="", requests=submit_body.drafts())
        case Form.SCORE_JSON:
            score_body = validated(ScoreBody.model_validate, body)
            count(len(score_body.requests))
            return Message(score=score_body.draft(), batch_id="", requests=score_body.drafts())
        case _:
            foreign = validated(FOREIGN[form], body)
            count(len(foreign.requests))
            return foreign


def _parsed(kind: type[MessageT], body: bytes) -> MessageT:
    try:
        return kind.FromString(body)
    except DecodeError as error:
        raise not_protobuf() from error


def validated(model: Callable[[object], ReadT], body: bytes) -> ReadT:
    """Return what `model` makes of a JSON body.

    Raises:
        InvalidRequest: it is malformed; `field` says where.
    """
    try:
        return model(json.loads(body))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = field_path(first["loc"]) or "body"
        raise InvalidRequest(f"{field}: {first['msg']}", field=field) from None
    except (ValueError, RecursionError):
        raise not_json() from None


# -- frames --------------------------------------------------------------------------------------
def send(channel: socket.socket, *parts: object) -> None:
    """Send one frame: its length, then packed plain values.

    Raises:
        OSError: the peer is gone.
    """
    packed = pack(parts)
    channel.sendall(HEAD.pack(len(packed)))
    channel.sendall(packed)


def receive(channel: socket.socket) -> list[object]:
    """Wait for one frame.

    Raises:
        EOFError: the peer is gone.
        OSError: likewise, or it took too long.
    """
    try:
        length = body_bytes(exactly(channel, HEAD.size), bytes_max=FRAME_BYTES_MAX)
    except FramingError as error:
        raise OSError(str(error)) from error
    frame = unpack(exactly(channel, length))
    if not isinstance(frame, list) or not frame:
        raise OSError("not a frame")
    return frame


def exactly(channel: socket.socket, count: int) -> bytes:
    """Wait for `count` bytes; they are copied without the interpreter's lock.

    Raises:
        EOFError: the peer is gone.
        OSError: likewise, or it took too long.
    """
    got = channel.recv(count, socket.MSG_WAITALL)
    while len(got) < count:  # a signal came, or the end
        more = channel.recv(count - len(got), socket.MSG_WAITALL)
        if not more:
            raise EOFError
        got += more
    return got


# -- the child -----------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """State that every child inherits."""

    settings: RewardSettings
    pipelines: Mapping[PipelineName, PipelineDefinition]


def serve_one(channel: socket.socket, desk: Desk) -> None:
    """Read one message: its bytes in, its head out, the pipeline in, its checked requests out."""
    form, cpu_s, size = receive(channel)
    if not (isinstance(form, str) and isinstance(cpu_s, float) and isinstance(size, int)):
        raise OSError("not a message")
    body = exactly(channel, size)
    _limit(cpu_s, desk.settings.read_memory_bytes_max)
    check = RequestCheck(desk.settings)
    try:
        message = read(Form(form), body, check)
        del body
        head = message.score
        send(
            channel,
            "head",
            message.batch_id,
            head.task_id,
            head.pipeline,
            head.settings_json,
            head.timeout_s,
            head.deadline_ns,
            message.context,
        )
        (pipeline,) = receive(channel)
        definition = desk.pipelines[PipelineName(str(pipeline))]
        requests = check.check_message(message, definition)
    except AssayError as error:
        said = (error.reason, error.message[:10_000], error.field[:10_000])
        send(channel, "refused", time.process_time(), *said)
        return
    for part in _parts(requests):
        _send_part(channel, part)
    send(channel, "requests", time.process_time())


def _parts(requests: Sequence[NewRequest]) -> Iterator[Sequence[NewRequest]]:
    part: list[NewRequest] = []
    size = 0
    for request in requests:
        if len(part) == PART_REQUESTS_MAX or size > PART_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(request)
        size += request.payload_bytes
    yield part


def _send_part(channel: socket.socket, requests: Sequence[NewRequest]) -> None:
    rows: list[Sequence[object]] = []
    long_fields: list[bytes] = []
    for request in requests:
        names = [(artifact.name, artifact.sha256) for artifact in request.artifacts]
        row: list[object] = [request.request_id, request.group_id, names]
        contents = (one.content for one in request.artifacts)
        for content in (request.response, request.reference, request.messages, *contents):
            if len(content) > FIELD_BYTES_MAX:
                long_fields.append(content)
                row.append(len(content))
            else:
                row.append(content)
        rows.append(row)
    send(channel, "part", rows)
    for content in long_fields:
        channel.sendall(content)


def receive_part(channel: socket.socket, rows: Sequence[Sequence[object]]) -> list[NewRequest]:
    """Return a part of the output of `serve_one` as records; receives the long fields of `rows`.

    Raises:
        EOFError, OSError: as `exactly`.
    """

    def content(value: object) -> bytes:
        if isinstance(value, int):
            return exactly(channel, value)
        assert isinstance(value, bytes)  # noqa: S101 for the checker: our own child packed it
        return value

    def request(row: Sequence[object]) -> NewRequest:
        request_id, group_id, names, *values = row
        assert isinstance(names, list)  # noqa: S101 for the checker: our own child packed it
        response, reference, messages, *contents = map(content, values)
        return NewRequest(
            request_id=RequestId(str(request_id)),
            group_id=GroupId(str(group_id)),
            response=response,
            reference=reference,
            messages=messages,
            artifacts=tuple(
                Artifact(name, content, sha256)
                for (name, sha256), content in zip(names, contents, strict=True)
            ),
        )

    return [request(row) for row in rows]


def _limit(cpu_s: float, memory_bytes_max: int) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes_max, memory_bytes_max))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.setitimer(signal.ITIMER_PROF, cpu_s)  # its signal ends the process


def _child(channel: socket.socket, desk: Desk, scheduling: bytes) -> NoReturn:
    status = 1
    try:
        if scheduling == IDLE:
            run_in_background(NICENESS_IDLE, idle=True)
        serve_one(channel, desk)
        status = 0
    except MemoryError:
        status = OUT_OF_MEMORY
    except (OSError, EOFError):  # the API no longer waits for it
        status = 0
    finally:
        os._exit(status)


# -- the template --------------------------------------------------------------------------------
class Template:
    """Forks a child per socket that arrives over `control`; exits with it."""

    def __init__(self, control: socket.socket, desk: Desk) -> None:
        self._control = control
        self._desk = desk
        self._children: dict[int, tuple[int, socket.socket]] = {}
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def run(self) -> None:
        """Run until the API is gone."""
        while True:
            for fd, _ in self._poll.poll():
                if fd != self._control.fileno():
                    self._reap(fd)
                elif not self._start():
                    return

    def _start(self) -> bool:
        data, fds, _, _ = socket.recv_fds(self._control, 1, 1)
        if not data:
            return False
        channel = socket.socket(fileno=fds[0])
        pid = os.fork()
        if not pid:
            for _, another in self._children.values():
                another.close()
            _child(channel, self._desk, data)
        pidfd = os.pidfd_open(pid)
        self._children[pidfd] = (pid, channel)
        self._poll.register(pidfd, select.POLLIN)
        return True

    def _reap(self, pidfd: int) -> None:
        pid, channel = self._children.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _, wait_status, used = os.wait4(pid, 0)
        status = os.waitstatus_to_exitcode(wait_status)
        with channel:
            if status:
                channel.settimeout(0)
                try:
                    send(channel, "died", used.ru_utime + used.ru_stime, status)
                except OSError:
                    return  # the API no longer waits for it


def main() -> None:
    """Import everything once, then fork."""
    control = socket.socket(fileno=0)
    reward, verifiers = json.loads(sys.argv[1])
    desk = Desk(
        settings=RewardSettings.model_validate(reward),
        pipelines=load_pipelines(VerifierSettings.model_validate(verifiers)),
    )
    sandbox_fusion_bodies.prepare()
    run_in_background(NICENESS, idle=False)
    gc.disable()
    gc.freeze()
    Template(control, desk).run()


if __name__ == "__main__":
    main()
