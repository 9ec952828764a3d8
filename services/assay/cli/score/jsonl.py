"""Rows of `assay score`, one by one: from a line of a file to what is sent, and what names it.

A row that cannot be read is one `InvalidRequest` whose `field` is the key that is wrong (empty: the
line as a whole); it never hides the rows after it. A row's digest covers all that its reward
depends on (pipeline, version, settings of the job and of the row, reference, response): equal
digests mean equal work.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Final

from assay.cli.files import without_mark
from assay.cli.rows import reference_of, refuse_inexact, refuse_twice, row_value
from assay.client.types import StoredArtifact
from assay.core.errors import InvalidRequest
from assay.core.tools.response import response_bytes

ROW_BYTES_MAX: Final = 32 * 1024**2
DIGEST_BYTES: Final = 16
MESSAGES: Final = "messages"
ARTIFACTS: Final = "artifacts"
"""Keys of a row's transcript and files."""
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Which keys of a row mean what."""

    request_id: str = "request_id"
    group_id: str = "group_id"
    response: str = "response"
    reference: str = "reference"
    settings: str = "settings"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRow:
    """One response to score, and the line of the file that it stands on."""

    line: int
    request_id: str
    group_id: str
    response: str | bytes
    reference: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of its own, as limits of a data set; those of the job go before them."""
    messages: Sequence[Mapping[str, Any]] = ()
    artifacts: Mapping[str, bytes | StoredArtifact] = field(default_factory=dict)
    size: int = 0
    """Bytes of its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that is not scored."""

    line: int
    request_id: str
    """Empty where it could not be read."""
    field: str
    """What is wrong; empty: the line as a whole."""
    error: str

    def __str__(self) -> str:
        """As a user reads it."""
        place = f"line {self.line}: {self.field}" if self.field else f"line {self.line}"
        return f"{place}: {self.error}"

    def output_line(self) -> str:
        """The row of the output that stands for it."""
        line = {
            "line": self.line,
            "request_id": self.request_id or None,
            "outcome": None,
            "reward": None,
            "field": self.field,
            "error": self.error,
        }
        return json.dumps(line) + "\n"


def read_lines(file: IO[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Number, offset and content of each line that is not blank.

    Of a line longer than `ROW_BYTES_MAX` only so much comes as shows that it is too long.
    """
    number = offset = 0
    while raw := file.readline(ROW_BYTES_MAX + 1):
        number += 1
        size = len(raw)
        piece = raw
        while not piece.endswith(b"\n") and (piece := file.readline(ROW_BYTES_MAX)):
            size += len(piece)
        if raw.strip():
            yield number, offset, raw
        offset += size


def parse_row(line: int, raw: bytes, fields: Fields) -> ScoreRow:
    """Read one line.

    A row without a request id is named after its line. A reference that is no object is taken as
    the one right answer (a list: as the right answers).

    Raises:
        InvalidRequest: `field` is the key that is wrong; empty: the line is no row.
    """
    data = _object(raw, (fields.reference, fields.settings))
    if fields.reference not in data:
        raise InvalidRequest("missing", field=fields.reference)
    return ScoreRow(
        line=line,
        request_id=_name(data.get(fields.request_id, f"line-{line}"), fields.request_id),
        group_id=_name(data.get(fields.group_id, ""), fields.group_id),
        response=_response(data, fields.response),
        reference=reference_of(data[fields.reference], fields.reference),
        settings=_settings(data.get(fields.settings), fields.settings),
        messages=_messages(data.get(MESSAGES)),
        artifacts=_artifacts(data.get(ARTIFACTS)),
        size=len(raw),
    )


def _object(raw: bytes, judged: Iterable[str]) -> Mapping[str, Any]:
    if len(raw) > ROW_BYTES_MAX:
        raise InvalidRequest(f"longer than {ROW_BYTES_MAX:,} bytes")
    try:
        data = row_value(without_mark(raw), judged)
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"not UTF-8 (byte {error.start})") from error
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise InvalidRequest("not a JSON object")
    refuse_twice(data, "")
    return data


def _name(value: object, key: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise InvalidRequest("must be a text or a number", field=key)
    name = str(value)
    if not name.isprintable():  # a lone surrogate is not either
        raise InvalidRequest("holds characters that cannot be printed", field=key)
    return name


def _response(data: Mapping[str, Any], name: str) -> str | bytes:
    """A text under `name`, or bytes in base64 under `name` + `_base64`."""
    text, coded = data.get(name), data.get(f"{name}_base64")
    if isinstance(text, str) and coded is None:
        return text
    if text is None and coded is None and data.get(MESSAGES):
        return ""
    if text is not None or not isinstance(coded, str):
        raise InvalidRequest(f"must be a text; or give {name}_base64", field=name)
    try:
        return base64.b64decode(coded, validate=True)
    except ValueError as error:
        raise InvalidRequest(str(error), field=f"{name}_base64") from error


def _messages(value: object) -> Sequence[Mapping[str, Any]]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise InvalidRequest("must be a list of objects", field=MESSAGES)
    return value


def _artifacts(value: object) -> Mapping[str, bytes | StoredArtifact]:
    """Name to text, or name to an object with `base64`, or with `sha256` of what was sent ahead."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidRequest("must be an object", field=ARTIFACTS)
    return {name: _content(name, given) for name, given in value.items()}


def _content(name: str, given: object) -> bytes | StoredArtifact:
    if isinstance(given, str):
        return response_bytes(given)
    only = given if isinstance(given, dict) and len(given) == 1 else {}
    sha256, coded = only.get("sha256"), only.get("base64")
    if isinstance(sha256, str) and _SHA256.fullmatch(sha256):
        return StoredArtifact(sha256=sha256)
    if not isinstance(coded, str):
        message = f'{name[:80]!r} must be a text, {{"base64": ...}}, or {{"sha256": 64 hex digits}}'
        raise InvalidRequest(message, field=ARTIFACTS)
    try:
        return base64.b64decode(coded, validate=True)
    except ValueError as error:
        raise InvalidRequest(f"{name[:80]!r}: {error}", field=ARTIFACTS) from error


def _settings(value: object, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidRequest("must be an object", field=name)
    refuse_inexact(value, name)
    return value


def digest_of(basis: bytes, row: ScoreRow) -> str:
    """What a row's reward depends on; `basis` stands for all that the rows have in common."""
    digest = hashlib.blake2b(key=basis, digest_size=DIGEST_BYTES)
    for value in (row.settings, row.reference):
        digest.update(json.dumps(value, sort_keys=True, ensure_ascii=True).encode() + b"\n")
    digest.update(response_bytes(row.response))
    if row.messages or row.artifacts:
        hashes = {name: _hash_of(one) for name, one in row.artifacts.items()}
        attached = json.dumps([list(row.messages), hashes], sort_keys=True)
        parts = digest.digest() + hashlib.sha256(attached.encode()).digest()
        digest = hashlib.blake2b(parts, key=basis, digest_size=DIGEST_BYTES)
    return digest.hexdigest()


def _hash_of(given: bytes | StoredArtifact) -> str:
    return given.sha256 if isinstance(given, StoredArtifact) else hashlib.sha256(given).hexdigest()


def basis_of(pipeline: str, version: str, settings: Mapping[str, Any]) -> bytes:
    """The part of a digest that all rows share."""
    text = json.dumps([pipeline, version, settings], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()
