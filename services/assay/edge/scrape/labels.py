"""Labels as they stand in the text formats."""

from collections.abc import Mapping


def text_of_labels(labels: Mapping[str, str]) -> str:
    """Names and values, sorted by name, without braces."""
    return ",".join(f'{name}="{_escaped(labels[name])}"' for name in sorted(labels))


def braced(labels: Mapping[str, str], *, le: str = "") -> str:
    """In braces; the bound of a bucket stands last."""
    parts = [text for text in (text_of_labels(labels), f'le="{le}"' if le else "") if text]
    return "{" + ",".join(parts) + "}" if parts else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
