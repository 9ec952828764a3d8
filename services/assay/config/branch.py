"""Common base of every branch of the settings tree. Reads no file and no environment."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class Branch(BaseModel):
    """Frozen; rejects unknown names; the docstrings of its fields are the documentation.

    They are read when the schema is made, not when a process starts: that is a tenth of the time
    in which a command answers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        """Describe each field by its docstring."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        for name, text in _docstrings(cls):
            if (described := schema.get("properties", {}).get(name)) is not None:
                described.setdefault("description", text)
        return schema


def _docstrings(branch: type[Branch]) -> Iterator[tuple[str, str]]:
    """Names of fields and the strings below them; those of the branch itself come first."""
    for one in branch.__mro__:
        if not issubclass(one, Branch) or one is Branch:
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
        assert isinstance(definition, ast.ClassDef)  # noqa: S101 for the type checker
        for field, below in pairwise(definition.body):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str() as text)),
                ):
                    yield name, inspect.cleandoc(text)
