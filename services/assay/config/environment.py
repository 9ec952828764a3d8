"""Settings from environment variables: `ASSAY_STORE__URL` is `store.url`.

A value is text. Of a branch, a list or a mapping it is JSON; an entry of a mapping and a leaf of a
branch may also have a variable of their own, which wins. Names are not case-sensitive.

Read here and not by pydantic-settings, whose import alone costs a command as much CPU time as
everything else that `assay status` does; a test compares the two.
"""

import json
from collections.abc import Collection, Mapping
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import BaseModel

SEPARATOR: Final = "__"


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
) -> dict[str, Any]:
    """The values of the variables that start with `prefix`, for the fields of `root`.

    A misspelt leaf is left to the validation of `root`; a misspelt first segment is refused here.

    Raises:
        UnknownSettingError: a variable such as `ASSAY_STOER__URL`.
        SettingError: a value is not JSON where it must be.
    """
    paths = {
        name: name.upper().removeprefix(prefix).lower().split(SEPARATOR)
        for name in sorted(environment)
        if name.upper().startswith(prefix) and name.upper() not in ignored
    }
    for name, path in paths.items():
        if path[0] not in root.model_fields:
            raise UnknownSettingError(name)
    tree: dict[str, Any] = {}
    for name, path in sorted(paths.items(), key=lambda one: len(one[1])):  # the inner one wins
        kind: Any = root
        for key in path:
            kind = _entry(kind, key)
        value: Any = _value(name, environment[name], kind)
        for key in reversed(path):
            value = {key: value}
        _merge(tree, value)
    return tree


def _value(name: str, text: str, kind: object) -> object:
    alternatives = [one for one in _alternatives(kind) if one is not type(None)]
    as_json = [one for one in alternatives if _is_json(one)]
    if not as_json:
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        if len(as_json) < len(alternatives):
            return text
        message = f"{name} is not JSON: {error}"
        raise SettingError(message) from error


def _merge(tree: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Put `more` into `tree`; a branch that is no mapping stays for the validation to refuse."""
    for key, value in more.items():
        old = tree.get(key)
        if key not in tree or not isinstance(value, dict):
            tree[key] = value
        elif isinstance(old, dict):
            _merge(old, value)


def _entry(kind: object, key: str) -> object:
    """The type of a branch's field or a mapping's entry; `None` where there is none."""
    for one in _alternatives(kind):
        if isinstance(one, type) and issubclass(one, BaseModel) and key in one.model_fields:
            return one.model_fields[key].annotation
        if issubclass(get_origin(one) or object, Mapping):
            return get_args(one)[1]
    return None


def _alternatives(kind: object) -> list[Any]:
    """The members of a union, or the type itself; without annotations."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _alternatives(get_args(kind)[0])
    if origin in {Union, UnionType}:
        return [inner for one in get_args(kind) for inner in _alternatives(one)]
    return [kind]


def _is_json(kind: object) -> bool:
    found = get_origin(kind) or kind
    return (
        isinstance(found, type)
        and issubclass(found, BaseModel | Collection)
        and not issubclass(found, str | bytes)
    )
