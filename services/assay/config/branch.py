"""Common base of every branch of the settings tree. Reads no file and no environment."""

from pydantic import BaseModel, ConfigDict


class Branch(BaseModel):
    """Frozen; rejects unknown names; the docstrings of its fields are for readers only."""

    model_config = ConfigDict(frozen=True, extra="forbid")
