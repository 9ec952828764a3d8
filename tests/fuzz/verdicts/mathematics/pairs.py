"""A gold with answers that a person has judged."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pairs:
    """One gold and its answers: some of each kind, for a case draws one of either."""

    style: str
    gold: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raise `ValueError` if a kind has no answer."""
        if not self.right or not self.wrong:
            raise ValueError(f"{self.gold}: a gold needs right and wrong answers")
