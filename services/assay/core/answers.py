"""What calls of the reward API return, where callers get the very class that the service returns.

The service, both doors and all clients use these classes; messages are made from them and read by
the names of their fields. `assay.client` exports every one.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

__all__ = ["StoredArtifact"]

DESCRIBED: Final = {
    "use_attribute_docstrings": True,
    "json_schema_serialization_defaults_required": True,
}
"""For OpenAPI: fields have the lines below them, and an answer has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArtifact:
    """A file that was sent ahead; requests of the same tenant refer to it by its hash."""

    __pydantic_config__: ClassVar = DESCRIBED

    sha256: str
    """In hex."""
    size: int = 0
    """Bytes."""
    kept_until_ns: int = 0
    """Unix time by the store's clock; sending it again moves that."""
