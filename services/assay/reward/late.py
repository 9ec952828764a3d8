"""An answer that few calls want, so it is made when the first of them does."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

MadeT = TypeVar("MadeT")


class Late(Generic[MadeT]):
    """Makes an answer once, in a thread: other calls go on meanwhile, and a start never waits."""

    def __init__(self, make: Callable[[], MadeT]) -> None:
        """`make` is called once; what it raises, every caller gets."""
        self._make = make
        self._made: asyncio.Task[MadeT] | None = None

    async def get(self) -> MadeT:
        """The answer; a caller that goes away does not stop the others' wait."""
        if self._made is None:
            self._made = asyncio.create_task(asyncio.to_thread(self._make))
        return await asyncio.shield(self._made)
