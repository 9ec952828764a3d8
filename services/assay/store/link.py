"""Connections to the server, timeouts, and the mapping of failures to errors.

No call is ever repeated here: a call whose reply was lost may have been executed, so only the
caller, which knows what is idempotent, repeats it. Calls that do not block share one connection;
each that blocks has one for itself while it does.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from assay.core.errors import DependencyDown, FailedPrecondition, Saturated
from assay.store.pipe import Argument as Argument
from assay.store.pipe import Pipe
from assay.store.pipe import Reply as Reply
from assay.store.script import Script
from assay.store.server import (
    ClusterDownError,
    CrossSlotError,
    ElsewhereError,
    LostConnection,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    ServerAddress,
    server_address,
)

SLICE: Final = 64
"""Most requests that one script call moves: the server runs one call at a time, and every tenant's
next call waits that long (about 2 ms)."""
WAITS_CONCURRENT_MAX: Final = 1_024
"""Connections for calls that block."""
BLOCK_GRACE_S: Final = 5.0
"""How much longer than its own timeout a blocking call may take."""
RELEASES_MAX: Final = 8
"""Versions of a function that a server keeps."""
_FAULTS: Final = frozenset({"WRONGTYPE", "EXECABORT", "NOPROTO", "NOGROUP", "BUSYGROUP", "BUSYKEY"})
"""Codes of errors that are about the call. All others are about the server's state, as `MISCONF`,
`NOREPLICAS`, `BUSY`, or `UNBLOCKED` at a failover; hosted servers have some of their own."""
_NOT_REACHED: Final = (
    *(LostConnection, TimeoutError, OSError),
    *(NoPermissionError, ReadOnlyError),  # only the operator can fix these
    *(ClusterDownError, ElsewhereError, CrossSlotError),
)
"""Errors after which the server may be another one."""


class Link:
    """One server, identified by a URL; connects on first use and reconnects as needed."""

    def __init__(self, url: str, *, prefix: str, timeout_s: float) -> None:
        """Prepare without connecting.

        Raises:
            FailedPrecondition: `url` is not the URL of a store.
        """
        self.prefix = prefix
        self.changes = 0
        """Changes when the server was lost or connected to: it may be another server now."""
        self._timeout_s = timeout_s
        self._address = _address_of(url)
        self._pipes: set[Pipe] = set()
        self._calls: Pipe | None = None
        self._connecting: asyncio.Task[Pipe] | None = None
        self._waits_idle: list[Pipe] = []
        self._has_functions = True
        self._waits = asyncio.Semaphore(WAITS_CONCURRENT_MAX)
        self._asking = asyncio.Lock()
        self._asked = self._confirmed = 0

    def key(self, kind: str, *names: str) -> str:
        """The key of a record, as the head of `scripts/requests.lua` lists them."""
        return f"{self.prefix}{kind}:{':'.join(names)}"

    # -- connections ---------------------------------------------------------------------------
    async def _open_pipe(self) -> Pipe:
        async with asyncio.timeout(self._timeout_s):
            stream = await self._address.connect()
            pipe = Pipe(stream, timeout_s=self._timeout_s, on_lost=self._note_loss)
            try:
                for command in self._address.greeting():
                    await pipe.call(command)
            except BaseException:
                pipe.close()
                raise
        self.changes += 1
        self._pipes = {pipe for pipe in self._pipes if not pipe.is_over}
        self._pipes.add(pipe)
        return pipe

    def _note_loss(self) -> None:
        self.changes += 1

    async def _pipe(self) -> Pipe:
        """The connection of calls, with room for one."""
        while True:
            pipe = self._calls
            if pipe is None or not pipe.is_open:
                pipe = await self._connect_once()
                if not pipe.is_open:  # the server ended it at once, as it will the next one
                    raise LostConnection(pipe.why_closed)
            if not pipe.is_free:
                await pipe.has_room()
            if pipe.is_open:
                return pipe

    async def _connect_once(self) -> Pipe:
        """All calls that find no connection wait for the same one."""
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._open_pipe(), name="store-connect")
            self._connecting.add_done_callback(self._connected)
        connecting = self._connecting  # not shielded: see `assay.edge.lifecycle.joined`
        await asyncio.wait((connecting,))
        return connecting.result()

    def _connected(self, task: asyncio.Task[Pipe]) -> None:
        self._connecting = None
        if not task.cancelled() and task.exception() is None:
            self._calls = task.result()

    # -- calls ---------------------------------------------------------------------------------
    async def run(self, script: Script, *arguments: Argument) -> Reply:
        """Run a script with the prefix as its only key."""
        try:
            pipe = self._calls
            if pipe is None or not pipe.is_free:
                pipe = await self._pipe()
            if script.library and self._has_functions:
                try:
                    return await pipe.call(("FCALL", script.function, 1, self.prefix, *arguments))
                except ResponseError as error:
                    if not _is_unknown(error):
                        raise
                pipe = await self._pipe()
                await self._load(pipe, script)
            try:
                return await pipe.call(("EVALSHA", script.sha, 1, self.prefix, *arguments))
            except NoScriptError:  # nothing was executed
                pipe = await self._pipe()
                return await pipe.call(("EVAL", script.text, 1, self.prefix, *arguments))
        except Exception as error:
            self._raise_named(error)
            raise

    async def _load(self, pipe: Pipe, script: Script) -> None:
        """Give the server the function of a script, for the next call of it.

        Functions of other releases stay while they are few, as their processes may run beside
        this one; beyond that they go, and a process that still needs one loads it again.
        """
        try:
            listed = await pipe.call(("FUNCTION", "LIST", "LIBRARYNAME", f"assay_{script.name}_*"))
            others = [one[one.index(b"library_name") + 1] for one in listed]
            for name in others if len(others) >= RELEASES_MAX else ():
                await pipe.call(("FUNCTION", "DELETE", name))
            await pipe.call(("FUNCTION", "LOAD", script.library))
        except ResponseError as error:
            passes = (OutOfMemoryError, ReadOnlyError)  # the call itself says what is wrong
            is_there = "already exists" in str(error)  # another process was first
            self._has_functions = is_there or isinstance(error, passes)

    async def call(self, *command: Argument) -> Reply:
        """Send one command and return its reply."""
        try:
            return await (await self._pipe()).call(command)
        except Exception as error:
            self._raise_named(error)
            raise

    async def log_has_taken(self) -> None:
        """Return once the server's log has taken all that the server has answered so far.

        The write at which a disk fills is answered like any other, but kept in memory alone; from
        then on the server refuses every command that asks for it, a `PING` included. Those that
        wait here at the same time share one.

        Raises:
            DependencyDown: the log has not.
        """
        asked = self._asked
        async with self._asking:
            if self._confirmed > asked:  # one that began after our answer
                return
            self._asked += 1
            await self.call("PING")
            self._confirmed = self._asked

    async def call_all(self, commands: Sequence[tuple[Argument, ...]]) -> Sequence[Reply]:
        """Two commands or more in one round trip, not as a transaction."""
        try:
            replies: Sequence[Reply] = await (await self._pipe()).call(*commands)
        except Exception as error:
            self._raise_named(error)
            raise
        return replies

    async def wait(self, *command: Argument, timeout_s: float) -> Reply:
        """One command that blocks for up to `timeout_s`, on a connection without other calls."""
        try:
            async with asyncio.timeout(timeout_s + BLOCK_GRACE_S), self._waits:
                pipe = await self._pipe_to_wait()
                answered = False
                try:
                    reply = await pipe.call(command, timeout_s=timeout_s + BLOCK_GRACE_S)
                    answered = True
                finally:
                    if answered:
                        self._waits_idle.append(pipe)
                    else:  # the server may answer later
                        pipe.close()
                return reply
        except Exception as error:
            self._raise_named(error)
            raise

    async def _pipe_to_wait(self) -> Pipe:
        while self._waits_idle:
            pipe = self._waits_idle.pop()
            if pipe.is_open:
                return pipe
        return await self._open_pipe()

    def _raise_named(self, error: Exception) -> None:
        """Raise the error of the contract for a failure; any other failure is a bug."""
        if isinstance(error, _NOT_REACHED):
            self.changes += 1
            message = f"store: {str(error) or type(error).__name__}"
            raise DependencyDown(message) from error
        if isinstance(error, OutOfMemoryError):
            message = "the store's memory is full"
            raise Saturated(message, retry_after_s=5.0) from error
        if isinstance(error, ResponseError) and _is_of_the_server(error):
            message = f"store: {error}"
            raise DependencyDown(message) from error

    async def close(self) -> None:
        """Close all connections; calls in progress fail."""
        if self._connecting is not None:
            self._connecting.cancel()
        for pipe in self._pipes:
            pipe.close()
        self._pipes.clear()
        self._waits_idle.clear()
        self._calls = None
        await asyncio.sleep(0)  # the transports end in the next turn of the loop


def _is_of_the_server(error: ResponseError) -> bool:
    """Whether its text begins with a code, which is not that of a fault of ours."""
    code = str(error).partition(" ")[0]
    return code.isalpha() and code.isupper() and code not in _FAULTS


def _is_unknown(error: ResponseError) -> bool:
    """Whether a function was not begun: the server has not got it, or does not let us call any."""
    text = str(error).lower()
    refused = isinstance(error, NoPermissionError) and "'fcall'" in text
    return refused or text.startswith(("function not found", "unknown command"))


def _address_of(url: str) -> ServerAddress:
    try:
        return server_address(url)
    except ValueError as error:
        message = f"store.url: {error}"
        raise FailedPrecondition(message, field="store.url") from error
