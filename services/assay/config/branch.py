"""What every branch of the settings tree has in common. Reads no file and no environment."""

from pydantic import BaseModel, ConfigDict


class Branch(BaseModel):
    """Frozen; refuses names that it does not know; its fields' docstrings are the documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
