"""Labels as they stand in the text formats."""

from collections.abc import Mapping
from typing import Final

OTHERS: Final = "(others)"
"""Value of a label for all names beyond the first."""


def text_of_labels(labels: Mapping[str, str]) -> str:
    """Names and values, sorted by name, without braces."""
    return ",".join(f'{name}="{_escaped(labels[name])}"' for name in sorted(labels))


def braced(labels: Mapping[str, str], *, le: str = "") -> str:
    """In braces; the bound of a bucket stands last."""
    parts = [text for text in (text_of_labels(labels), f'le="{le}"' if le else "") if text]
    return "{" + ",".join(parts) + "}" if parts else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


class FirstNames:
    """The first names of a label; later ones share one, because a series is never given back."""

    def __init__(self, names_max: int) -> None:
        self._names_max = names_max
        self._names: set[tuple[str, ...]] = set()

    def label(self, *name: str) -> str:
        """The last part of a name that is one of the first."""
        if len(self._names) < self._names_max:
            self._names.add(name)
        return name[-1] if name in self._names else OTHERS
