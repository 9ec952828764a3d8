"""An answer that few calls want, so it is made when the first of them does."""

import asyncio
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from assay.edge.lifecycle import heard, joined

MadeT = TypeVar("MadeT")

_MAKING: Final = threading.Lock()
"""Held while an answer is made. Descriptions are read with `ast`, whose count of its depth all
threads of CPython 3.11 share: two that parse at once end with a SystemError now and then."""


class Late(Generic[MadeT]):
    """Makes an answer once, in a thread: other calls go on meanwhile, and a start never waits."""

    def __init__(self, make: Callable[[], MadeT]) -> None:
        """`make` is called until it returns; what it raises, those who wait then get."""
        self._make = make
        self._made: asyncio.Task[MadeT] | None = None

    async def get(self) -> MadeT:
        """The answer; a caller that goes away does not stop the others' wait."""
        if self._made is None or _failed(self._made):
            self._made = heard(asyncio.create_task(asyncio.to_thread(self._make_alone)))
        return await joined(self._made)

    def _make_alone(self) -> MadeT:
        with _MAKING:
            return self._make()


def _failed(made: asyncio.Task[MadeT]) -> bool:
    return made.done() and (made.cancelled() or made.exception() is not None)
