"""Calls of an OpenAI-compatible API: bounded in time and size, retried, with typed failures.

A failed call is the platform's, never a verdict about a response: it raises. One call has one
deadline over all its attempts. Waits that a server asks for (`Retry-After`) are kept within it.
"""

import contextlib
import http.client
import json
import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from assay.config.settings import JudgeProvider
from assay.core.tools.backoff import pause_s
from assay.edge.clock import Clock
from assay.verifiers.port import Permits, RateLimits

T = TypeVar("T")
REPLY_BYTES_MAX: Final = 4 * 1024 * 1024
_PAUSE_S_FIRST: Final = 0.5
_PAUSE_S_MAX: Final = 20.0
_CHUNK: Final = 64 * 1024
_ASK_AGAIN: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_RETRY_S_MAX: Final = 86_400.0
_DETAIL_CHARS: Final = 300


class JudgeError(Exception):
    """A call of a provider failed; an infrastructure failure."""

    def __init__(self, message: str, *, wait_s: float = 0.0) -> None:
        """`wait_s`: how long the server asks to wait before the next attempt."""
        super().__init__(message)
        self.wait_s = wait_s


class ProviderBusy(JudgeError):
    """It, or the tenant's share of it, allows no more calls for now (429, a rate limit)."""


class ProviderDown(JudgeError):
    """It cannot be reached, answers late, or fails (5xx)."""


class ProviderRefuses(JudgeError):
    """It refuses the call (another 4xx): the operator's settings are wrong."""


class ReplyBroken(JudgeError):
    """Its answer is no completion, or one of another model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A model's reply to a prompt, and what it cost."""

    text: str
    model: str
    tokens: int
    """Of prompt and reply, as the server counts them; 0 if it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One chat completion."""

    messages: Sequence[Mapping[str, str]]
    temperature: float
    tokens_max: int
    json_mode: bool


class Provider:
    """One provider, as the operator configured it."""

    def __init__(
        self,
        name: str,
        settings: JudgeProvider,
        permits: Permits,
        *,
        clock: Clock,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._name = name
        self._settings = settings
        self._permits = permits
        self._clock = clock
        self._sleep = sleep
        self._limits = RateLimits(
            requests_per_minute=settings.requests_per_minute,
            tokens_per_minute=settings.tokens_per_minute,
        )

    def _now_s(self) -> float:
        return self._clock.monotonic_ns() / 1e9

    def complete(self, call: Call, tenant: str) -> Completion:
        """Ask until there is a reply.

        Raises:
            JudgeError: there is none within the attempts and the time; its class says why.
        """
        tokens = call.tokens_max + sum(len(one["content"]) for one in call.messages) // 4
        body: dict[str, Any] = {
            "model": self._settings.model,
            "messages": list(call.messages),
            "temperature": call.temperature,
            "max_tokens": call.tokens_max,
        }
        if call.json_mode:
            body["response_format"] = {"type": "json_object"}
        found: Completion = self._until_answered(
            "/chat/completions", body, tenant, tokens, self._completion
        )
        return found

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        tenant: str,
        tokens: int,
        read: Callable[[Any], T],
    ) -> T:
        """Ask another route of the server until `read` can read its JSON.

        Raises:
            JudgeError: there is no such answer within the attempts and the time.
        """
        found: T = self._until_answered(
            path, body, tenant, tokens, lambda content: read(self._json(content))
        )
        return found

    def _until_answered(
        self,
        path: str,
        body: Mapping[str, Any],
        tenant: str,
        tokens: int,
        read: Callable[[bytes], Any],
    ) -> Any:  # noqa: ANN401 - what `read` returns
        settings = self._settings
        deadline_s = self._now_s() + settings.total_s
        attempt = 0
        while True:
            attempt += 1
            try:
                self._await_permit(tokens, tenant, deadline_s)
                limit_s = min(deadline_s, self._now_s() + settings.timeout_s)
                status, headers, content = self._post(path, body, limit_s)
                self._check_status(status, headers, content)
                return read(content)
            except (ProviderBusy, ProviderDown, ReplyBroken) as error:
                own_s = pause_s(attempt, first_s=_PAUSE_S_FIRST, longest_s=_PAUSE_S_MAX)
                wait_s = max(error.wait_s, own_s * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
                if attempt >= settings.attempts_max or self._now_s() + wait_s >= deadline_s:
                    raise
                self._sleep(wait_s)

    def _await_permit(self, tokens: int, tenant: str, deadline_s: float) -> None:
        while wait_s := self._permits.take(tenant, self._name, self._limits, tokens):
            if self._now_s() + wait_s >= deadline_s:
                raise ProviderBusy(f"{self._name}: the rate limit of {tenant or 'this tenant'}")
            self._sleep(wait_s)

    def _check_status(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        if status == http.HTTPStatus.OK:
            return
        detail = content[:_DETAIL_CHARS].decode("utf-8", "replace")
        message = f"{self._name}: HTTP {status}: {detail}"
        if status in _ASK_AGAIN:
            kind = ProviderBusy if status in {429, 529} else ProviderDown
            raise kind(
                message,
                wait_s=retry_after_s(headers.get("retry-after", ""), self._clock.now_ns() / 1e9),
            )
        raise ProviderRefuses(message)

    def _completion(self, content: bytes) -> Completion:
        try:
            told = json.loads(content)
            choice = told["choices"][0]
            text = choice["message"]["content"]
            model = told.get("model", "")
            usage = told.get("usage") or {}
            tokens = usage.get("total_tokens", 0)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            raise ReplyBroken(f"{self._name}: not a completion") from None
        if not isinstance(text, str) or not isinstance(model, str):
            raise ReplyBroken(f"{self._name}: a completion without text")
        if choice.get("finish_reason") == "length":
            raise ReplyBroken(f"{self._name}: the reply was cut off at its largest length")
        wanted = self._settings.model
        if self._settings.check_model and not model.startswith(wanted):
            raise ReplyBroken(f"{self._name}: answered as {model[:100]!r}, not {wanted!r}")
        return Completion(text=text, model=model, tokens=tokens if isinstance(tokens, int) else 0)

    def _json(self, content: bytes) -> Any:  # noqa: ANN401 - any JSON
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise ReplyBroken(f"{self._name}: the answer is not JSON") from None

    def _post(
        self, path: str, body: Mapping[str, Any], deadline_s: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        """One HTTP request; the deadline holds for all of it, however slowly bytes come.

        Raises:
            ProviderDown: no complete answer in time.
            ReplyBroken: the answer is too large, or no HTTP.
        """
        base = urlsplit(self._settings.base_url)
        target = f"{base.path.rstrip('/')}{path}"
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        key = os.environ.get(self._settings.api_key_env, "") if self._settings.api_key_env else ""
        if key:
            headers["Authorization"] = f"Bearer {key}"
        content = json.dumps(body).encode("ascii")
        held = _connection(base.scheme, base.hostname or "", base.port, self._left(deadline_s))
        watch: threading.Timer | None = None
        try:
            with contextlib.closing(held):
                held.connect()
                # Time-outs of sockets are per read: an answer that trickles would outlast any.
                # The connection forgets its socket once the server wants to close it.
                watch = threading.Timer(self._left(deadline_s), _shut, [held.sock])
                watch.daemon = True
                watch.start()
                held.request("POST", target, body=content, headers=headers)
                reply = held.getresponse()
                found = {name.lower(): value for name, value in reply.getheaders()}
                return reply.status, found, self._read(reply)
        except OSError as error:
            raise ProviderDown(f"{self._name}: {type(error).__name__}: {error}") from error
        except (http.client.HTTPException, ValueError) as error:
            late = self._now_s() >= deadline_s
            kind = ProviderDown if late else ReplyBroken
            raise kind(f"{self._name}: {type(error).__name__}: {error}") from error
        finally:
            if watch is not None:
                watch.cancel()

    def _left(self, deadline_s: float) -> float:
        return max(0.001, deadline_s - self._now_s())

    def _read(self, reply: http.client.HTTPResponse) -> bytes:
        content = reply.read(REPLY_BYTES_MAX + 1)
        if len(content) > REPLY_BYTES_MAX:
            raise ReplyBroken(f"{self._name}: an answer of more than {REPLY_BYTES_MAX} bytes")
        if reply.length:
            raise http.client.IncompleteRead(b"", reply.length)
        return content


def _shut(held: socket.socket) -> None:
    """End a connection that is in use by another thread."""
    with contextlib.suppress(OSError):
        held.shutdown(socket.SHUT_RDWR)


def _connection(
    scheme: str, host: str, port: int | None, timeout_s: float
) -> http.client.HTTPConnection:
    if scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
    return http.client.HTTPConnection(host, port, timeout=timeout_s)


def retry_after_s(value: str, now_s: float) -> float:
    """Seconds that a `Retry-After` header asks for; 0 if it asks for nothing that can be read.

    Args:
        value: seconds, or a date.
        now_s: the time since 1970, in seconds.
    """
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now_s
        except (ValueError, TypeError, OverflowError):
            return 0.0
    return seconds if 0 <= seconds < _RETRY_S_MAX else 0.0
