"""A gold with answers that a person has judged."""

from typing import NamedTuple


class Pairs(NamedTuple):
    """One gold and its answers."""

    style: str
    gold: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]
