"""Mounts the endpoints, and translates between their clients' habits and the door's.

The door asks for `Authorization: Bearer`. Clients that cannot send it put the token into the URL
(`http://any:TOKEN@host`, which arrives as Basic), or into a header of their own. Some know a single
status for "try again".
"""

import base64
import binascii
from typing import Final

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.reward.endpoints import sandbox_fusion, trainers
from assay.reward.endpoints.calling import Calling, Kept
from assay.reward.readers import Readers
from assay.reward.service import RewardService

PREFIXES: Final[dict[str, dict[int, int]]] = {
    "/v1/sandboxfusion/": {429: 504, 503: 504},
    "/v1/openrlhf/": {},
    "/v1/slime/": {},
    "/v1/nemo_gym/": {},
    "/v1/roll/": {},
}
"""Of the endpoints' paths -> statuses that their clients take for others."""
ROOTS: Final = {
    f"/{name}": f"/v1/nemo_gym/{trainers.ROW}/{name}"
    for name in ("seed_session", "verify", "aggregate_metrics")
}
"""NeMo-Gym knows a host and a port, and no path before its own."""
PAYLOADS: Final = "|".join((sandbox_fusion.PAYLOADS, trainers.PAYLOADS))
"""Pattern of the paths, after `/v1/`, whose bodies may be as large as those of `/v1/score`."""
OWN_HEADER: Final = b"xrl-authorization"
"""ROLL's header."""


def mount(app: FastAPI, service: RewardService, readers: Readers, kept: Kept) -> None:
    """Add all routes."""
    calling = Calling(service, readers)
    app.include_router(sandbox_fusion.routes(calling, kept))
    app.include_router(trainers.routes(calling, service))


def speak_dialects(app: FastAPI) -> None:
    """Translate tokens and statuses, outside of the door."""
    app.add_middleware(_Dialects)


class _Dialects:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        if path in ROOTS:
            path = ROOTS[path]
            scope = {**scope, "path": path, "raw_path": path.encode("ascii")}
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


def _translated(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    if name == OWN_HEADER:
        return b"authorization", value
    if name == b"authorization" and value[:6].lower() == b"basic ":
        try:
            _, _, token = base64.b64decode(value[6:], validate=True).partition(b":")
        except binascii.Error:
            return name, value
        return name, b"Bearer " + token
    return name, value
