"""The interface of converters: pure functions from published records to Assay's rows.

A record that cannot be judged is refused with a reason; it never ends a job. There are few reasons,
one fixed text per kind of fault, so that a report can count them; details follow the reason.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from assay.core.errors import InvalidRequest
from assay.verifiers.intake import plain_json

DataRecord = Mapping[str, Any]


class Refused(Exception):
    """A record that no pipeline can judge."""

    def __init__(self, reason: str, details: str = "") -> None:
        """Set the reason and its details.

        Args:
            reason: the kind of fault; the same text for all records of the kind.
            details: details of this record.
        """
        super().__init__(f"{reason}: {details}" if details else reason)
        self.reason = reason
        self.details = details


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRow:
    """A row for `assay score` and `assay check`, without a response."""

    request_id: str
    pipeline: str
    reference: Mapping[str, Any]
    prompt: str = ""
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Limits and tolerances of the data set."""

    def as_json(self) -> dict[str, Any]:
        """Return plain data; the responses of a prompt form one group."""
        plain: dict[str, Any] = {"request_id": self.request_id, "group_id": self.request_id}
        plain |= {"pipeline": self.pipeline, "prompt": self.prompt}
        if self.settings:
            plain["settings"] = dict(self.settings)
        return {**plain, "reference": dict(self.reference)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Results that a data set omits, because its solution computes them."""

    program: str
    function: str
    inputs: Sequence[Sequence[str]]
    """The arguments of each call, as Python literals (`assay.verifiers.code.literals`)."""
    row: Callable[[Sequence[str]], DataRow]
    """Creates the row from the results of the calls, as Python literals too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A data set that can be converted."""

    name: str
    about: str
    convert: Callable[[DataRecord, int, str], DataRow | Outputs]
    """`(record, line, pipeline)`; raises `Refused`, and nothing else. `pipeline` is one of
    `pipelines`."""
    pipelines: tuple[str, ...]
    """Which pipelines can judge it, the usual one first."""


def text(record: DataRecord, key: str, *, empty: bool = False) -> str:
    """Return the text under `key`.

    Raises:
        Refused: there is none.
    """
    value = record.get(key)
    if not isinstance(value, str) or not (value or empty):
        raise Refused(f"no text under `{key}`")
    return value


def parsed(record: DataRecord, key: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the value under `key`, which may be JSON text or JSON already.

    Raises:
        Refused: it is missing, malformed, or contains a number that cannot be represented exactly.
    """
    value = record.get(key)
    if value is None or value == "":
        raise Refused(f"nothing under `{key}`")
    return json_of(value, key) if isinstance(value, str) else value


def json_of(content: str, place: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the value of JSON text.

    Raises:
        Refused: it is not JSON, or contains a number that cannot be represented exactly.
    """
    try:
        return plain_json(content.encode("utf-8", "surrogatepass"), place)
    except InvalidRequest as error:
        raise Refused("malformed JSON", error.message) from None


def identity(record: DataRecord, line: int, prefix: str, *keys: str) -> str:
    """Return an id for the record: the first of `keys` that it has, else its line."""
    found = (record[key] for key in keys if isinstance(record.get(key), (str, int)))
    value = next((one for one in found if one != ""), f"line-{line}")
    return str(value) if str(value).startswith(prefix) else f"{prefix}/{value}"
