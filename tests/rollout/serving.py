"""A real HTTP server in this process, for tests."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import FastAPI


class _Announcing(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = threading.Event()

    async def startup(self, sockets: object = None) -> None:
        del sockets
        await super().startup()
        self.listening.set()


@contextmanager
def serving(app: FastAPI, port: int = 0) -> Iterator[str]:
    """Its URL, while it serves."""
    server = _Announcing(
        uvicorn.Config(
            app,
            port=port,
            log_level="error",
            timeout_graceful_shutdown=1,
            lifespan="on",
            log_config=None,
        )
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert server.listening.wait(20)
    at = server.servers[0].sockets[0].getsockname()
    try:
        yield f"http://{at[0]}:{at[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
