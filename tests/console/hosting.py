"""The scene's service in a thread of its own, for tests that drive a browser."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr
from tests.console.planner import StandIn, address_of
from tests.console.scene import OPERATOR, TENANTS, caller, fill, judged, until_ended
from tests.running import Running, own_shard, running_api, working

from assay.config.access import OperatorSettings
from assay.config.ready_files import Part, ready_file

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from pathlib import Path

    from assay.store.embedded import EmbeddedValkey

START_S_MAX = 60.0


@dataclass(slots=True)
class Hosted:
    """The service, and its loop."""

    running: Running
    loop: asyncio.AbstractEventLoop
    data_dir: Path
    numbers: Iterator[int] = field(default_factory=count)

    @property
    def base(self) -> str:
        return self.running.addresses.http

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run something in its loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(START_S_MAX)

    def batch_of(self, texts: list[str]) -> str:
        """A complete batch of red's with these responses; returns its name."""
        return str(self.run(self._batch_of(texts)))

    @contextmanager
    def planned_by(self, planner: StandIn) -> Iterator[None]:
        """A planner answers on this machine until the block ends."""
        stack = AsyncExitStack()
        address = self.run(stack.enter_async_context(address_of(planner)))
        ready = ready_file(self.data_dir, Part.PLANNER)
        ready.parent.mkdir(parents=True, exist_ok=True)
        ready.write_text(json.dumps({"grpc": address, "pid": os.getpid()}))
        try:
            yield
        finally:
            ready.unlink()
            self.run(stack.aclose())

    async def _batch_of(self, texts: list[str]) -> str:
        batch = f"texts-{next(self.numbers)}"
        requests = {f"{batch}-{place}": text for place, text in enumerate(texts)}
        asks = caller(self.running, "red-submit")
        await asks.submit("texts", batch, requests, size=len(texts), group_size=len(texts))
        await until_ended(self.running, "red", batch, len(texts))
        return batch


@contextmanager
def hosted(valkey: EmbeddedValkey, folder: Path) -> Iterator[Hosted]:
    """Serve the scene until the block ends."""
    ready, over, found = threading.Event(), asyncio.Event(), []

    async def serve() -> None:
        settings = own_shard(valkey)
        operator = OperatorSettings(token=SecretStr(OPERATOR))
        api = running_api(
            settings, folder, operator=operator, tenants=TENANTS, tenant_calls_per_s_max=1e6
        )
        async with api as running, working(settings, judged):
            for tenant in TENANTS:
                await fill(running, tenant)
            found.append(Hosted(running, asyncio.get_running_loop(), folder))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="console-scene")
    thread.start()
    assert ready.wait(START_S_MAX)
    try:
        yield found[0]
    finally:
        found[0].loop.call_soon_threadsafe(over.set)
        thread.join(START_S_MAX)
