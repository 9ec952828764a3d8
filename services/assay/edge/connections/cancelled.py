"""Calls that are cancelled before their message is read.

Each costs the event loop a fraction of a millisecond for two frames of its client, and the calls of
others wait for it. An honest client cancels thousands at once when its own time is up, but it has
most of its calls answered; a flood has none. So there is a budget, and calls that are read add to
it.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

BURST: Final = 5_000
"""As many calls as a client may have begun when it gives all of them up."""
PER_S: Final = 64.0
DEBT_MAX: Final = 20 * 64
"""Further ones that count: a flood begins again with nothing, for twenty seconds after it."""
PER_READ: Final = 2.0
"""For each call whose message was read."""


@dataclass(slots=True)
class _Spent:
    calls: float
    at_s: float


class Cancelled:
    """What each caller has spent of its budget; those that spent nothing lately are not kept."""

    def __init__(self, *, burst: int = BURST, per_s: float = PER_S) -> None:
        self._burst = burst
        self._per_s = per_s
        self._spent: dict[Hashable, _Spent] = {}

    def __len__(self) -> int:
        return len(self._spent)

    def read(self, caller: Hashable) -> None:
        """A call's message was read."""
        spent = self._spent.get(caller)
        if spent is not None:
            spent.calls = max(0.0, spent.calls - PER_READ)

    def exceeds(self, caller: Hashable, now_s: float) -> bool:
        """Count a call that was cancelled unread; returns whether the budget is spent."""
        spent = self._spent.get(caller)
        if spent is None:
            spent = self._spent[caller] = _Spent(calls=0.0, at_s=now_s)
        spent.calls = min(self._left(spent, now_s) + 1.0, self._burst + DEBT_MAX)
        spent.at_s = now_s
        return spent.calls > self._burst

    def forget(self, now_s: float) -> None:
        """Drop those whose budget is whole again."""
        for caller, spent in list(self._spent.items()):
            if not self._left(spent, now_s):
                del self._spent[caller]

    def _left(self, spent: _Spent, now_s: float) -> float:
        return max(0.0, spent.calls - (now_s - spent.at_s) * self._per_s)
