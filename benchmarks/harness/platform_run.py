"""A separate platform for one measurement, on free ports and in a temporary directory."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import grpc

from assay.cli.operate.status_client import operator_metadata
from assay.cli.platform.addresses import Addresses, planner_address
from assay.cli.platform.local import LocalPlatform
from assay.config.settings import Settings, load_settings
from assay.edge.clock import Clock
from assay.v1 import planner_pb2, planner_pb2_grpc

FREE_PORTS = {
    "ASSAY_REWARD__GRPC_PORT": "0",
    "ASSAY_REWARD__HTTP_PORT": "0",
    "ASSAY_WORKER__CONTROL_PORT": "0",
    "ASSAY_PLANNER__GRPC_PORT": "0",
}
AWAKE = {"ASSAY_WORKER__PIPELINES_AWAKE": '["math", "code.python"]'}
"""What is measured is a platform at work, not its first request."""


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
        os.environ.update({**FREE_PORTS, **AWAKE, **overrides, "ASSAY_DATA_DIR": data_dir})
        settings = load_settings()
        platform = LocalPlatform(settings, clock=Clock())
        addresses = await platform.start()
        try:
            async with platform.kept() if revive else nullcontext():
                yield Run(settings=settings, addresses=addresses)
        finally:
            await platform.stop()


IDLE_CPU_S_MAX = 0.06
"""Of the platform, in a second in which it is called idle."""
IDLE_S_MAX = 300.0
"""On a machine with other work, compiling the planner's code takes minutes."""


async def until_planned(run: Run, work: Callable[[], Awaitable[None]]) -> None:
    """Do `work` until the planner plans it: the first plan loads or compiles code for seconds.

    Raises:
        TimeoutError: it never does.
    """
    async with asyncio.timeout(IDLE_S_MAX):
        while await _planning_process(planner_address(run.settings)) != "up":
            await work()


async def _planning_process(address: str) -> str:
    """Its state; empty while there is no planner yet."""
    if not address:
        return ""
    async with grpc.aio.insecure_channel(address) as channel:
        stub = planner_pb2_grpc.PlannerServiceStub(channel)
        question = planner_pb2.GetPlanRequest()
        answer = await stub.GetPlan(question, metadata=operator_metadata(), wait_for_ready=True)
        return str(answer.planning_process)


async def until_idle() -> None:
    """Wait until what this process started is idle: after a first batch the planner compiles.

    Raises:
        TimeoutError: it never is.
    """
    async with asyncio.timeout(IDLE_S_MAX):
        spent_s = float("inf")
        while spent_s > IDLE_CPU_S_MAX:
            before_s = cpu_s_below()
            await asyncio.sleep(1.0)
            spent_s = cpu_s_below() - before_s


def cpu_s_below() -> float:
    """CPU-seconds of the processes that this one started, those that live."""
    spent_ns = 0
    for pid in processes_below(os.getpid()):
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(FileNotFoundError, ProcessLookupError):
                spent_ns += int(task.read_text().split()[0])
    return spent_ns / 1e9


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
