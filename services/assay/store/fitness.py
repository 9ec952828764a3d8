"""Whether a server is fit to keep acknowledged work: first by asking it, then by trying.

`judge` is pure: it gets the server's INFO and what the settings accept, and returns a `Fitness`, or
raises one `FailedPrecondition` whose line names the setting and the remedy. What cannot be asked (a
permission, a cluster's slots, a server that only speaks the protocol) is tried: one script calls
every command that our scripts use.

A server may change later (a failover, `CONFIG SET`), so it is examined again after each loss of
the connection and at least every `EXAMINE_EVERY_S`.
"""

import asyncio
import re
import secrets
import ssl
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from assay.config.settings import StoreSettings
from assay.core.errors import DependencyDown, FailedPrecondition
from assay.core.store_limits import Fitness
from assay.store.link import Link, Reply
from assay.store.port import WorkerStore
from assay.store.script import load_script
from assay.store.server import (
    AuthenticationError,
    CrossSlotError,
    ElsewhereError,
    NoPermissionError,
    ReadOnlyError,
    ServerError,
)

REDIS_VERSION_MIN: Final = (7, 0)
"""Introduced `#!lua flags=` and PEXPIRETIME; every Valkey has both."""
MEMORY_MARGIN_BYTES: Final = 128 * 1024**2
"""Memory that `maxmemory` must leave for requests in addition to artifacts."""
EXAMINE_EVERY_S: Final = 30.0
WATCH_EVERY_S: Final = 5.0
RETRY_S: Final = 0.25
PROBED_MS: Final = 10_000
"""How long the keys stay on which commands that wait are tried, if no one removes them."""
WAIT_S: Final = "0.001"
_INFO_NEEDED: Final = ("aof_enabled", "maxmemory", "maxmemory_policy", "role")


def _log() -> Any:  # noqa: ANN401 its type is not exported
    """The logger; imported on use, for commands that only read the store log nothing."""
    import structlog

    return structlog.get_logger(__name__)


def parse_info(text: bytes) -> Mapping[str, str]:
    """Parse the reply of INFO into names and values."""
    lines = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines())
    return {name: value.strip() for name, colon, value in lines if colon}


def judge(info: Mapping[str, str], appendfsync: str, settings: StoreSettings) -> Fitness:
    """Decide whether a server with this `info` is fit.

    Raises:
        FailedPrecondition: it is not; `field` is the setting that accepts it, or `store.url`.
    """
    server = _version(info)
    _place(info)
    notes = [*_unknown(info, settings), *_memory(info, settings), *_persistence(info, settings)]
    if info.get("aof_enabled") == "1" and appendfsync not in {"always", ""}:
        lost = "up to 2 s" if appendfsync == "everysec" else "what the kernel holds, usually 30 s"
        notes.append(f"appendfsync {appendfsync}: power loss can lose {lost} of acknowledged work")
    appends = info.get("aof_enabled")
    return Fitness(
        server=server,
        appends=None if appends is None else appends == "1",
        appendfsync=appendfsync,
        notes=tuple(notes),
    )


def _unfit(field: str, what: str, remedy: str) -> FailedPrecondition:
    return FailedPrecondition(f"{field}: the server {what}; {remedy}", field=field)


def _version(info: Mapping[str, str]) -> str:
    if valkey := info.get("valkey_version"):
        return f"valkey {valkey}"
    version = info.get("redis_version", "")
    parts = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if version and parts < REDIS_VERSION_MIN:
        raise _unfit("store.url", f"is Redis {version}", "use Redis 7.0 or newer, or any Valkey")
    return f"redis {version}" if version else ""


def _place(info: Mapping[str, str]) -> None:
    if info.get("redis_mode", info.get("server_mode")) == "sentinel":
        raise _unfit("store.url", "is a sentinel", "name the primary that it watches")
    if info.get("role") in {"slave", "replica"}:
        primary = f"{info.get('master_host', '?')}:{info.get('master_port', '?')}"
        raise _unfit("store.url", f"is a replica of {primary}", "name the primary")


def _unknown(info: Mapping[str, str], settings: StoreSettings) -> list[str]:
    missing = [name for name in _INFO_NEEDED if name not in info]
    if not missing:
        return []
    what = f"does not report {', '.join(missing)} (INFO)"
    if not settings.accept_unverified:
        remedy = "permit INFO, or set store.accept_unverified=true if you know that they are safe"
        raise _unfit("store.accept_unverified", what, remedy)
    return [f"the server {what}: accepted unverified"]


def _memory(info: Mapping[str, str], settings: StoreSettings) -> list[str]:
    bytes_max = int(info.get("maxmemory", "0"))
    policy = info.get("maxmemory_policy", "noeviction")
    if not bytes_max:
        return []
    if policy != "noeviction":
        what = f"evicts keys when maxmemory is reached (maxmemory-policy {policy})"
        raise _unfit("store.url", what, "set maxmemory-policy noeviction there")
    needed = settings.artifacts_bytes_max + MEMORY_MARGIN_BYTES
    if bytes_max < needed:
        what = f"has maxmemory {bytes_max:,} bytes, less than the required {needed:,}"
        remedy = "raise maxmemory there or lower store.artifacts_bytes_max"
        raise _unfit("store.artifacts_bytes_max", what, remedy)
    return []


def _persistence(info: Mapping[str, str], settings: StoreSettings) -> list[str]:
    if info.get("aof_enabled", "1") == "1":
        return []
    what = "keeps no append-only file (appendonly no), so acknowledged work is lost when it stops"
    if not settings.accept_data_loss:
        remedy = "set appendonly yes there, or store.accept_data_loss=true to accept that"
        raise _unfit("store.accept_data_loss", what, remedy)
    return [f"the server {what}: accepted by store.accept_data_loss"]


class Examiner:
    """Examines the server behind a link, and remembers when it last did."""

    def __init__(self, link: Link, settings: StoreSettings, *, url: str, embedded: bool) -> None:
        self._link = link
        self._settings = settings
        self._embedded = embedded
        self._place = place(url)
        self._probe = load_script("probe")
        self._examined_s: float | None = None
        self._changes = 0
        self._why = ""

    async def examine(self) -> Fitness:
        """Ask and try.

        Raises:
            FailedPrecondition: it is unfit, or refuses access; the message says what to change.
            DependencyDown: it cannot be reached now, or cannot serve yet.
        """
        changes = self._link.changes
        try:
            fitness = await self._examine()
        except DependencyDown as error:
            raise self._named(error) from error
        except ServerError as error:
            remedy = "use Redis 7.0 or newer, or any Valkey"
            raise _unfit("store.url", f"does not support our commands ({error})", remedy) from error
        self._examined_s, self._changes = asyncio.get_running_loop().time(), changes
        self._why = ""
        return fitness

    async def keep(self) -> None:
        """Examine again when it is due, or when the connection was lost meanwhile.

        Raises:
            DependencyDown: the server became unfit; repeat until it is fit again.
        """
        now_s = asyncio.get_running_loop().time()
        recent = self._examined_s is not None and now_s - self._examined_s < EXAMINE_EVERY_S
        if recent and self._changes == self._link.changes and not self._why:
            return
        try:
            await self.examine()
        except FailedPrecondition as error:
            if error.message != self._why:
                _log().warning("store_unfit", why=error.message)
            self._why = error.message
            raise DependencyDown(error.message, field=error.field) from error

    async def _examine(self) -> Fitness:
        info = parse_info(await self._said("INFO") or b"")
        settings = self._settings
        if self._embedded:  # our own errors, not the operator's
            fitness = judge(info, "always", settings)
        else:
            fitness = judge(info, await self._appendfsync(), settings)
        name = secrets.token_hex(6)
        failed = await self._link.run(self._probe, name, PROBED_MS)
        if failed:
            command, why = (word.decode("utf-8", "replace") for word in failed[0])
            what = f"refuses {command} ({why})"
            raise _unfit(
                "store.url", what, "permit its user to call it on keys that begin with assay:"
            )
        # They find something: a server looks whether a wait has lasted long enough only every so
        # often, the embedded one twice per second.
        probed = f"{self._link.prefix}probe:{name}:"
        await self._tried("BZPOPMIN", f"{probed}z", WAIT_S)
        await self._tried("BLMOVE", f"{probed}l", f"{probed}l", "LEFT", "LEFT", WAIT_S)
        await self._tried("XREAD", "COUNT", 1, "STREAMS", f"{probed}x", "0")
        await self._said("UNLINK", f"{probed}l")
        return fitness

    async def _tried(self, command: str, *arguments: str | int) -> None:
        try:
            await self._link.wait(command, *arguments, timeout_s=self._settings.timeout_s)
        except DependencyDown as error:
            if not _forbidden(error.__cause__):
                raise
            what = f"refuses {command} ({error.__cause__})"
            raise _unfit("store.url", what, "permit its user to call it") from error

    async def _appendfsync(self) -> str:
        reply = await self._said("CONFIG", "GET", "appendfsync")
        return reply[1].decode() if reply and len(reply) == 2 else ""

    async def _said(self, *command: str) -> Reply:
        """Return its reply; `None` if the server forbids the command (managed servers do)."""
        try:
            return await self._link.call(*command)
        except ServerError:
            return None
        except DependencyDown as error:
            if _forbidden(error.__cause__):
                return None
            raise

    def _named(self, error: DependencyDown) -> DependencyDown | FailedPrecondition:
        """Name the setting that fixes the error, where there is one."""
        cause = error.__cause__
        if _chain_has(cause, AuthenticationError):
            what = f"at {self._place} refuses the name or the password ({cause})"
            return _unfit("store.url", what, "correct them: redis://NAME:PASSWORD@HOST")
        if _forbidden(cause):
            what = f"at {self._place} does not permit what is needed ({cause})"
            return _unfit("store.url", what, "grant the permission, or use another user")
        if _chain_has(cause, ssl.SSLError):
            what = f"at {self._place}: TLS failed ({cause})"
            return _unfit(
                "store.url", what, "use rediss:// with TLS, redis:// without; check the CA"
            )
        if isinstance(cause, (ElsewhereError, CrossSlotError)):
            what = f"at {self._place} is a cluster node that does not hold our keys ({cause})"
            return _unfit("store.url", what, "use the node that does, or change store.shard")
        if isinstance(cause, ReadOnlyError):
            what = f"at {self._place} refuses writes ({cause})"
            return _unfit("store.url", what, "name the primary")
        return DependencyDown(f"store.url: {self._place}: {error.message}", field="store.url")


def _forbidden(cause: BaseException | None) -> bool:
    return isinstance(cause, NoPermissionError)


def _chain_has(error: BaseException | None, kind: type[BaseException]) -> bool:
    for _ in range(10):
        if error is None or isinstance(error, kind):
            return error is not None
        error = error.__cause__ or error.__context__
    return False


def place(url: str) -> str:
    """Host and port of a URL, without the password."""
    parts = urlsplit(url)
    return parts.path if parts.scheme == "unix" else f"{parts.hostname}:{parts.port or 6379}"


async def until_fit(store: WorkerStore, *, wait_s: float) -> Fitness:
    """Wait for a server that is still starting; return its fitness.

    Raises:
        FailedPrecondition: it is unfit, or refuses access.
        DependencyDown: it did not answer for `wait_s`.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + wait_s
    while True:
        try:
            fitness = await store.check()
        except DependencyDown as error:
            if loop.time() > deadline_s:
                message = f"{error.message}; start it, or correct store.url (waited {wait_s:g} s)"
                raise DependencyDown(message, field=error.field) from error
            await asyncio.sleep(RETRY_S)
        else:
            for note in fitness.notes:
                _log().warning("store_risk", note=note)
            return fitness


async def watch_fitness(store: WorkerStore) -> AsyncGenerator[str, None]:
    """Yield why the store is not fit, at intervals and without end; empty when it is fit."""
    while True:
        await asyncio.sleep(WATCH_EVERY_S)
        try:
            await store.ping()
        except DependencyDown as error:
            yield error.message
        else:
            yield ""
