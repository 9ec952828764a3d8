"""Settings from environment variables: `ASSAY_STORE__URL` is `store.url`. By pydantic-settings.

A value is text. Of a branch, a list or a mapping it is JSON; an entry of a mapping and a leaf of a
branch may also have a variable of their own, which wins. Names are not case-sensitive.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsError

SEPARATOR: Final = "__"


class SettingError(ValueError):
    """An environment variable that is not a setting, or has no value of one."""


class UnknownSettingError(SettingError):
    """An environment variable with our prefix that matches no branch of the tree."""


def read_tree(
    root: type[BaseSettings],
    environment: Mapping[str, str],
    *,
    prefix: str,
    ignored: frozenset[str],
) -> dict[str, Any]:
    """The values of the variables that start with `prefix`, for the fields of `root`.

    pydantic rejects a misspelt leaf but silently skips a misspelt first segment; this does not.

    Raises:
        UnknownSettingError: a variable such as `ASSAY_STOER__URL`.
        SettingError: a value is not JSON where it must be.
    """
    ours = {
        name: value
        for name, value in environment.items()
        if name.upper().startswith(prefix) and name.upper() not in ignored
    }
    for name in sorted(ours):
        if name.upper().removeprefix(prefix).split(SEPARATOR)[0].lower() not in root.model_fields:
            raise UnknownSettingError(name)
    for name in sorted(ours):  # by itself first: the error of the whole names a branch only
        _values(root, {name: ours[name]}, prefix, name)
    return _values(root, ours, prefix, prefix)


def _values(
    root: type[BaseSettings], environment: Mapping[str, str], prefix: str, name: str
) -> dict[str, Any]:
    source = EnvSettingsSource(root, env_prefix=prefix, env_nested_delimiter=SEPARATOR)
    source.env_vars = {name.lower(): value for name, value in environment.items()}
    try:
        return source()
    except SettingsError as error:
        message = f"{name} is not JSON: {error.__cause__}"
        raise SettingError(message) from error
