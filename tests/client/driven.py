"""An asynchronous client behind the methods of a synchronous one, for tests of both."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self, cast

from assay.client.loop_thread import LoopThread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable


class Driven:
    """Runs what an object does on an event loop in a thread, and waits for it."""

    def __init__(self, make: Callable[[], Any], loop: LoopThread | None = None) -> None:
        """`make` is called on the loop."""
        self._loop = LoopThread() if loop is None else loop

        async def made() -> Any:
            return make()

        try:
            self._own = self._loop.run(made())
        except BaseException:
            self._loop.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._loop.running:
            self._loop.run(self._own.close())
            self._loop.close()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._own, name)
        if not callable(found):
            return found

        def called(*arguments: object, **options: object) -> Any:
            told = found(*arguments, **options)
            if inspect.isasyncgen(told):
                return self._loop.iterate(cast("AsyncGenerator[Any, None]", told))
            if inspect.iscoroutine(told):
                told = self._loop.run(told)
            if hasattr(told, "pages"):  # a batch
                return Driven(lambda: told, self._loop)
            return told

        return called
