"""What functions returned, remembered for each tenant apart.

A result tells the CPU time that it took. If one tenant's judgement used what another's has left
behind, that would tell whether the other has sent the same answer or reference.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

from assay.core.tools.lru import TenantCache

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(slots=True)
class _Serving:
    tenant: str = ""


_serving = _Serving()


def serve(tenant: str) -> None:
    """What is asked from now on is asked for `tenant`; a slot works on one thing at a time."""
    _serving.tenant = tenant


class Remembered(Generic[P, R]):
    """A function of hashable arguments that is called once for each of them."""

    def __init__(self, function: Callable[P, R], entries_max: int) -> None:
        self._function = function
        self._entries_max = entries_max
        self.cache_clear()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function's result; an exception is not remembered."""
        key = (args, tuple(kwargs.items()))
        known = self._known.get(_serving.tenant, key)
        if known is None:
            known = (self._function(*args, **kwargs),)
            self._known.put(_serving.tenant, key, known)
        return known[0]

    def cache_clear(self) -> None:
        self._known: TenantCache[object, tuple[R]] = TenantCache(weight_max=self._entries_max)


def remembered(entries_max: int) -> Callable[[Callable[P, R]], Remembered[P, R]]:
    """As `functools.lru_cache`, per tenant."""
    return lambda function: Remembered(function, entries_max)
