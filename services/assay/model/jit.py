"""Inner loops are compiled where numba is installed and run as plain Python where it is not.

The compiled and the plain loop are the same source, so they cannot drift apart; the *readable*
reference is `assay.sim.pools.reference`, and tests hold the loops to it.

A loop that allocates is `jit`. One that only reads and writes the arrays that it gets is
`in_place`: counting references to them takes most of the time of short functions with many arrays.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

try:
    import numba
except ImportError:  # the plain loops are some hundred times slower and give the same answers

    def jit(function: Callable[P, R]) -> Callable[P, R]:
        """Leave the loop as it is."""
        return function

    def in_place(function: Callable[P, R]) -> Callable[P, R]:
        """Leave the loop as it is."""
        return function

    def part(function: Callable[P, R]) -> Callable[P, R]:
        """Leave the loop as it is."""
        return function
else:

    def compiled(
        function: Callable[P, R],
        **options: Any,  # noqa: ANN401 - numba's types name some only
    ) -> Callable[P, R]:
        """Compile at the first call and keep the machine code for later processes.

        Where no directory for it can be written, as in a container without a home whose root is
        read-only, each process compiles for itself.
        """
        try:
            return cast("Callable[P, R]", numba.njit(cache=True, **options)(function))
        except RuntimeError:  # "no locator available"
            return cast("Callable[P, R]", numba.njit(**options)(function))

    def jit(function: Callable[P, R]) -> Callable[P, R]:
        """Compile the loop."""
        return compiled(function)

    def in_place(function: Callable[P, R]) -> Callable[P, R]:
        """Compile the loop, and count no references: it can allocate nothing."""
        return compiled(function, _nrt=False)

    def part(function: Callable[P, R]) -> Callable[P, R]:
        """Compile it into each loop that calls it, as if it stood there."""
        return compiled(function, _nrt=False, inline="always")
