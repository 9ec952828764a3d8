"""A copy of the embedded store while it serves: a data directory of its own, ready to start.

The server writes each command to its log before it acknowledges it. So the copy has all that was
acknowledged before it began, and the first part of what came while it was made. Only a rewrite of
the log would replace files under the copy: it is switched off meanwhile.
"""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Final

from assay.core.errors import DependencyDown, FailedPrecondition
from assay.store.link import Link
from assay.store.server import embedded_url

LOG_FOLDER: Final = "appendonlydir"
REWRITE_S_MAX: Final = 600.0
"""How long a rewrite of the log in progress is awaited."""
POLL_S: Final = 0.2
TRIALS_MAX: Final = 3
"""Copies during which someone else had the log rewritten."""
_REWRITES: Final = "auto-aof-rewrite-percentage"
_TIMEOUT_S: Final = 10.0


async def back_up(data_dir: Path, target: Path) -> int:
    """Copy the store of a running platform to `target`, a data directory that is not there yet.

    Returns the bytes of its log.

    Raises:
        FailedPrecondition: `target` exists, or cannot be written.
        DependencyDown: the store does not answer, or its log is rewritten again and again.
    """
    if await asyncio.to_thread(target.exists):
        raise FailedPrecondition(f"{target} exists; name a new folder", field="target")
    link = Link(embedded_url(data_dir), prefix="", timeout_s=_TIMEOUT_S)
    partial = target.with_name(f"{target.name}.partial")
    try:
        _, percentage = await link.call("CONFIG", "GET", _REWRITES)
        await link.call("CONFIG", "SET", _REWRITES, 0)
        try:
            for _ in range(TRIALS_MAX):
                await _until_no_rewrite(link)
                copied = await asyncio.to_thread(_copy, data_dir / "store", partial / "store")
                if copied is not None:
                    partial.rename(target)
                    return copied
        finally:
            await link.call("CONFIG", "SET", _REWRITES, percentage)
    except OSError as error:
        message = f"{error.filename or target}: {error.strerror}"
        raise FailedPrecondition(message, field="target") from error
    finally:
        await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)
        await link.close()
    raise DependencyDown("the log of the store is being rewritten; try again")


async def _until_no_rewrite(link: Link) -> None:
    for _ in range(int(REWRITE_S_MAX / POLL_S)):
        told = (await link.call("INFO", "persistence")).decode()
        facts = dict(line.split(":", 1) for line in told.splitlines() if ":" in line)
        if facts["aof_rewrite_in_progress"] == facts["aof_rewrite_scheduled"] == "0":
            return
        await asyncio.sleep(POLL_S)
    raise DependencyDown("the log of the store has been rewritten for too long; try again")


def _copy(store: Path, target: Path) -> int | None:
    """Copy the files of the log that count, in the order in which they are read; `None`: they were
    replaced meanwhile."""
    shutil.rmtree(target.parent, ignore_errors=True)
    (target / LOG_FOLDER).mkdir(parents=True, mode=0o700)
    [manifest] = (store / LOG_FOLDER).glob("*.manifest")
    lines = manifest.read_text(encoding="utf-8").splitlines()
    counting = [line for line in lines if line.split()[-1] != "h"]  # h: replaced, to be removed
    copied = 0
    try:
        for line in counting:
            name = line.split()[1]
            copied += _copy_file(store / LOG_FOLDER / name, target / LOG_FOLDER / name)
    except FileNotFoundError:
        return None
    if manifest.read_text(encoding="utf-8").splitlines() != lines:
        return None
    written = target / LOG_FOLDER / manifest.name
    written.write_text("".join(f"{line}\n" for line in counting), encoding="utf-8")
    _copy_file(store / "layout", target / "layout")
    return copied


def _copy_file(source: Path, target: Path) -> int:
    shutil.copyfile(source, target)
    with target.open("rb+") as file:
        os.fsync(file.fileno())
        return file.seek(0, os.SEEK_END)
