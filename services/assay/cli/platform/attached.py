"""The service that a command works with: the named one, the running one, or one of its own."""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from rich.text import Text

from assay.cli.console import settings_with
from assay.cli.platform.addresses import running
from assay.cli.platform.forks import WARM_LOG, PartForks
from assay.cli.printed import err
from assay.client import Backoff, Client
from assay.config.settings import Settings
from assay.core.errors import DependencyDown, NotFound, Saturated
from assay.edge.clock import Clock

OWN_DIR_PREFIX: Final = "assay-own-"
OWN_DIR_AGE_S_MIN: Final = 60.0
"""A younger directory without a lock may be one that is being made."""
REACH_S_MAX: Final = 5.0
"""How long to try a service that was named and does not answer."""


def begin_own(url: str, data_dir: Path | None) -> PartForks | None:
    """Import what the parts of a platform of one's own need, before it is started.

    They are forked from this process then, and share what it has imported already. So no file is
    open yet, and there is no thread.

    Args:
        url: see `service`.
        data_dir: see `service`.

    Returns:
        What to give to `service`; `None`: there is a service already.
    """
    if url or _running(data_dir):
        return None
    # The log of a directory of its own would go with it.
    log = Path(os.devnull) if data_dir is None else data_dir / "logs" / WARM_LOG
    forks = PartForks(log)
    with suppress(OSError):  # a data directory that cannot be used: it is named later
        forks.begin_here()
    return forks


@asynccontextmanager
async def service(
    url: str,
    data_dir: Path | None,
    clock: Clock,
    *,
    pipelines: Iterable[str],
    forks: PartForks | None = None,
) -> AsyncIterator[str]:
    """Give the address of `url`, of the platform on the data directory, or of one for this block.

    Args:
        url: of a service, or empty.
        data_dir: of the platform that runs, or is started; `None`: the default's, or a new one's.
        clock: for the age of directories.
        pipelines: those that are used; a platform of its own starts their stages at once.
        forks: where the parts of a platform of its own come from, see `begin_own`.

    Raises:
        DependencyDown: nothing answers at `url`, or a part of the platform does not start.
    """
    address = url or _running(data_dir)
    if address:
        if forks is not None:
            await forks.close()
        with err.status(Text(f"connecting to {address}")):
            await _reached(address)
        yield address
        return
    _sweep(clock)
    with tempfile.TemporaryDirectory(prefix=OWN_DIR_PREFIX, ignore_cleanup_errors=True) as own:
        any_port = {
            f"ASSAY_{name}": "0"
            for name in ("REWARD__GRPC_PORT", "REWARD__HTTP_PORT", "WORKER__CONTROL_PORT")
        }
        used = sorted(set(pipelines))
        # One job alone has all slots from the start: there is nothing to plan.
        overrides = {
            **any_port,
            "ASSAY_PLANNER__ENABLED": "false",
            "ASSAY_WORKER__PIPELINES_AWAKE": json.dumps(used),
        }
        from assay.cli.platform.local import LocalPlatform

        settings = settings_with(data_dir or Path(own), **overrides)
        if data_dir is None and not settings.worker.stages:
            # No other job comes here. One without programs needs no sandbox, and no trial of it.
            stages = json.dumps(_stages(settings, used))
            settings = settings_with(Path(own), ASSAY_WORKER__STAGES=stages)
        platform = LocalPlatform(settings, clock=clock, forks=forks)
        with err.status("starting the platform"):
            addresses = await platform.start()
        try:
            async with platform.kept():
                yield addresses.grpc
        finally:
            await platform.stop()


def _stages(settings: Settings, pipelines: Collection[str]) -> list[str]:
    """The stages of these pipelines; none, which stands for all, if one is not known."""
    # what a platform of its own has imported already
    from assay.core.ids import PipelineName
    from assay.verifiers.registry import PipelineError, load_pipelines

    try:
        known = load_pipelines(settings.verifiers)
    except PipelineError:  # the host says it
        return []
    found = [known.get(PipelineName(name)) for name in pipelines]
    if not all(found):
        return []
    return sorted({str(stage) for one in found if one for stage in one.spec.stages})


async def _reached(address: str) -> None:
    """A wrong address is known after seconds; an outage later on is waited for much longer."""
    async with Client(address, backoff=Backoff(total_s=REACH_S_MAX)) as client:
        try:
            with suppress(Saturated):  # it answers
                await client.list_pipelines()
        except DependencyDown as error:
            message = f"no service answers on {address}; start one with: assay up"
            raise DependencyDown(message) from error


def _sweep(clock: Clock) -> None:
    """Remove the directories of killed jobs: those whose locks are free."""
    for folder in Path(tempfile.gettempdir()).glob(f"{OWN_DIR_PREFIX}*"):
        with suppress(OSError):
            info = folder.lstat()
            young = clock.now_ns() / 1e9 - info.st_mtime < OWN_DIR_AGE_S_MIN
            if info.st_uid == os.getuid() and not young and not _is_held(folder):
                shutil.rmtree(folder)


def _is_held(folder: Path) -> bool:
    locks = [folder / "platform.lock", folder / "store" / "server.lock"]
    for path in (*locks, *folder.glob("run/*.lock")):
        if not path.exists():
            continue
        with path.open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def _running(data_dir: Path | None) -> str:
    try:
        return running(settings_with(data_dir)).grpc
    except NotFound:
        return ""
