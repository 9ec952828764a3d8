"""Common base of every branch of the settings tree, and of what pipelines define.

Reads no file and no environment.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class Described(BaseModel):
    """Frozen; rejects unknown names; the docstrings of its fields are the documentation.

    They are read when the schema is made, not when a process starts: that is a tenth of the time
    in which a command answers. A class is made ready when it is first used: every process knows
    those of all pipelines, and needs those of a few.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        """Describe each field by its docstring."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        for field, text in _docstrings(cls):
            name = cls.model_fields[field].alias or field
            if (described := schema.get("properties", {}).get(name)) is not None:
                described.setdefault("description", text)
        return schema


class Branch(Described):
    """A part of the settings tree: frozen, without unknown names."""


def _docstrings(described: type[Described]) -> Iterator[tuple[str, str]]:
    """Names of fields and the strings below them; those of the class itself come first."""
    for one in described.__mro__:
        if not issubclass(one, Described) or one in {Described, Branch}:
            continue
        try:
            source = inspect.getsource(one)
        except (OSError, TypeError):  # defined in a console: it has none
            continue
        (definition,) = ast.parse(textwrap.dedent(source)).body
        assert isinstance(definition, ast.ClassDef)  # noqa: S101 for the type checker
        for field, below in pairwise(definition.body):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str() as text)),
                ):
                    yield name, inspect.cleandoc(text)
