"""Mounts the endpoints, and translates between their clients' habits and the door's.

The door asks for `Authorization: Bearer`. Clients that cannot send it put the token into the URL
(`http://any:TOKEN@host`, which arrives as Basic), or into a header of their own. Some know a single
status for "try again".
"""

import asyncio
import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.config.settings import RewardSettings
from assay.reward.endpoints import ors, sandbox_fusion, trainers
from assay.reward.endpoints.calling import Calling, Kept
from assay.reward.endpoints.ors_environments import Environment, Environments, Problem
from assay.reward.endpoints.ors_sessions import Sessions, Shelf
from assay.reward.readers import Readers
from assay.reward.service import RewardService

PREFIXES: Final[dict[str, dict[int, int]]] = {
    "/v1/sandboxfusion/": {429: 504, 503: 504},
    "/v1/openrlhf/": {},
    "/v1/slime/": {},
    "/v1/nemo_gym/": {},
    "/v1/roll/": {},
    "/v1/ors/": {},
}
"""Of the endpoints' paths -> statuses that their clients take for others."""
ROOTS: Final = {
    **{
        f"/{name}": f"/v1/nemo_gym/{trainers.ROW}/{name}"
        for name in ("seed_session", "verify", "aggregate_metrics")
    },
    **{
        f"/{name}": f"/v1/ors/{name}"
        for name in (
            *("create_session", "create", "ping", "delete", "delete_session"),
            *("health", "version", "list_environments"),
        )
    },
}
"""NeMo-Gym and ORS know a host and a port, and no path before their own."""
ORS_PATH: Final = re.compile(
    r"(?:/(?P<environment>[^/]+))?/(?P<what>tools|task_tools|splits|tasks|num_tasks|task|task_range"
    r"|prompt|messages|call|score_group)"
)
OWN_HEADERS: Final = {b"xrl-authorization": b"", b"x-api-key": b"Bearer "}
"""Headers of ROLL and ORS -> what stands before the token."""
PAYLOADS: Final = "|".join((sandbox_fusion.PAYLOADS, trainers.PAYLOADS))
"""Pattern of the paths, after `/v1/`, whose bodies may be as large as those of `/v1/score`."""


def mount(
    app: FastAPI,
    service: RewardService,
    readers: Readers,
    kept: Kept,
    shelf: Shelf,
    settings: RewardSettings,
) -> None:
    """Add all routes.

    Raises:
        TasksUnusableError: an environment of the settings cannot be used.
    """
    environments = Environments(service.pipelines, settings.environments)

    def problem_of(name: str, spec: Mapping[str, Any]) -> tuple[Environment, Problem]:
        environment = environments.get(name, "")
        return environment, environment.problem_of(spec)

    sessions = Sessions(
        start=service.start,
        tenants=max(1, len(settings.tenants)),
        now_s=_now_s,
        shelf=shelf,
        problem_of=problem_of,
    )
    calling = Calling(service, readers)
    for router in (
        sandbox_fusion.routes(calling, kept),
        trainers.routes(calling, service),
        ors.routes(calling, environments, sessions),
    ):
        # Not in the platform's own description: others define these interfaces.
        app.include_router(router, include_in_schema=False)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def speak_dialects(app: FastAPI) -> None:
    """Translate tokens and statuses, outside of the door."""
    app.add_middleware(_Dialects)


class _Dialects:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        if (inner := _inner(path)) != path:
            path = inner
            scope = {**scope, "path": path, "raw_path": quote(path).encode("ascii")}
        prefix = next((one for one in PREFIXES if path.startswith(one)), None)
        if prefix is None:
            await self._app(scope, receive, send)
            return
        statuses = PREFIXES[prefix]

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["status"] = statuses.get(message["status"], message["status"])
            await send(message)

        headers = [_translated(name, value) for name, value in scope["headers"]]
        await self._app({**scope, "headers": headers}, receive, sending)


def _inner(path: str) -> str:
    """Where a path at the root of the port is served."""
    if path in ROOTS:
        return ROOTS[path]
    found = ORS_PATH.fullmatch(path)
    if found is None or found["environment"] == "v1":
        return path
    return f"/v1/ors/{found['environment'] or ors.ROOT}/{found['what']}"


def _translated(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    if name in OWN_HEADERS:
        return b"authorization", OWN_HEADERS[name] + value
    if name == b"authorization" and value[:6].lower() == b"basic ":
        try:
            _, _, token = base64.b64decode(value[6:], validate=True).partition(b":")
        except binascii.Error:
            return name, value
        return name, b"Bearer " + token
    return name, value
