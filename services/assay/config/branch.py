"""Common base of every branch of the settings tree. Reads no file and no environment."""

from pydantic import BaseModel, ConfigDict


class Branch(BaseModel):
    """Frozen; rejects unknown names; the docstrings of its fields are the documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
