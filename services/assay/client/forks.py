"""What a forked process must not share with the process that forked it.

Both have the same sockets, and an answer to one may be read by the other; a lock that another
thread held is never released; threads are gone. What has such things says so by `renew_in_child`
and makes them again.

gRPC is different: in a process that was forked while a channel was open it crashes or hangs, so
`check_grpc` refuses it there, in place of that.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakSet

from assay.core.errors import FailedPrecondition


class Renewed(Protocol):
    """Something with connections, locks or threads."""

    def renew(self) -> None:
        """Forget those of the parent, without closing what the parent still uses."""


_renewed: Final[WeakSet[Renewed]] = WeakSet()
_channels: Final[WeakSet[object]] = WeakSet()
_kept: Final[list[object]] = []
"""Never released: releasing them would end them for the parent, too, or wait for its threads."""
_inherited: Final[list[int]] = []
"""The process that had gRPC in use when it forked this one, or an ancestor of this one."""


def renew_in_child(one: Renewed) -> None:
    """Call `renew` in each forked process, before anything else runs there."""
    _renewed.add(one)


def keep(*objects: object) -> None:
    """Hold what belongs to the parent for as long as this process lives."""
    _kept.extend(objects)


def count_channel(channel: object) -> None:
    """Tell of a channel of gRPC; it counts as in use until it is released or `forget_channel`."""
    _channels.add(channel)


def forget_channel(channel: object) -> None:
    """A channel is closed."""
    _channels.discard(channel)


def check_grpc() -> None:
    """Check that gRPC works in this process.

    Raises:
        FailedPrecondition: it was forked from one with an open channel.
    """
    if _inherited:
        raise FailedPrecondition(
            f"gRPC was connected in process {_inherited[0]} when this one was forked from it, and "
            "does not work here: close clients before the fork, start processes with `spawn`, or "
            "use the HTTP port (http://HOST:8471)"
        )


def _renew() -> None:
    if _channels:
        _inherited.append(os.getppid())
        keep(*_channels)
        _channels.clear()
    for one in list(_renewed):
        one.renew()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew)
