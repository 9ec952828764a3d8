"""One seed, from start to end: the finding, and a hash of all events."""

import asyncio
import contextlib
import hashlib
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from assay.edge.metrics import Metrics
from assay.sim.platform.checks import InstantChecks, check_end
from assay.sim.platform.faults import Fault, draw_faults, shrink
from assay.sim.platform.ledger.entries import Finding, require
from assay.sim.platform.loop import Deadlock, Livelock, VirtualLoop
from assay.sim.platform.misfortune import Misfortune
from assay.sim.platform.nodes import task_factory
from assay.sim.platform.store import SimulatedCall
from assay.sim.platform.world import FAULTS_UNTIL_S, SETTLE_S_MAX, Shape, World

REAL_PLANS_EVERY: Final = 8
"""One of this many seeds makes real plans."""
GROUPS_EVERY, GROUPS_AT = 4, 2
"""In seeds with this remainder, groups are judged as a whole."""
BRISK_EVERY, BRISK_AT = 5, 2
"""In seeds with this remainder, most works are short."""
SETTLING_S: Final = 0.5
TOGETHER_SHARE: Final = 0.3
"""Share of seeds in which the first stage judges a batch at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Result of one run."""

    seed: int
    faults: Sequence[Fault]
    finding: str
    """Empty: no invariant was violated."""
    virtual_s: float
    instants: int
    commands: int
    ended: int
    """Requests."""
    digest: str
    """SHA-256 of every command with its time and result; empty if not requested."""
    log: Sequence[SimulatedCall] = ()


def shape_of(seed: int) -> Shape:
    """Size of a seed's platform."""
    draw = random.Random(f"{seed}/shape")  # noqa: S311 - to be repeated, not secret
    return Shape(
        apis=draw.randint(1, 2),
        hosts=draw.randint(1, 3),
        planners=draw.randint(1, 2),
        startup_s=draw.choice([0.4, 3.0]),
        together=draw.random() < TOGETHER_SHARE,
        groups=seed % GROUPS_EVERY == GROUPS_AT,
        brisk=seed % BRISK_EVERY == BRISK_AT,
        real_plans=seed % REAL_PLANS_EVERY == REAL_PLANS_EVERY - 1,
    )


def seed_faults(seed: int) -> Sequence[Fault]:
    """A seed's own faults."""
    return draw_faults(seed, until_s=FAULTS_UNTIL_S)


def run_seed(
    seed: int,
    faults: Sequence[Fault] | None = None,
    *,
    hashed: bool = False,
    keep_log: bool = False,
) -> RunReport:
    """Run a seed, with its own faults or with the given ones."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    if faults is None:
        faults = seed_faults(seed)
    checks: list[InstantChecks] = []

    def on_instant() -> None:
        for one in checks:
            one.look()

    loop = VirtualLoop(str(seed), on_instant=on_instant)
    loop.set_task_factory(task_factory)  # type: ignore[arg-type]  # asyncio's stub has no context
    broken: list[str] = []
    loop.set_exception_handler(lambda _, context: _note(broken, context))
    finding, world = "", None
    try:
        asyncio.set_event_loop(loop)
        world = loop.run_until_complete(_prepare(seed, faults, loop))
        checks.append(InstantChecks(world))
        loop.run_until_complete(_live(world))
        checks.clear()
        check_end(world)
        require(not broken, "a callback failed", errors=broken)
    except (Finding, Deadlock, Livelock) as error:
        finding = f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 - any bug of the platform
        finding = f"{type(error).__name__}: {error}"
    finally:
        checks.clear()
        loop.set_exception_handler(lambda _, __: None)
        _end(loop)
    assert world is not None  # noqa: S101 - preparing never fails
    return RunReport(
        seed=seed,
        faults=faults,
        finding=finding,
        virtual_s=loop.time(),
        instants=loop.instants,
        commands=len(world.server.log),
        ended=world.ledger.ended,
        digest=_digest(world.server.log) if hashed else "",
        log=world.server.log if keep_log else (),
    )


def _note(broken: list[str], context: dict[str, object]) -> None:
    if "exception" in context and "never retrieved" not in str(context.get("message")):
        broken.append(f"{context.get('message')}: {context['exception']!r}")


async def _prepare(seed: int, faults: Sequence[Fault], loop: VirtualLoop) -> World:
    world = World(seed, faults, shape_of(seed), loop, Metrics())
    world.start()
    return world


def _is_settled(world: World) -> bool:
    """No lease is left, and each batch of an honest tenant has ended."""
    if any(world.ledger.leased.values()):
        return False
    batches = world.ledger.batches.items()
    return all(
        one.has_ended(forgets=world.forgets)
        for (tenant, _), one in batches
        if tenant.startswith("tenant")
    )


async def _live(world: World) -> None:
    """Tenants and faults, then a quiet period, then the end."""
    honest, others = world.tenants()
    world.calm_since_s = world.loop.time()
    misfortune = world.loop.create_task(Misfortune(world).run(), name="faults")
    await misfortune
    try:
        async with asyncio.timeout(SETTLE_S_MAX):
            await asyncio.gather(*honest, *others)
            while not _is_settled(world):  # noqa: ASYNC110 - no event says so
                await asyncio.sleep(SETTLING_S)
    except TimeoutError:
        # `gather` has cancelled those that had not ended.
        stuck = [task.get_name() for task in (*honest, *others) if task.cancelled()]
        stuck += [] if stuck else ["batches or leases"]
        raise Finding(f"work does not end; stuck={stuck}") from None
    for _, service in world.network.apis.values():
        await service.close()
    for life in world.hosts.values():
        if life.node.is_alive:
            await world.stop_host(life)
    for one in world.planners.values():
        if one.node.is_alive:
            await asyncio.wait([one.node.spawn(one.controller.stop(), name="stop")])
            one.node.kill()
    for node, _ in world.network.apis.values():
        left = [task.get_name() for task in node.tasks if not task.done()]
        require(not left, "an API that stopped leaves tasks", tasks=left)
        node.kill()
    await asyncio.sleep(1.0)


def _end(loop: VirtualLoop) -> None:
    """Cancel everything that still waits."""
    for task in asyncio.all_tasks(loop):
        task.cancel()
    with contextlib.suppress(Exception):  # the run has ended; its result is known
        loop.run_until_complete(asyncio.sleep(0))
    asyncio.set_event_loop(None)
    loop.close()


def _digest(log: Sequence[SimulatedCall]) -> str:
    found = hashlib.sha256()
    for command in log:
        found.update(repr(command).encode())
    return found.hexdigest()


def shrunk(report: RunReport) -> RunReport:
    """The same finding with the fewest faults."""
    word = report.finding.split(";")[0]

    def still_fails(faults: Sequence[Fault]) -> bool:
        return run_seed(report.seed, faults).finding.split(";")[0] == word

    return run_seed(report.seed, tuple(shrink(report.faults, still_fails)), hashed=True)
