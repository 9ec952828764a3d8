"""What all bodies have in common."""

from typing import Final

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

UNKNOWN_NAMES_MAX: Final = 16
"""Unknown names in one object that are each located."""


class Body(BaseModel):
    """Base of all bodies. Unknown names are refused: most are misspelt known ones."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, from_attributes=True)

    @model_validator(mode="before")
    @classmethod
    def _first_unknown(cls, value: object) -> object:
        """Report one unknown name where there are many: reporting each would block other calls."""
        if isinstance(value, dict) and len(value) > len(cls.model_fields) + UNKNOWN_NAMES_MAX:
            name = repr(next(name for name in value if name not in cls.model_fields)[:80])
            raise PydanticCustomError("extra_forbidden", "unknown name {name}", {"name": name})
        return value
