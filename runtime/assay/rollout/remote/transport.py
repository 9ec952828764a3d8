"""HTTP to one server: JSON responses and streams of server-sent events, with typed errors.

After `ServerLost` a retry may succeed; after `ServerRefused` it cannot.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import httpx

from assay.rollout.errors import ServerLost, ServerRefused

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from assay.rollout.remote.options import RemoteOptions

HEALTH: Final = "/health"
"""Every supported server has this route."""
_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
_ERROR_CHARS_MAX = 400


class Transport:
    """One server's connections; belongs to one event loop."""

    def __init__(self, url: str, options: RemoteOptions, api_key: str | None) -> None:
        self._options = options
        # Twice, because an abandoned request keeps its connection until its response begins.
        limits = httpx.Limits(max_connections=2 * options.decode_credits + 4)
        headers = {"Accept-Encoding": "identity"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        timeout = httpx.Timeout(
            options.idle_s, connect=options.connect_s, pool=options.idle_s + options.connect_s
        )
        self._client = httpx.AsyncClient(
            base_url=url.rstrip("/"), headers=headers, limits=limits, timeout=timeout
        )
        self._abandoned: set[asyncio.Future[Any]] = set()
        """Requests that no one waits for any more, and their closing."""

    async def call(
        self, method: str, path: str, body: object = None, *, timeout_s: float | None = None
    ) -> Any:  # noqa: ANN401 - JSON
        """One request and its JSON response.

        Raises:
            ServerLost: no response, or one that asks to retry later.
            ServerRefused: the server cannot do this.
        """
        text = await self.command(method, path, body, timeout_s=timeout_s)
        return _json(path, text) if text else None

    async def command(
        self, method: str, path: str, body: object = None, *, timeout_s: float | None = None
    ) -> str:
        """One request and the text of its response, for routes that answer in words.

        Raises:
            ServerLost: no response, or one that asks to retry later.
            ServerRefused: the server cannot do this.
        """
        allowed = self._options.admin_s if timeout_s is None else timeout_s
        try:
            status, text = await self._whole(method, path, body, allowed)
        except (httpx.HTTPError, TimeoutError) as error:
            raise ServerLost(f"{path}: {type(error).__name__} {error}") from error
        _check(path, status, text)
        return text

    async def check_health(self, timeout_s: float) -> None:
        """Ask the server whether it serves.

        Raises:
            ServerLost: no response, or an error of the server. A server without this route serves.
        """
        try:
            status, _ = await self._whole("GET", HEALTH, None, timeout_s)
        except (httpx.HTTPError, TimeoutError) as error:
            raise ServerLost(f"{HEALTH}: {type(error).__name__} {error}") from error
        if status >= 500:
            raise ServerLost(f"{HEALTH}: status {status}")

    async def events(self, path: str, body: object) -> AsyncGenerator[dict[str, Any], None]:
        """The events of a stream until `[DONE]`.

        Raises:
            ServerLost: it broke off, or was silent for too long.
            ServerRefused: the server cannot serve this request.
        """
        try:
            async with aclosing(await self._begin("POST", path, body)) as answer:
                if answer.status_code != 200:
                    _check(path, answer.status_code, await self._text(path, answer))
                async for line in self._lines(path, answer):
                    if line == "data: [DONE]":
                        return
                    if line.startswith("data: "):
                        yield _event(path, line[6:])
        except httpx.HTTPError as error:
            raise ServerLost(f"{path}: {type(error).__name__} {error}") from error
        raise ServerLost(f"{path}: the stream was cut off")

    async def _whole(
        self, method: str, path: str, body: object, timeout_s: float
    ) -> tuple[int, str]:
        """Status and text."""
        async with (
            asyncio.timeout(timeout_s),  # httpx's own is that of each read
            aclosing(await self._begin(method, path, body, timeout_s)) as answer,
        ):
            return answer.status_code, await self._text(path, answer)

    async def _text(self, path: str, answer: httpx.Response) -> str:
        _check_plain(path, answer)
        body = bytearray()
        async for part in answer.aiter_bytes():
            body += part
            if len(body) > self._options.event_bytes_max:
                raise ServerRefused(
                    f"{path}: an answer above {self._options.event_bytes_max} bytes"
                )
        return body.decode(errors="replace")

    async def _begin(
        self, method: str, path: str, body: object, timeout_s: float | None = None
    ) -> httpx.Response:
        """Send a request; return when its response begins.

        A request that is cancelled before it has its connection would occupy a place in the
        client's pool until the pool is closed. So the sending is never cancelled: it ends by
        itself, and what comes of it is closed.
        """
        waits = self._client.timeout if timeout_s is None else httpx.Timeout(timeout_s)
        request = self._client.build_request(method, path, json=body, timeout=waits)
        sending = asyncio.ensure_future(self._client.send(request, stream=True))
        try:
            await asyncio.wait((sending,))
        except asyncio.CancelledError:
            self._abandoned.add(sending)
            sending.add_done_callback(self._close_abandoned)
            raise
        return sending.result()

    def _close_abandoned(self, sending: asyncio.Future[httpx.Response]) -> None:
        self._abandoned.discard(sending)
        if sending.cancelled() or sending.exception() is not None:
            return
        closing = asyncio.ensure_future(sending.result().aclose())
        self._abandoned.add(closing)
        closing.add_done_callback(self._abandoned.discard)

    async def _lines(self, path: str, answer: httpx.Response) -> AsyncGenerator[str, None]:
        _check_plain(path, answer)
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
        while left := list(self._abandoned):
            for request in left:
                request.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        await self._client.aclose()


def _check_plain(path: str, answer: httpx.Response) -> None:
    """Refuse a compressed answer: a few bytes of it may become gigabytes."""
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise ServerRefused(f"{path}: a compressed answer, which was not asked for")


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
    except (ValueError, RecursionError) as error:
        raise ServerLost(f"{path}: not JSON: {text[:80]!r}") from error


def _event(path: str, text: str) -> dict[str, Any]:
    event = _json(path, text)
    if not isinstance(event, dict):
        raise ServerLost(f"{path}: not an object: {text[:80]!r}")
    if "error" in event:
        raise ServerLost(f"{path}: {str(event['error'])[:_ERROR_CHARS_MAX]}")
    return event
