"""A gRPC channel that is made where it is used: gRPC binds a channel to one event loop.

`LoopChannel` makes one per event loop, on the first call there, so that a client may be made before
its loop runs, and be used by one loop after another (`asyncio.run` twice, a notebook).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assay.client import forks

if TYPE_CHECKING:
    from collections.abc import Callable

    import grpc


@dataclass(slots=True)
class _OfLoop:
    loop: asyncio.AbstractEventLoop
    channel: grpc.aio.Channel
    methods: dict[Method, Callable[..., Any]] = field(default_factory=dict)


class LoopChannel:
    """Has as much of `grpc.aio.Channel` as stubs need."""

    def __init__(self, make: Callable[[], grpc.aio.Channel]) -> None:
        """Make none yet.

        Args:
            make: makes a channel for the running loop.
        """
        self._make = make
        self._made: dict[int, _OfLoop] = {}
        forks.renew_in_child(self)

    def renew(self) -> None:
        """Leave the channels of the parent to it."""
        forks.keep(self._made)
        self._made = {}

    def unary_unary(self, *arguments: Any, **options: Any) -> Method:  # noqa: ANN401 of gRPC
        return Method(self, "unary_unary", arguments, options)

    def unary_stream(self, *arguments: Any, **options: Any) -> Method:  # noqa: ANN401 of gRPC
        return Method(self, "unary_stream", arguments, options)

    def stream_unary(self, *arguments: Any, **options: Any) -> Method:  # noqa: ANN401 of gRPC
        return Method(self, "stream_unary", arguments, options)

    def stream_stream(self, *arguments: Any, **options: Any) -> Method:  # noqa: ANN401 of gRPC
        return Method(self, "stream_stream", arguments, options)

    def of_loop(self) -> _OfLoop:
        """The channel of the running loop.

        Raises:
            FailedPrecondition: gRPC does not work in this process.
        """
        loop = asyncio.get_running_loop()
        found = self._made.get(id(loop))
        if found is None or found.loop is not loop:
            forks.check_grpc()
            ended = [name for name, one in self._made.items() if one.loop.is_closed()]
            for name in ended:
                forks.forget_channel(self._made.pop(name).channel)
            found = self._made[id(loop)] = _OfLoop(loop, self._make())
            forks.count_channel(found.channel)
        return found

    async def close(self) -> None:
        """Close the channel of the running loop; calls in progress are cancelled."""
        found = self._made.pop(id(asyncio.get_running_loop()), None)
        if found is not None:
            await found.channel.close()
            forks.forget_channel(found.channel)


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """A method of a stub, on the channel of the loop that calls it."""

    _channel: LoopChannel
    _kind: str
    _arguments: tuple[Any, ...]
    _options: dict[str, Any]

    def __call__(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 of gRPC
        here = self._channel.of_loop()
        method = here.methods.get(self)
        if method is None:
            kind = getattr(here.channel, self._kind)
            method = here.methods[self] = kind(*self._arguments, **self._options)
        return method(*arguments, **options)
