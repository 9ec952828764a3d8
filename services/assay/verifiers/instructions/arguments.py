"""Arguments of instructions, named as in the published data, checked before anything is stored."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

COUNT_MAX: Final = 1_000_000
TEXT_CHARS_MAX: Final = 200_000

Arguments = Mapping[str, Any]


class ArgumentError(ValueError):
    """An argument that its instruction does not take, or lacks."""


def count(value: object, *, most: int = COUNT_MAX) -> int:
    """A whole number; published files, and tables with gaps, write some as 5.0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1:
        raise ArgumentError("not a whole number")
    if not 0 <= value <= most:
        raise ArgumentError(f"not between 0 and {most:,}")
    return int(value)


def positive(value: object) -> int:
    """A whole number from 1."""
    found = count(value)
    if not found:
        raise ArgumentError("not positive")
    return found


def percentage(value: object) -> float:
    """A number from 0 to 100."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 100:
        raise ArgumentError("not a number from 0 to 100")
    return float(value)


def text(value: object) -> str:
    """Text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise ArgumentError("not a text")
    if len(value) > TEXT_CHARS_MAX:
        raise ArgumentError(f"longer than {TEXT_CHARS_MAX:,} characters")
    return value


@dataclass(frozen=True, slots=True)
class ConstraintFamily:
    """How the constraints of one kind read their arguments and judge a text."""

    follows: Callable[[str, Arguments], bool]
    """Whether a text that is not blank follows the instruction."""
    takes: Mapping[str, Callable[[object], Any]] = field(default_factory=dict)
    """Its arguments; all are needed."""
    reads: Callable[[Arguments], Arguments] | None = None
    """Reads arguments of which some may be absent, in place of `takes`."""

    def read(self, given: Mapping[str, object]) -> Arguments:
        """The arguments, converted; `null` counts as absent.

        Raises:
            ArgumentError: names the argument.
        """
        there = {name: value for name, value in given.items() if value is not None}
        if self.reads is not None:
            return self.reads(there)
        if unknown := sorted(there.keys() - self.takes.keys()):
            raise ArgumentError(f"{unknown[0][:64]}: the instruction has no such argument")
        found: dict[str, Any] = {}
        for name, convert in self.takes.items():
            try:
                found[name] = convert(there.get(name))
            except ArgumentError as error:
                raise ArgumentError(f"{name}: {error}") from None
        return MappingProxyType(found)
