"""Calls of the Kubernetes API: lists, watches and the scale subresource, as plain JSON.

The official client carries them (its configuration, TLS, tokens that rotate, and HTTP); its
generated models stay unused, because parsing 10,000 pods into them costs seconds. The API server
is never asked before an instant that it named itself (429 and 503 with Retry-After).
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.rest import RESTResponse

from assay.core.errors import AssayError, DependencyDown, InvalidRequest
from assay.core.tools.backoff import pause_s
from assay.edge.clock import Clock
from assay.planner.kubernetes.pods import Json, part, whole
from assay.planner.kubernetes.pool import FIELD_MANAGER

CALL_S_MAX: Final = 10.0
CONNECT_S_MAX: Final = 5.0
PAGE: Final = 500
"""Objects per page of a list."""
PAGES_MAX: Final = 1_000
WATCH_S: Final = 50
"""The server ends a watch after this long, and it continues where it ended. Short, since a
connection that died silently is noticed then."""
RETRY_AFTER_S_MAX: Final = 120.0
RETRY_AFTER_S: Final = 1.0
"""Pause after a refusal that names none."""
MESSAGE_CHARS_MAX: Final = 300
CONFLICTS_MAX: Final = 3
PATCH_TIMEOUT: Final = "5s"
"""The server answers within it, so that it names what it waited for: a webhook, its store."""
SLOW_S: Final = 2.0
"""A failure that took longer counts as no answer."""
REOPEN_S: Final = 5.0
"""Access that was refused is read again at most this often."""
CLOCKS_APART_S: Final = 3.0
"""Clocks that differ by less count as equal."""
OPENED: Final[Json] = {"type": "OPENED"}
Query = Mapping[str, str | int]


class Refused(AssayError):
    """The API server answered with an error status."""

    reason = "refused"

    def __init__(self, status: int, message: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(message[:MESSAGE_CHARS_MAX], retry_after_s=retry_after_s)
        self.status = status


class Gone(Refused):
    """410: the resource version is too old; list again."""


class Unanswered(DependencyDown):
    """The server waited too long for something that this call needs: a webhook, or its store."""


class Cut(DependencyDown):
    """The connection ended, or the time ran out, with the call sent and no answer."""


class KubernetesApi:
    """One API server; one connection pool."""

    def __init__(self, *, kubeconfig: Path | None, clock: Clock) -> None:
        self._kubeconfig = kubeconfig
        self._clock = clock
        self._client: ApiClient | None = None
        self._opened_ns = 0
        self._quiet_until_ns = 0
        self.ahead_s = 0.0
        """How far the API server's clock is ahead of ours; instants in objects are its own."""

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def list_all(self, path: str, selector: str) -> tuple[list[Json], str]:
        """All objects, page by page, and the resource version to watch from.

        Raises:
            Gone: it took so long that the server forgot the first page.
            DependencyDown, Refused: see `_answer`.
        """
        items: list[Json] = []
        query: dict[str, str | int] = {"labelSelector": selector, "limit": PAGE}
        for _ in range(PAGES_MAX):
            found = await self._json("GET", path, query)
            items += [one for one in found.get("items") or [] if isinstance(one, Mapping)]
            metadata = part(found, "metadata")
            more = str(metadata.get("continue") or "")
            if not more:
                return items, str(metadata.get("resourceVersion") or "")
            query["continue"] = more
        message = f"a list has more than {PAGES_MAX * PAGE} objects"
        raise DependencyDown(message)

    async def newest(self, path: str, selector: str) -> str:
        """The server's resource version now.

        Raises:
            DependencyDown, Refused: see `_answer`.
        """
        found = await self._json("GET", path, {"labelSelector": selector, "limit": 1})
        return str(part(found, "metadata").get("resourceVersion") or "")

    async def watch(self, path: str, selector: str, version: str) -> AsyncIterator[Json]:
        """Events after `version`, until the server or the network ends the stream; the first says
        that it is open.

        Raises:
            Gone: the version is too old.
            DependencyDown, Refused: see `_answer`.
        """
        query: dict[str, str | int] = {
            "labelSelector": selector, "watch": "true", "resourceVersion": version,
            "allowWatchBookmarks": "true", "timeoutSeconds": WATCH_S,
        }  # fmt: skip
        times = aiohttp.ClientTimeout(
            total=WATCH_S + CALL_S_MAX, sock_connect=CONNECT_S_MAX, sock_read=None
        )
        async with self._answer("GET", path, query, times=times) as answer:
            yield OPENED
            async for line in answer.response.content:
                event = _parsed(line)
                if event.get("type") == "ERROR":
                    raise _refusal(part(event, "object"), 0.0, 0)
                yield event

    async def scale(self, path: str, replicas: int) -> Json:
        """Set `spec.replicas` of a scale subresource; returns the scale.

        Raises:
            InvalidRequest: it is not there, is not ours to size, or the number is refused, by a
                webhook that fails too.
            Unanswered: what the server asks for this pool does not answer.
            DependencyDown: the API server cannot be reached or asks to wait.
        """
        body = {"spec": {"replicas": replicas}}
        for attempt in range(CONFLICTS_MAX + 1):
            try:
                return await self.patch(path, body)
            except Refused as error:
                if error.status == 409 and attempt < CONFLICTS_MAX:
                    continue
                if error.status in {400, 403, 404, 405, 409, 422}:
                    message = f"{_REASONS[error.status]}: {error.message}"
                    raise InvalidRequest(message, field="slots") from error
                if error.status < 500:
                    raise DependencyDown(f"the API server answers {error.status}") from error
                raise InvalidRequest(f"Refused: {error.message}", field="slots") from error
        raise AssertionError  # the last attempt raises

    async def patch(self, path: str, body: Json) -> Json:
        """Change some fields of an object; returns it.

        Raises:
            Unanswered: what the server asks for this object does not answer. When the server's
                time runs out while it writes that down, it closes the connection instead.
            DependencyDown, Refused: see `_answer`.
        """
        query = {"fieldManager": FIELD_MANAGER, "timeout": PATCH_TIMEOUT}
        begun_ns = self._clock.monotonic_ns()
        try:
            return await self._json("PATCH", path, query, body)
        except (Cut, Refused) as error:
            failed = isinstance(error, Cut) or error.status >= 500
            if failed and self._clock.monotonic_ns() - begun_ns > SLOW_S * 1e9:
                raise Unanswered(error.message) from error
            raise

    # -- one call ------------------------------------------------------------------------------
    async def _json(self, method: str, path: str, query: Query, body: object = None) -> Json:
        times = aiohttp.ClientTimeout(total=CALL_S_MAX, sock_connect=CONNECT_S_MAX)
        async with self._answer(method, path, query, body, times) as answer:
            return _parsed(await answer.read())

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        query: Query,
        body: object = None,
        times: aiohttp.ClientTimeout | None = None,
    ) -> AsyncIterator[RESTResponse]:
        """A good answer, its body not read yet.

        Raises:
            DependencyDown: it cannot be reached, or asked to wait (429, 503).
            Cut: it took the call and did not answer.
            Refused: it answered with another error.
        """
        left_s = (self._quiet_until_ns - self._clock.monotonic_ns()) / 1e9
        if left_s > 0:
            message = f"the API server asked to wait {left_s:.1f} s more"
            raise DependencyDown(message, retry_after_s=left_s)
        try:
            answer = await self._send(method, path, query, body, times)
            try:
                await self._check(answer)
                yield answer
            finally:
                answer.response.close()
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            if isinstance(error, aiohttp.ClientConnectorCertificateError):
                await self._read_access_again()
            message = f"the API server does not answer: {type(error).__name__} {error}"
            kind = DependencyDown if isinstance(error, _NOT_SENT) else Cut
            raise kind(message[:MESSAGE_CHARS_MAX]) from error
        except kube_config.ConfigException as error:
            raise DependencyDown(f"no access to the API server: {error}") from error

    async def _send(
        self,
        method: str,
        path: str,
        query: Query,
        body: object,
        times: aiohttp.ClientTimeout | None,
    ) -> RESTResponse:
        client = self._client or await self._open()
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json"
        call = await client.param_serialize(
            method, path, query_params=list(query.items()), header_params=headers, body=body,
            auth_settings=["BearerToken"],
        )  # fmt: skip
        answer: RESTResponse = await client.call_api(*call, _request_timeout=times)
        return answer

    async def _open(self) -> ApiClient:
        settings = Configuration()
        if self._kubeconfig is None:
            kube_config.load_incluster_config(settings)
        else:
            await kube_config.load_kube_config(
                str(self._kubeconfig), client_configuration=settings, persist_config=False
            )
        settings.retries = None  # the control loop retries
        self._client = ApiClient(settings)
        self._opened_ns = self._clock.monotonic_ns()
        return self._client

    async def _read_access_again(self) -> None:
        """The next call takes token and authority from their files, where they may be others now.
        This ends what is open: the watches resume."""
        if self._clock.monotonic_ns() - self._opened_ns >= REOPEN_S * 1e9:
            await self.close()

    async def _check(self, answer: RESTResponse) -> None:
        status = answer.status
        self._compare_clocks(answer.getheader("Date"))
        if status < 400:
            return
        try:
            told = _parsed(await answer.read())
        except ValueError:
            told = {}
        if status == 401:
            await self._read_access_again()
        after_s = _retry_after_s(answer.getheader("Retry-After"))
        if status in {429, 503} or (status >= 500 and after_s):
            after_s = after_s or RETRY_AFTER_S
            self._quiet_until_ns = self._clock.monotonic_ns() + round(after_s * 1e9)
            message = f"the API server answers {status}: wait {after_s:g} s"
            raise DependencyDown(message, retry_after_s=after_s)
        raise _refusal(told, after_s, status)

    def _compare_clocks(self, date: str | None) -> None:
        """Dates are in whole seconds and arrive late, so small differences are ignored."""
        try:
            there_s = parsedate_to_datetime(date or "").timestamp()
        except ValueError:
            return
        ahead_s = there_s - self._clock.now_ns() / 1e9
        self.ahead_s = ahead_s if abs(ahead_s) > CLOCKS_APART_S else 0.0


_NOT_SENT: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""There was no connection."""
_REASONS: Final = {
    400: "Refused",
    403: "Forbidden",
    404: "NotFound",
    405: "Refused",
    409: "Conflict",
    422: "Refused",
}


def _refusal(status: Json, after_s: float, http_status: int) -> Refused:
    code = whole(status.get("code"), http_status) or http_status
    message = str(status.get("message") or status.get("reason") or f"status {code}")
    kind = Gone if code == 410 else Refused
    return kind(code, message, retry_after_s=after_s)


def _retry_after_s(value: str | None) -> float:
    """Seconds of a Retry-After header; a date or nonsense counts as absent."""
    try:
        found = float(value or 0)
    except ValueError:
        return 0.0
    return min(max(found, 0.0), RETRY_AFTER_S_MAX) if found == found else 0.0


def _parsed(content: bytes) -> Json:
    found: Any = json.loads(content)
    if not isinstance(found, dict):
        raise ValueError("the API server's answer is not a JSON object")  # noqa: TRY004 - malformed
    return found


async def pause(clock: Clock, error: AssayError, failures: int) -> None:
    """Wait before the next attempt: as long as the server says, else longer each time."""
    wait_s = error.retry_after_s or pause_s(failures + 1, first_s=0.2, longest_s=10.0)
    await clock.sleep(wait_s)
