"""The Open Reward Standard: every pipeline an environment with one terminal tool.

Calls are answered by server-sent events: `task_id`, then `chunk`s, then `end` with the last one, or
`error`. A stream that broke off is resumed by the same `task_id`; the same call again is the same
work, also with a `task_id` that this process does not know. A response that the platform could not
judge is an `error`, never a reward. The client knows no path before its own, so that the routes are
also at the root of the port.
"""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from importlib.metadata import version as version_of
from typing import Annotated, Any, Final

import structlog
from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from assay.core.errors import AssayError, InvalidRequest
from assay.core.ids import REQUEST_FORM
from assay.core.outcome import Outcome
from assay.edge.auth import Tenant
from assay.reward.endpoints.calling import JSON, Answer, Calling, tenant
from assay.reward.endpoints.ors_environments import (
    ARGUMENT,
    SPLITS,
    TOOL,
    Environment,
    Environments,
)
from assay.reward.endpoints.ors_sessions import Session, Sessions, digest_of

log = structlog.get_logger(__name__)

CHUNK_CHARS: Final = 4_096
PING_S: Final = 10.0
CANDIDATES_MAX: Final = 1_024
ROOT: Final = "-"
"""In place of an environment in a path: that of the header `X-Deployment`."""
SID_FORM: Final = REQUEST_FORM
STREAM: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}

SessionId = Annotated[str, Header(alias="X-Session-ID")]
Deployment = Annotated[str, Header(alias="X-Deployment")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CreateBody(_Body):
    """`CreateSession` of the standard."""

    env_name: str | None = None
    task_spec: dict[str, Any] | None = None
    split: str | None = None
    index: int | None = None
    toolset_name: str | None = None


class SplitBody(_Body):
    """`ListTasks` and `NumTasks` of the standard."""

    split: str


class TaskBody(SplitBody):
    """`GetTask` of the standard."""

    index: int


class RangeBody(SplitBody):
    """`GetTaskRange` of the standard."""

    start: int | None = None
    stop: int | None = None


class CallBody(_Body):
    """`ToolCall` of the standard."""

    name: str
    input: dict[str, Any]
    task_id: str | None = None


class CandidateBody(_Body):
    """`GroupCandidate` of the standard."""

    messages: list[dict[str, Any]] = Field(min_length=1)
    metadata: dict[str, Any] | None = None


class GroupBody(_Body):
    """`ScoreGroup` of the standard."""

    candidates: list[CandidateBody] = Field(min_length=1, max_length=CANDIDATES_MAX)
    task_id: str | None = None


Told = Callable[[Answer, int], dict[str, Any]]
"""Makes the result of a call from so many judged responses."""


class NotJudgedError(Exception):
    """A response has no reward, through no fault of its own."""


def routes(calling: Calling, environments: Environments, sessions: Sessions) -> APIRouter:
    """The routes of Open Reward Standard, under `/v1/ors`."""
    router = APIRouter(prefix="/v1/ors")
    _add_sessions(router, environments, sessions)
    _add_service(router, environments)
    _add_prompts(router, sessions)
    _add_tasks(router, environments)
    _add_calls(router, calling, environments, sessions)
    return router


def _add_sessions(router: APIRouter, environments: Environments, sessions: Sessions) -> None:
    @router.post("/create_session", name="OrsCreateSession")
    async def create_session() -> Response:
        """Name a session; it begins with `/create`."""
        text = _event("task_id", _new_sid()) + _event("end", "")
        return Response(text, media_type="text/event-stream", headers=STREAM)

    @router.post("/create", name="OrsCreate")
    async def create(body: CreateBody, sid: SessionId, deployment: Deployment = "") -> Response:
        """Begin an episode of a task."""
        environment = environments.get(body.env_name or "", deployment)
        if body.toolset_name is not None:
            raise InvalidRequest("toolset_name: there are no tool sets", field="toolset_name")
        spec = body.task_spec
        if spec is None:
            if body.split is None or body.index is None:
                raise InvalidRequest("task_spec: give it, or split and index", field="task_spec")
            environment.problem(body.split, body.index)
            spec = {"split": body.split, "index": body.index}
        await sessions.open(tenant().tenant_id, _sid(sid), environment.name, spec)
        return _json({"sid": sid})

    @router.post("/ping", name="OrsPing")
    async def ping(sid: SessionId) -> Response:
        """Keep a session alive."""
        await sessions.get(tenant().tenant_id, sid)
        return _json({"status": "ok"})

    @router.post("/delete", name="OrsDelete")
    @router.post("/delete_session", name="OrsDelete")
    async def delete(sid: SessionId) -> Response:
        """End a session and the work in it."""
        await sessions.close(tenant().tenant_id, sid)
        return _json({"sid": sid})


def _add_service(router: APIRouter, environments: Environments) -> None:
    @router.get("/health", name="OrsHealth")
    async def health() -> Response:
        """Whether the service answers."""
        return _json({"status": "ok"})

    @router.get("/version", name="OrsVersion")
    async def version() -> Response:
        """The version of Assay."""
        return _json({"version": version_of("assay"), "build_sha": None})

    @router.get("/list_environments", name="OrsEnvironments")
    async def list_environments() -> Response:
        """All names, the default one first."""
        return _json(environments.names)


def _add_prompts(router: APIRouter, sessions: Sessions) -> None:
    @router.get("/{env}/prompt", name="OrsPrompt")
    async def prompt(env: str, sid: SessionId) -> Response:
        """What is asked, as blocks."""
        asked = (await sessions.get(tenant().tenant_id, sid)).problem.prompt
        text = "\n\n".join(message["content"] for message in asked)
        return _json([{"text": text, "detail": None, "type": "text"}])

    @router.get("/{env}/messages", name="OrsMessages")
    async def messages(env: str, sid: SessionId) -> Response:
        """What is asked, as messages."""
        asked = (await sessions.get(tenant().tenant_id, sid)).problem.prompt
        return _json(
            [
                {
                    "role": message["role"],
                    "blocks": [{"text": message["content"], "detail": None, "type": "text"}],
                    "detail": None,
                }
                for message in asked
            ]
        )

    @router.get("/{env}/task_tools", name="OrsTaskTools")
    async def task_tools(env: str, sid: SessionId) -> Response:
        """The tools of a session."""
        return _json((await sessions.get(tenant().tenant_id, sid)).environment.tools())


def _add_tasks(router: APIRouter, environments: Environments) -> None:
    def named(env: str, deployment: str) -> Environment:
        return environments.get("" if env == ROOT else env, deployment)

    @router.get("/{env}/tools", name="OrsTools")
    async def tools(env: str, deployment: Deployment = "") -> Response:
        """The tools of an environment."""
        return _json(named(env, deployment).tools())

    @router.get("/{env}/splits", name="OrsSplits")
    async def splits(env: str, deployment: Deployment = "") -> Response:
        """The splits of an environment."""
        return _json(
            [
                {"name": name, "type": name if name in SPLITS else "validation"}
                for name in named(env, deployment).problems
            ]
        )

    @router.post("/{env}/tasks", name="OrsTasks")
    async def tasks(env: str, body: SplitBody, deployment: Deployment = "") -> Response:
        """All tasks of a split, without their references."""
        environment = named(env, deployment)
        count = len(environment.split(body.split))
        return _json(_specs(environment, body.split, range(count)))

    @router.post("/{env}/num_tasks", name="OrsNumTasks")
    async def num_tasks(env: str, body: SplitBody, deployment: Deployment = "") -> Response:
        """Number of the tasks of a split."""
        return _json({"num_tasks": len(named(env, deployment).split(body.split))})

    @router.post("/{env}/task", name="OrsTask")
    async def task(env: str, body: TaskBody, deployment: Deployment = "") -> Response:
        """One task of the environment."""
        environment = named(env, deployment)
        environment.problem(body.split, body.index)
        found = _specs(environment, body.split, [body.index])
        return _json({"task": found["tasks"][0], "env_name": found["env_name"]})

    @router.post("/{env}/task_range", name="OrsTaskRange")
    async def task_range(env: str, body: RangeBody, deployment: Deployment = "") -> Response:
        """Some of them."""
        environment = named(env, deployment)
        count = len(environment.split(body.split))
        indexes = range(count)[slice(body.start, body.stop)]
        return _json(_specs(environment, body.split, indexes))


def _specs(environment: Environment, split: str, indexes: Sequence[int]) -> dict[str, Any]:
    tasks = [{"split": split, "index": index} for index in indexes]
    return {"tasks": tasks, "env_name": environment.name}


def _add_calls(
    router: APIRouter, calling: Calling, environments: Environments, sessions: Sessions
) -> None:
    @router.post("/{env}/call", name="OrsCall")
    async def call(env: str, request: Request, body: CallBody, sid: SessionId) -> Response:
        """Submit a response; the episode is over once it was judged."""
        session = await sessions.to_submit(tenant().tenant_id, sid)
        if body.task_id in session.runs:
            return _stream(session, body.task_id)
        # Begun in another API process, or long ago: what is asked says enough to go on.
        refused = _refused(session, body)
        if refused is not None:
            return _said(refused)
        response = body.input[ARGUMENT]
        digest = digest_of(b"call", response.encode("utf-8", "surrogatepass"))
        session.submitted = digest
        whose = tenant()

        async def work() -> str:
            told = await _judged(calling, whose, session, [response], _tool_output)
            await sessions.judged(whose.tenant_id, sid, session, digest)
            return told

        return _stream(session, sessions.run(session, work(), digest))

    @router.post("/{env}/score_group", name="OrsScoreGroup")
    async def score_group(env: str, body: GroupBody, sid: SessionId) -> Response:
        """Judge the last messages of several candidates as one group."""
        session = await sessions.get(tenant().tenant_id, sid)
        if body.task_id in session.runs:
            return _stream(session, body.task_id)
        texts = [
            _final_text(one.messages, f"candidates[{at}]") for at, one in enumerate(body.candidates)
        ]
        metadata = [one.metadata for one in body.candidates]

        def told(answer: Answer, count: int) -> dict[str, Any]:
            return _scores(answer, count, metadata)

        # The answer has the metadata in it: other metadata is another call.
        asked = (json.dumps(metadata, sort_keys=True), *texts)
        digest = digest_of(b"group", *(text.encode("utf-8", "surrogatepass") for text in asked))
        work = _judged(calling, tenant(), session, texts, told)
        return _stream(session, sessions.run(session, work, digest))


def _refused(session: Session, body: CallBody) -> dict[str, Any] | None:
    """Why a call is not carried out, in the standard's words."""
    if body.name != TOOL:
        return _failure(f"no tool {body.name!r}; there is {TOOL!r}", "not_found")
    response = body.input.get(ARGUMENT)
    if not isinstance(response, str) or set(body.input) != {ARGUMENT}:
        return _failure(f"input: an object with the text {ARGUMENT!r}", "input_validation")
    digest = digest_of(b"call", response.encode("utf-8", "surrogatepass"))
    if session.submitted not in {None, digest} and (
        session.begun.submitted
        or any(
            run.digest == session.submitted and not (run.work.done() and _error(run.work))
            for run in session.runs.values()
        )
    ):
        return _failure("the episode is over: a response was submitted", "episode_finished")
    return None


def _failure(error: str, reason: str) -> dict[str, Any]:
    return {"ok": False, "error": error, "reason": reason}


def _error(work: "asyncio.Task[str]") -> str:
    """Why work ended without a result; empty if it has one."""
    if work.cancelled():
        return "the work was cancelled"
    error = work.exception()
    if error is None:
        return ""
    if isinstance(error, AssayError | NotJudgedError):
        return str(error)
    log.error("ors_call_failed", exc_info=error)
    return "internal error; the log has more"


async def _judged(
    calling: Calling, whose: Tenant, session: Session, texts: Sequence[str], told: Told
) -> str:
    """Judge responses as one group.

    Raises:
        NotJudgedError: one was not.
        AssayError: none could be accepted.
    """
    environment, problem = session.environment, session.problem
    answer = await calling.score_texts(
        whose,
        pipeline=environment.definition.spec.name,
        settings=environment.settings,
        reference=problem.reference,
        texts=texts,
    )
    return json.dumps(told(answer, len(texts)), separators=(",", ":"))


def _tool_output(answer: Answer, _count: int) -> dict[str, Any]:
    reward, told = _reward(answer, 0)
    text = f"{told['verdict'] or 'judged'}, reward {reward:g}"
    block = {"text": text, "detail": None, "type": "text"}
    output = {"blocks": [block], "metadata": told, "reward": reward, "finished": True}
    return {"ok": True, "output": output}


def _scores(
    answer: Answer, count: int, metadata: Sequence[Mapping[str, Any] | None]
) -> dict[str, Any]:
    scores = []
    for at in range(count):
        reward, told = _reward(answer, at)
        scores.append({"reward": reward, "metadata": {**(metadata[at] or {}), **told}})
    return {"scores": scores}


def _reward(answer: Answer, at: int) -> tuple[float, dict[str, Any]]:
    reward, cause = answer.reward(f"r{at}")
    if reward is None:
        raise NotJudgedError(f"response {at} was not judged: {cause}")
    evidence = answer.evidence(f"r{at}")
    outcome = answer.results[f"r{at}"].outcome
    told = {
        "outcome": Outcome(outcome).value,
        "verdict": evidence.verdict,
        "tests_passed": evidence.tests_passed,
        "tests_total": evidence.tests_total,
    }
    return reward, told


def _final_text(messages: Sequence[Mapping[str, Any]], field: str) -> str:
    """The text of the last message of the assistant."""
    for message in reversed(messages):
        if message.get("role") == "assistant":
            blocks = message.get("blocks")
            if isinstance(blocks, list):
                return "".join(
                    str(block.get("text", ""))
                    for block in blocks
                    if isinstance(block, Mapping) and block.get("type", "text") == "text"
                )
    message_text = f"{field}.messages: no message of the assistant with blocks"
    raise InvalidRequest(message_text, field=f"{field}.messages")


# -- server-sent events --------------------------------------------------------------------------
def _stream(session: Session, task_id: str) -> StreamingResponse:
    return StreamingResponse(
        _events(session, task_id), media_type="text/event-stream", headers=STREAM
    )


async def _events(session: Session, task_id: str) -> AsyncIterator[str]:
    run = session.runs[task_id]
    yield _event("task_id", task_id)
    while not run.work.done():
        await asyncio.wait((run.work,), timeout=PING_S)
        if not run.work.done():
            yield ": waiting\n\n"
    error = _error(run.work)
    if error:
        yield _event("error", error)
        return
    for text in _result(run.work.result()):
        yield text


def _said(value: Mapping[str, Any]) -> Response:
    """The answer to a call that is not carried out."""
    text = _event("task_id", _new_sid()) + "".join(
        _result(json.dumps(value, separators=(",", ":")))
    )
    return Response(text, media_type="text/event-stream", headers=STREAM)


def _result(text: str) -> Sequence[str]:
    """Chunks, none of which begins with a space: the client takes it off."""
    text = text.replace(" ", "\\u0020")
    starts = range(0, len(text), CHUNK_CHARS)
    return [
        _event("end" if at + CHUNK_CHARS >= len(text) else "chunk", text[at : at + CHUNK_CHARS])
        for at in starts
    ]


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {' '.join(data.splitlines())}\n\n"


def _json(value: object) -> Response:
    return Response(json.dumps(value), media_type=JSON)


def _new_sid() -> str:
    return str(uuid.uuid4())


def _sid(sid: str) -> str:
    if not SID_FORM.fullmatch(sid):
        raise InvalidRequest("X-Session-ID: not a name", field="X-Session-ID")
    return sid
