"""Settings from environment variables: `ASSAY_STORE__URL` is `store.url`.

A value is text. Of a branch, a list or a mapping it is JSON; an entry of a mapping and a leaf of a
branch may also have a variable of their own, which wins. `null` for a whole branch sets nothing.
Names are not case-sensitive.
"""

import json
import types
from collections.abc import Mapping
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel

SEPARATOR: Final = "__"
_HOLDERS: Final = (list, tuple, set, frozenset, dict)
Tree = dict[str, Any]


class SettingError(ValueError):
    """An environment variable that is not a setting, or has no value of one."""


class UnknownSettingError(SettingError):
    """An environment variable with our prefix that matches no branch of the tree."""


def read_tree(
    root: type[BaseModel],
    environment: Mapping[str, str],
    *,
    prefix: str,
    ignored: frozenset[str],
) -> Tree:
    """The values of the variables that start with `prefix`, for the fields of `root`.

    pydantic rejects a misspelt leaf; a misspelt first segment is rejected here.

    Raises:
        UnknownSettingError: a variable such as `ASSAY_STOER__URL`.
        SettingError: a value is not JSON where it must be.
    """
    ours = {}
    for name in environment:
        if name.upper().startswith(prefix) and name.upper() not in ignored:
            ours[name] = name.upper().removeprefix(prefix).lower().split(SEPARATOR)
    for name in sorted(ours):
        if ours[name][0] not in root.model_fields:
            raise UnknownSettingError(name)
    tree: Tree = {}
    for name, path in sorted(ours.items(), key=lambda one: (len(one[1]), one[0])):
        *inner, leaf = path
        branch, kinds = tree, _members(root)
        for step in inner:
            kinds = _below(kinds, step)
            branch = branch.setdefault(step, {})
            if not isinstance(branch, dict):
                message = f"{name}: its parent setting is not a JSON object"
                raise SettingError(message)
        branch[leaf] = _value(name, environment[name], _below(kinds, leaf))
    return {name: value for name, value in tree.items() if value is not None}


def _value(name: str, text: str, kinds: tuple[Any, ...]) -> Any:  # noqa: ANN401 any JSON
    structured = [kind for kind in kinds if _is_structured(kind)]
    if not structured:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        if len(structured) < len(kinds):  # it may be text as well
            return text
        message = f"{name} is not JSON: {error}"
        raise SettingError(message) from error


def _members(annotation: Any) -> tuple[Any, ...]:  # noqa: ANN401 any annotation
    """The kinds of value that an annotation permits, without what says more about them."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _members(get_args(annotation)[0])
    if origin in {Union, types.UnionType}:
        every = [_members(one) for one in get_args(annotation) if one is not types.NoneType]
        return tuple(kind for some in every for kind in some)
    return (annotation,)


def _below(kinds: tuple[Any, ...], step: str) -> tuple[Any, ...]:
    """What a field of a branch, or an entry of a mapping, may be; empty: there is none."""
    found: tuple[Any, ...] = ()
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            field = kind.model_fields.get(step)
            found += () if field is None else _members(field.annotation)
        elif get_origin(kind) is dict:
            found += _members(get_args(kind)[1])
    return found


def _is_structured(kind: Any) -> bool:  # noqa: ANN401 any annotation
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, (BaseModel, *_HOLDERS))
