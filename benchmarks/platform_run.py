"""A separate platform for one measurement, on free ports and in a temporary directory."""

import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from assay.cli.platform.addresses import Addresses
from assay.cli.platform.local import LocalPlatform
from assay.config.settings import Settings, load_settings
from assay.edge.clock import Clock

FREE_PORTS = {
    "ASSAY_REWARD__GRPC_PORT": "0",
    "ASSAY_REWARD__HTTP_PORT": "0",
    "ASSAY_WORKER__CONTROL_PORT": "0",
    "ASSAY_PLANNER__GRPC_PORT": "0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A running platform."""

    settings: Settings
    addresses: Addresses


@asynccontextmanager
async def local_platform(
    overrides: Mapping[str, str] = MappingProxyType({}), *, revive: bool = True
) -> AsyncIterator[Run]:
    """Start it with `ASSAY_...` overrides; crashed parts are restarted.

    Raises:
        DependencyDown: a part is in a crash loop; the block is cancelled.
    """
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as data_dir:
        os.environ.update({**FREE_PORTS, **overrides, "ASSAY_DATA_DIR": data_dir})
        settings = load_settings()
        platform = LocalPlatform(settings, clock=Clock())
        addresses = await platform.start()
        try:
            async with platform.kept() if revive else nullcontext():
                yield Run(settings=settings, addresses=addresses)
        finally:
            await platform.stop()


def processes_below(pid: int) -> dict[int, str]:
    """Every descendant of a process, and its command line."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, tail = stat.read_text().rpartition(")")
            children.setdefault(int(tail.split()[1]), []).append(int(head.split()[0]))
        except (FileNotFoundError, ProcessLookupError):
            continue
    found: dict[int, str] = {}
    todo = list(children.get(pid, []))
    while todo:
        one = todo.pop()
        todo += children.get(one, [])
        try:
            command = (Path("/proc") / str(one) / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[one] = command.replace(b"\0", b" ").decode(errors="replace").strip()
    return found
