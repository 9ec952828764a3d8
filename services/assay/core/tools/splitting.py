"""Submissions of any length as messages: runs that fit one each, and smaller ones when they do not.

What a service says of an item, it counts in the message; `shifted` counts in the submission.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from assay.core.errors import AssayError, TooLarge

T = TypeVar("T")

MESSAGE_BYTES: Final = 2 * 1024**2
"""Approximate size of the messages into which submissions are split."""
MESSAGE_REQUESTS: Final = 512
TOGETHER: Final = frozenset({"message", "body", "requests", ""})
"""Fields of `TooLarge` that name a message as a whole; a proxy names none."""
_INDEX: Final = re.compile(r"(requests|prompts)\[(\d+)\]")


class Runs(Generic[T]):
    """Runs of items that fit one message each, with the index of the first; one that is larger
    than a message by itself is alone in its run."""

    def __init__(
        self, items: Sequence[T], *, weigh: Callable[[T], int], bytes_max: int, items_max: int
    ) -> None:
        self._waiting = deque(_cut(items, weigh, bytes_max, items_max))

    def __iter__(self) -> Iterator[tuple[int, Sequence[T]]]:
        while self._waiting:
            yield self._waiting.popleft()

    def refused(self, first: int, run: Sequence[T], error: AssayError) -> None:
        """A run was refused: its halves are next, if it was too large only as a whole.

        Raises:
            AssayError: `error`, about the submission, as smaller messages would not help.
        """
        is_too_much_together = isinstance(error, TooLarge) and error.field in TOGETHER
        if not is_too_much_together or len(run) <= 1:
            raise shifted(error, first) from error
        half = len(run) // 2
        self._waiting.extendleft([(first + half, run[half:]), (first, run[:half])])


def _cut(
    items: Sequence[T], weigh: Callable[[T], int], bytes_max: int, items_max: int
) -> Iterator[tuple[int, Sequence[T]]]:
    first, size = 0, 0
    for index, item in enumerate(items):
        one = weigh(item)
        if index > first and (size + one > bytes_max or index - first == items_max):
            yield first, items[first:index]
            first, size = index, 0
        size += one
    if first < len(items):
        yield first, items[first:]


def shifted(error: AssayError, first: int) -> AssayError:
    """Renumber `requests[i]` or `prompts[i]` from a message's count to the whole submission's."""
    if not first:
        return error

    def shift(found: re.Match[str]) -> str:
        return f"{found[1]}[{int(found[2]) + first}]"

    return type(error)(
        _INDEX.sub(shift, error.message),
        field=_INDEX.sub(shift, error.field),
        retry_after_s=error.retry_after_s,
    )
