"""From a signal to the end of the process: announce it, drain, stop.

One SIGTERM, SIGINT or SIGHUP stops a service; a second signal kills it as usual. While a service
listens, a file holds its addresses, so that ports may be any free ones. A failed start is one line
on stderr and an exit code, never a traceback.

Also how tasks end: work that goes on when its caller leaves (`to_its_end`, `joined`), errors that
no one may be left to hear (`heard`), loops that never end (`going_on`), and pauses that an event
may end (`wait_at_most`).
"""

import asyncio
import gc
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, TypeVar

import structlog
from pydantic import ValidationError

from assay.config.environment import UnknownSettingError
from assay.config.priority import trim
from assay.config.service_links import service_links
from assay.config.settings import ENV_PREFIX, Settings, load_settings
from assay.core.errors import AssayError, DependencyDown, FailedPrecondition
from assay.edge import logs, tracing
from assay.edge.tracing import Tracer

EXIT_UNAVAILABLE: Final = 69
"""`EX_UNAVAILABLE` of sysexits.h: a dependency does not answer; a later start may succeed."""
EXIT_CONFIGURATION: Final = 78
"""`EX_CONFIG`: no start succeeds before an operator changes something."""
USAGE: Final = (
    "a service takes no arguments but --check-settings; its settings are variables ASSAY_..., see "
    "docs/operations.md"
)
CHECK: Final = "--check-settings"
"""The one argument of a service: look at the settings, say whether they are right, and end."""
LINKS_NAMED_MAX: Final = 8
CANCELLED_UNDER: Final = "what it waited for was cancelled under it"
FEW_CALLS: Final = 64
LOOK_EVERY_S: Final = 5.0
POSTPONED_S_MAX: Final = 60.0
PAUSE: Final = 500
"""Length of the pause after a full collection, in times its CPU time."""
PARTIAL_LEAST: Final = 10
"""Partial collections after which there may be enough to find for a full one."""
NEVER: Final = 2**31 - 1

T = TypeVar("T")
FutureT = TypeVar("FutureT", bound=asyncio.Future[Any])

_OUTLIVING: Final[set[asyncio.Task[Any]]] = set()
"""Work whose caller may have gone; the event loop itself keeps no task alive."""

log = structlog.get_logger(__name__)


class Collector:
    """Full garbage collections, at moments when few calls wait for them.

    A full collection visits all objects of all calls in progress, and every call waits meanwhile: a
    caller that holds a thousand calls would stop all others again and again. So the interpreter
    itself makes only partial collections; a full one is made while few calls are in progress, or
    when it was postponed for `POSTPONED_S_MAX`. Few calls may hold many objects (a stream that no
    one reads holds its page): a collection is followed by a pause in proportion to its cost, so
    that at most one call in `PAUSE` meets one.
    """

    def __init__(
        self,
        calls: Callable[[], int],
        *,
        now_s: float,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        """`calls` returns the number of calls in progress, `cpu_s` the CPU time of this thread."""
        self._calls = calls
        self._cpu_s = cpu_s
        self._paused_until_s = now_s
        self._last_s = now_s
        self._thresholds = gc.get_threshold()
        gc.set_threshold(*self._thresholds[:2], NEVER)

    def look(self, now_s: float) -> bool:
        """Collect if this is a good moment; returns whether it was."""
        few = self._calls() <= FEW_CALLS or now_s >= self._last_s + POSTPONED_S_MAX
        if not few or now_s < self._paused_until_s or gc.get_count()[2] < PARTIAL_LEAST:
            return False
        begun_s = self._cpu_s()
        gc.collect()
        self._last_s = now_s
        pause_s = PAUSE * (self._cpu_s() - begun_s)
        self._paused_until_s = now_s + min(pause_s, POSTPONED_S_MAX)
        return True

    def close(self) -> None:
        """Leave it to the interpreter again."""
        gc.set_threshold(*self._thresholds)


@asynccontextmanager
async def collecting(calls: Callable[[], int]) -> AsyncIterator[None]:
    """A `Collector` at work for the duration of the block."""
    loop = asyncio.get_running_loop()
    collector = Collector(calls, now_s=loop.time())

    async def look() -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            collector.look(loop.time())

    looking = asyncio.create_task(look(), name="collector")
    try:
        yield
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
        collector.close()


@contextmanager
def stop_on_signals() -> Iterator[asyncio.Event]:
    """Set the event at the first SIGTERM, SIGINT or SIGHUP.

    A SIGHUP that is ignored (`nohup`) stays ignored.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    signals = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signals.append(signal.SIGHUP)

    def told(number: signal.Signals) -> None:
        log.info("stop_asked", signal=number.name)
        stop.set()
        for each in signals:
            loop.remove_signal_handler(each)

    for number in signals:
        loop.add_signal_handler(number, told, number)
    try:
        yield stop
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


@contextmanager
def listening(ready: Path, addresses: Mapping[str, str]) -> Iterator[None]:
    """Keep `addresses` (and our pid) in the file `ready` for the duration of the block.

    What the start made (modules, classes, settings) is never garbage; looking for garbage in it
    would make all calls wait. It is left out from here on.

    Raises:
        FailedPrecondition: the file cannot be written.
    """
    content = json.dumps({**addresses, "pid": os.getpid()})
    with starting():
        ready.parent.mkdir(parents=True, exist_ok=True)
        fresh = ready.with_suffix(f".{os.getpid()}.new")
        fresh.write_text(content, encoding="utf-8")
        fresh.replace(ready)
    gc.collect()
    gc.freeze()
    trim()
    try:
        yield
    finally:
        gc.unfreeze()
        # Another process may have taken our place already.
        if ready.exists() and ready.read_text(encoding="utf-8") == content:
            ready.unlink()


class Service(Protocol):
    """What a process serves."""

    async def run(self) -> None:
        """Serve until stopped."""


class BuildService(Protocol):
    """Make a service of its settings; called inside the event loop that will run it."""

    def __call__(self, settings: Settings, *, tracer: Tracer | None) -> Service: ...


async def serve(name: str, build: BuildService) -> None:
    """Load the settings, build the service, run it."""
    with starting():
        settings = load_settings()
    endpoint = settings.telemetry.otlp_endpoint
    tracer = tracing.tracer(service=f"assay-{name}", endpoint=endpoint)
    logs.configure(settings.telemetry, tracer=tracer)
    warn_of_service_links()
    try:
        with starting():
            service = build(settings, tracer=tracer if endpoint else None)
        await service.run()
    finally:
        tracer.close()


def run_service(
    name: str,
    serving: Coroutine[Any, Any, None],
    *,
    run: Callable[[Coroutine[Any, Any, None]], None],
    given: Sequence[str] = (),
) -> None:
    """Run a service to its end; an error of the contract becomes one line and an exit code.

    Args:
        name: what its lines on stderr begin with.
        serving: the service.
        run: runs a coroutine in a new event loop.
        given: arguments of the process. It takes none but `--check-settings`: another one is
            refused, and `--help` tells where the settings are.
    """
    if list(given) == [CHECK]:
        serving.close()
        serving = _check_settings(name)
    elif given:
        serving.close()
        for_help = given[0] in {"-h", "--help"}
        refused = "" if for_help else f"unknown argument {given[0]!r}; "
        sys.stderr.write(f"{name}: {refused}{USAGE}\n")
        sys.exit(0 if for_help else EXIT_CONFIGURATION)
    try:
        run(serving)
    except AssayError as error:
        line = f"{name}: {error.reason}: {' '.join(error.message.split())}"
        sys.stderr.write(f"{line}\n")
        down = isinstance(error, DependencyDown)
        sys.exit(EXIT_UNAVAILABLE if down else EXIT_CONFIGURATION)


def end() -> NoReturn:
    """End the process of a service that has stopped, at once.

    Left to itself the interpreter would free every object first. Of a process that was forked, that
    copies most of the pages that it shares, for nothing.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # no one reads it, or it is closed
            stream.flush()
    os._exit(0)


def warn_of_service_links() -> None:
    """Say once which variables are no settings, as they are Kubernetes' own for a Service."""
    links = sorted(service_links(os.environ, prefix=ENV_PREFIX))
    if links:
        log.warning(
            "service_links_ignored", variables=links[:LINKS_NAMED_MAX], count=len(links),
            remedy="enableServiceLinks: false in the pod",
        )  # fmt: skip


async def _check_settings(name: str) -> None:
    with starting():
        load_settings()
    sys.stdout.write(f"{name}: assay {_version()} takes these settings\n")


@contextmanager
def starting() -> Iterator[None]:
    """Turn an error caused by the operator's settings, files or ports into one that names them.

    Raises:
        FailedPrecondition: a setting is wrong, a port is taken, a file cannot be used.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        raise FailedPrecondition(told(error)) from error


def told(error: Exception) -> str:
    """An error of settings or of the operating system in one line, without the rejected value."""
    if isinstance(error, UnknownSettingError):
        return f"{error}: {_no_such_setting()}; see docs/operations.md for their names"
    if isinstance(error, ValidationError):
        return "; ".join(_setting(fault) for fault in error.errors(include_url=False))
    if isinstance(error, OSError) and error.strerror:
        files = ", ".join(str(name) for name in (error.filename, error.filename2) if name)
        return f"{files}: {error.strerror}" if files else error.strerror
    return str(error)


def _setting(fault: Mapping[str, Any]) -> str:
    """Name the setting as `docs/operations.md` does, with its environment variable."""
    steps = [str(step) for step in fault["loc"]]
    variable = ENV_PREFIX + "__".join(steps).upper()
    problem = _no_such_setting() if fault["type"] == "extra_forbidden" else fault["msg"]
    return f"{'.'.join(steps)} ({variable}): {problem}"


def _no_such_setting() -> str:
    """With the version, since what is set may be for a newer one."""
    return f"no such setting in assay {_version()}"


def _version() -> str:
    from importlib.metadata import version  # here: only what ends at once needs it

    return version("assay")


# -- work that outlives its caller, or never ends --------------------------------------------------
async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Await work that goes on to its end when its caller leaves."""
    task = heard(asyncio.create_task(work))
    _OUTLIVING.add(task)
    task.add_done_callback(_OUTLIVING.discard)
    return await joined(task)


async def joined(shared: asyncio.Future[T]) -> T:
    """The result of work that several may wait for, and that goes on when this caller leaves.

    Not `asyncio.shield`: of an error that its caller does not wait for, the event loop logs a
    traceback.
    """
    if not shared.done():
        await asyncio.wait((shared,))
    return shared.result()


def heard(work: FutureT) -> FutureT:
    """Take an error of this work for heard, whether or not those who wait for it still do."""
    work.add_done_callback(_hear)
    return work


async def going_on(begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Await work that ends only when it is cancelled, or fails; `begin` begins it.

    Raises:
        RuntimeError: something that it waited for was cancelled under it. Its task would end like
            one that was to end, and no one would know.
    """
    try:
        return await begin()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or not task.cancelling():
            raise RuntimeError(CANCELLED_UNDER) from None
        raise


async def wait_at_most(seconds: float, event: asyncio.Event) -> None:
    """Return when the event is set, or after so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def failure_of(ended: asyncio.Task[Any]) -> BaseException | None:
    """Why a task that has ended has failed; one that was cancelled has not, see `going_on`."""
    if not ended.cancelled():
        return ended.exception()
    return None if ended.cancelling() else RuntimeError(CANCELLED_UNDER)


def _hear(work: asyncio.Future[Any]) -> None:
    if not work.cancelled():
        work.exception()
