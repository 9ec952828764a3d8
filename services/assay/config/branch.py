"""Common base of every branch of the settings tree, and of what pipelines define.

Reads no file and no environment.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

PARSE_TRIES_MAX: Final = 5
"""All threads of CPython 3.11 share the depth that `ast` counts: one that parses while another does
may end with a SystemError, although nothing is wrong with the source."""


class Described(BaseModel):
    """Frozen; rejects unknown names, infinity and NaN; the docstrings of its fields are the
    documentation.

    They are read when the schema is made, not when a process starts: that is a tenth of the time
    in which a command answers. A class is made ready when it is first used: every process knows
    those of all pipelines, and needs those of a few.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)

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
        for field, below in pairwise(_statements(one)):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str() as text)),
                ):
                    yield name, inspect.cleandoc(text)


def _statements(described: type[Described]) -> Sequence[ast.stmt]:
    """The statements of a class; none of one that was defined in a console."""
    for tries_left in reversed(range(PARSE_TRIES_MAX)):
        try:
            source = textwrap.dedent(inspect.getsource(described))
            (definition,) = ast.parse(source).body
        except (OSError, TypeError):
            break
        except SystemError:
            if not tries_left:
                raise
        else:
            assert isinstance(definition, ast.ClassDef)  # noqa: S101 for the type checker
            return definition.body
    return ()
