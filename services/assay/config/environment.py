"""Settings from environment variables: `ASSAY_STORE__URL` is `store.url`.

A value is text. Of a branch, a list or a mapping it is JSON; an entry of a mapping and a leaf of a
branch may also have a variable of their own, which wins. Names are not case-sensitive.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_origin

from pydantic import BaseModel

SEPARATOR: Final = "__"
_LISTS: Final = (list, tuple, set, frozenset)
_OF_JSON: Final = (dict, *_LISTS)

Tree = dict[str, Any]


class SettingError(ValueError):
    """An environment variable that is not a setting, or has no value of one."""


class UnknownSettingError(SettingError):
    """An environment variable with our prefix that matches no branch of the tree."""


def read_tree(
    model: type[BaseModel], environment: Mapping[str, str], *, prefix: str, ignored: frozenset[str]
) -> Tree:
    """The values of the variables that start with `prefix`, for the root `model`.

    Names below a branch are not checked here: the model refuses those that it does not know.

    Raises:
        UnknownSettingError: a variable such as `ASSAY_STOER__URL`.
        SettingError: a value is not JSON where it must be.
    """
    tree: Tree = {}
    for name in sorted(environment):  # `ASSAY_STORE` comes before `ASSAY_STORE__URL`
        upper = name.upper()
        if not upper.startswith(prefix) or upper in ignored:
            continue
        path = upper.removeprefix(prefix).lower().split(SEPARATOR.lower())
        if path[0] not in model.model_fields:
            raise UnknownSettingError(name)
        _put(tree, path, _value(model, path, environment[name], name), name)
    return tree


def _put(tree: Tree, path: Sequence[str], value: object, name: str) -> None:
    for part in path[:-1]:
        inner = tree.setdefault(part, {})
        if not isinstance(inner, dict):
            message = f"{name}: {part} has a value of its own"
            raise SettingError(message)
        tree = inner
    tree[path[-1]] = value


def _value(model: type[BaseModel], path: Sequence[str], text: str, name: str) -> object:
    """Text, or parsed where the setting is not one word."""
    kind: Any = model
    for part in path:
        field = kind.model_fields.get(part) if _is_branch(kind) else None
        if field is None:
            return text  # an entry of a mapping, or unknown
        kind = field.annotation
    if not _is_branch(kind) and get_origin(kind) not in _OF_JSON:
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        example = '["a", "b"]' if get_origin(kind) in _LISTS else '{"name": ...}'
        message = f"{name} must be JSON such as {example}: {error}"
        raise SettingError(message) from error


def _is_branch(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
