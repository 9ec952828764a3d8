"""HTTP to one server: JSON responses and streams of server-sent events, with typed errors.

After `ServerLost` a retry may succeed; after `ServerRefused` it cannot.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx

from assay.rollout.errors import ServerLost, ServerRefused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from assay.rollout.remote.options import RemoteOptions

_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
_ERROR_CHARS_MAX = 400


class Transport:
    """One server's connections; belongs to one event loop."""

    def __init__(self, url: str, options: RemoteOptions, api_key: str | None) -> None:
        self._options = options
        limits = httpx.Limits(max_connections=options.decode_credits + 4)
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        timeout = httpx.Timeout(
            options.idle_s, connect=options.connect_s, pool=options.idle_s + options.connect_s
        )
        self._client = httpx.AsyncClient(
            base_url=url.rstrip("/"), headers=headers, limits=limits, timeout=timeout
        )

    async def call(
        self, method: str, path: str, body: object = None, *, timeout_s: float | None = None
    ) -> Any:  # noqa: ANN401 - JSON
        """One request and its JSON response.

        Raises:
            ServerLost: no response, or one that asks to retry later.
            ServerRefused: the server cannot do this.
        """
        allowed = self._options.admin_s if timeout_s is None else timeout_s
        try:
            answer = await self._client.request(method, path, json=body, timeout=allowed)
        except httpx.HTTPError as error:
            raise ServerLost(f"{path}: {type(error).__name__} {error}") from error
        _check(path, answer.status_code, answer.text)
        return _json(path, answer.text) if answer.content else None

    async def events(self, path: str, body: object) -> AsyncGenerator[dict[str, Any], None]:
        """The events of a stream until `[DONE]`.

        Raises:
            ServerLost: it broke off, or was silent for too long.
            ServerRefused: the server cannot serve this request.
        """
        try:
            async with self._client.stream("POST", path, json=body) as answer:
                if answer.status_code != 200:
                    _check(
                        path, answer.status_code, (await answer.aread()).decode(errors="replace")
                    )
                async for line in self._lines(path, answer):
                    if line == "data: [DONE]":
                        return
                    if line.startswith("data: "):
                        yield _event(path, line[6:])
        except httpx.HTTPError as error:
            raise ServerLost(f"{path}: {type(error).__name__} {error}") from error
        raise ServerLost(f"{path}: the stream was cut off")

    async def _lines(self, path: str, answer: httpx.Response) -> AsyncGenerator[str, None]:
        held = ""
        async for text in answer.aiter_text():
            held += text
            *lines, held = held.split("\n")
            if len(held) > self._options.event_bytes_max:
                raise ServerRefused(f"{path}: an event above {self._options.event_bytes_max} bytes")
            for line in lines:
                yield line.rstrip("\r")

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()


def _check(path: str, status: int, text: str) -> None:
    if status < 300:
        return
    said = f"{path}: status {status}: {text[:_ERROR_CHARS_MAX]}"
    if status in _BUSY:
        raise ServerLost(said)
    raise ServerRefused(said, status=status)


def _json(path: str, text: str) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(text)
    except ValueError as error:
        raise ServerLost(f"{path}: not JSON: {text[:80]!r}") from error


def _event(path: str, text: str) -> dict[str, Any]:
    event = _json(path, text)
    if not isinstance(event, dict):
        raise ServerLost(f"{path}: not an object: {text[:80]!r}")
    if "error" in event:
        raise ServerLost(f"{path}: {str(event['error'])[:_ERROR_CHARS_MAX]}")
    return event
