"""Common base of every branch of the settings tree. Reads no environment."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema


class Branch(BaseModel):
    """Frozen; rejects unknown names; the docstrings of its fields are the documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: "CoreSchema", handler: "GetJsonSchemaHandler", /
    ) -> "JsonSchemaValue":
        """The schema with the docstrings; pydantic itself would read the sources at each start."""
        made = handler(schema)
        fields = handler.resolve_ref_schema(made).get("properties", {})
        for base in reversed(cls.__mro__):
            if issubclass(base, Branch):
                for name, text in _docstrings(base):
                    fields[name]["description"] = text
        return made


def _docstrings(branch: type[Branch]) -> Iterator[tuple[str, str]]:
    """The fields that a class itself declares, with the docstring below each."""
    body = ast.parse(textwrap.dedent(inspect.getsource(branch))).body[0]
    for field, below in pairwise(getattr(body, "body", ())):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if name in branch.model_fields:
                yield name, inspect.cleandoc(text)
