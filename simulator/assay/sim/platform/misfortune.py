"""Injects the faults of a seed into its world, each at its time."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from assay.core.ids import WorkerId
from assay.sim.platform.faults import Fault, Kind
from assay.sim.platform.ledger.ledger import refold
from assay.sim.platform.nodes import Node
from assay.sim.platform.world import World


class Misfortune:
    """The faults of one world."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def run(self) -> None:
        """Inject all faults, each at its time; return when the last has ended."""
        loop = self._world.loop
        begun: list[asyncio.Task[None]] = []
        for fault in self._world.faults:
            await asyncio.sleep(max(0.0, fault.at_s - loop.time()))
            begun.append(loop.create_task(self._strike(fault), name=f"fault {fault.kind}"))
        for task in begun:
            await task

    async def _strike(self, fault: Fault) -> None:
        self._world.striking += 1
        try:
            await self._work_harm(fault)
        finally:
            self._world.striking -= 1
            self._world.calm_since_s = self._world.loop.time()

    async def _work_harm(self, fault: Fault) -> None:
        match fault.kind:
            case Kind.CRASH_API | Kind.CRASH_HOST | Kind.CRASH_PLANNER:
                await self._crash(fault)
            case Kind.LOST_HOST:
                await self._world.give_up_host(fault.target)
            case Kind.STOP_HOST:
                await self._stop_host(fault)
            case Kind.CRASH_SLOT | Kind.STOP_SLOT:
                await self._hit_slot(fault)
            case Kind.FORKS_FAIL:
                self._world.slots.forks_fail += int(fault.size)
            case Kind.FAIL_OVER:
                await self._fail_over(fault.size)
            case Kind.CLOCK_JUMP:
                nodes = self._world.nodes()
                nodes[fault.target % len(nodes)].clock.offset_ns += int(fault.size * 1e9)
            case Kind.STORE_CLOCK_JUMP:
                self._world.server.clock.offset_ns += int(fault.size * 1e9)
            case Kind.PLANNING_DIES:
                self._world.troubles.deaths += int(fault.size)
            case _:
                with self._while_it_lasts(fault):
                    await asyncio.sleep(fault.size)

    @contextmanager
    def _while_it_lasts(self, fault: Fault) -> Iterator[None]:
        """A fault that begins, lasts and is over."""
        server, network = self._world.server, self._world.network
        weather = server.weather
        match fault.kind:
            case Kind.STORE_DOWN:
                server.go_down()
                yield
                server.come_up()
            case Kind.CUT_OFF | Kind.CUT_LEADER:
                node = self._cut_off(fault)
                node.cuts += 1
                yield
                node.cuts -= 1
            case Kind.STORE_SLOW:
                weather.slow = 100.0
                yield
                weather.slow = 1.0
            case Kind.LOSE_REQUESTS:
                weather.lose_requests = 0.2
                yield
                weather.lose_requests = 0.0
            case Kind.LOSE_ANSWERS:
                weather.lose_answers = 0.2
                yield
                weather.lose_answers = 0.0
            case Kind.DOUBLE_CALLS:
                network.double = True
                yield
                network.double = False
            case Kind.LOSE_CALLS:
                network.lose = True
                yield
                network.lose = False
            case Kind.BUSY_MACHINE:
                self._world.slots.slow = 3.0
                yield
                self._world.slots.slow = 1.0

    def _cut_off(self, fault: Fault) -> Node:
        nodes = self._world.nodes()
        if fault.kind is Kind.CUT_LEADER:
            leads = [one.node for one in self._world.planners.values() if one.lease.leads]
            nodes = leads or nodes
        return nodes[fault.target % len(nodes)]

    async def _fail_over(self, seconds_lost: float) -> None:
        self._world.server.go_down()
        await asyncio.sleep(0.5)
        self._world.ledger = refold(self._world.server.fail_over(seconds_lost), is_calm=False)
        self._world.server.come_up()

    async def _crash(self, fault: Fault) -> None:
        if fault.kind is Kind.CRASH_API:
            names = list(self._world.network.apis)
            name = names[fault.target % len(names)]
            api = self._world.network.apis[name]
            await self._die(api[0], fault)
            if self._world.network.apis[name] is api:
                self._world.start_api(name)
        elif fault.kind is Kind.CRASH_HOST:
            name = list(self._world.hosts)[fault.target % len(self._world.hosts)]
            life = self._world.hosts[name]
            await self._die(life.node, fault)
            life.forks.kill()
            if self._world.hosts[name] is life:
                self._world.start_host(name, predecessor=WorkerId(life.node.name))
        else:
            name = list(self._world.planners)[fault.target % len(self._world.planners)]
            planner = self._world.planners[name]
            await self._die(planner.node, fault)
            if self._world.planners[name] is planner:
                self._world.start_planner(name)

    async def _die(self, node: Node, fault: Fault) -> None:
        """Crash at the given external await, or after a while if there are not enough."""
        node.crash_in = fault.awaits
        try:
            async with asyncio.timeout(5.0):
                await node.died.wait()
        except TimeoutError:
            node.kill()
        await asyncio.sleep(fault.size)

    async def _stop_host(self, fault: Fault) -> None:
        name = list(self._world.hosts)[fault.target % len(self._world.hosts)]
        life = self._world.hosts[name]
        if life.is_stopping:
            return
        in_order = life.node.is_alive and await self._world.stop_host(life)
        if self._world.hosts[name] is life:
            before = None if in_order else WorkerId(life.node.name)
            self._world.start_host(name, predecessor=before)

    async def _hit_slot(self, fault: Fault) -> None:
        life = list(self._world.hosts.values())[fault.target % len(self._world.hosts)]
        slots = list(life.forks.slots)
        if not slots or not life.node.is_alive:
            return
        slot = slots[fault.target % len(slots)]
        if fault.kind is Kind.CRASH_SLOT:
            slot.die()
            return
        slot.runs.clear()
        await asyncio.sleep(fault.size)
        slot.runs.set()
