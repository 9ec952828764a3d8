"""Which members of a group make its stage fail. Pure.

A stage that judges whole groups is one run about K responses. If one of them makes it fail (a
limit, an exception, the end of the slot), the others must not lose their rewards, and the one must
not lose its own either. So the group runs again in parts, each a control for the next:

* first the *control*: one member whose response is replaced by a trusted one, or, where the stage
  knows none, by trivial ones in turn (`assay.verifiers.total.TRIVIAL`), and if it judges none
  of these, a group of the same task that passed here before;
* then halves, until the largest part that passes is known. A member with which that part fails,
  and without which it passes, is at fault.

Invariants: a member is blamed only against a control that passed (the part without it, or the
trusted member). A failure without a measured cause counts after `RUNS_MAX` of them in a row, as in
`assay.verifiers.total`. A group of K members takes at most `runs_max(K)` runs, none of them longer
than the stage's limits; each is a run of the same stage in the same kind of slot.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast

from assay.verifiers.total import RUNS_MAX

CONTROL: Final = ()
"""The part that stands for the trusted member."""
KNOWN: Final = (-1,)
"""The part that stands for a group that passed before."""

Suspects = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """How a run of the stage failed."""

    error: str
    limit: str = ""
    """The limit of the stage that was measured to be broken; empty: the cause is not known."""
    cpu_s: float = 0.0


Steps = Generator[Suspects, Failure | None, None]
"""Yields what runs next, and is sent how it failed."""


def runs_max(members: int) -> int:
    """The number of runs that a search in a group of so many members takes at most."""
    parts = max(0, members - 1)  # inner nodes of a binary tree over the members
    return 2 * RUNS_MAX + parts + 2 * RUNS_MAX * members


@dataclass(slots=True, eq=False)
class CulpritSearch:
    """The search in one group; begins after its first failure."""

    order: Suspects
    """Places of all members. Where each passes alone and only their sum is over a limit, the last
    ones are blamed."""
    first: Failure
    has_control: bool
    """The stage has a trusted member of its own; without one, trivial responses are tried."""
    known: Sequence[object] = ()
    """The members of a group that passed before."""
    following: Suspects = CONTROL
    """What runs next: places of members, or a control."""
    is_over: bool = False
    passing: Suspects = ()
    """The largest part that was found to pass; its last run passed, and its verdicts hold."""
    blamed: dict[int, Failure] = field(default_factory=dict)
    """Members at fault; together with `passing` all members, if anything passed."""
    attempt: int = 0
    """How often `following` has failed in a row."""
    _control_passed: bool = False
    _steps: Steps | None = None

    def __post_init__(self) -> None:
        """Begin with the control."""
        self._steps = self._search()
        self.following = next(self._steps)

    def ended(self, failure: Failure | None) -> bool:
        """The run of `following` has ended; `None`: it passed. Returns `is_over`."""
        if self._steps is None:
            raise ValueError("the search is over")
        try:
            self.following = self._steps.send(failure)
        except StopIteration:
            self._steps = None
            self.is_over = True
        return self.is_over

    @property
    def infrastructure_failed(self) -> bool:
        """Neither a part of the group nor the control passed: no response is at fault."""
        return not self.passing and not self._control_passed

    def _search(self) -> Steps:
        self._control_passed = not (yield from self._repeated(CONTROL))
        if not self._control_passed and self.has_control:
            return
        if not self._control_passed and self.known:
            self._control_passed = not (yield from self._repeated(KNOWN))
        yield from self._grow(self.order)
        # A handler may need several members to work at all, so those that were blamed when fewer
        # had passed are tried again.
        early = [member for member in self.blamed if self.passing]
        for member in early:
            yield from self._grow((member,))

    def _grow(self, candidates: Suspects) -> Steps:
        """Add to `passing` whichever of the candidates it passes with; blame the others."""
        part = tuple(sorted({*self.passing, *candidates}))
        if len(candidates) > 1:
            failure = yield part
            if failure is not None:
                half = len(candidates) // 2
                yield from self._grow(candidates[:half])
                yield from self._grow(candidates[half:])
                return
        else:
            failed = yield from self._repeated(part)
            if failed is not None:
                self.blamed[candidates[0]] = failed
                return
        self.passing = part
        for member in candidates:
            self.blamed.pop(member, None)

    def _repeated(self, part: Suspects) -> Generator[Suspects, Failure | None, Failure | None]:
        """The last failure of the part, if all runs of it failed that count."""
        failure: Failure | None = None
        for self.attempt in range(RUNS_MAX):
            failure = yield part
            if failure is None or failure.limit:
                break
        return failure


MemberT = TypeVar("MemberT")


def chosen(members: Sequence[MemberT], search: CulpritSearch | None) -> Sequence[MemberT]:
    """The members that the next run of a group gets; the control replaces one of them."""
    if search is None:
        return members
    if search.following == KNOWN:
        return cast("Sequence[MemberT]", search.known)
    return [members[at] for at in search.following or search.order[:1]]
