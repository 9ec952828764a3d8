"""What every command shares: where it prints, and the options that many have."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from assay.config.settings import Settings, load_settings
from assay.core.errors import InvalidRequest

EXIT_BAD_INPUT = 2
EXIT_WITHOUT_REWARD = 3
EXIT_NOT_ISOLATED = 4
EXIT_UNSOUND = 5
EXIT_BAD_ROWS = 5
EXIT_DIFFERS = 6
EXIT_STOPPED = 130

out = Console()
err = Console(stderr=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DataDir = Annotated[
    Path | None, typer.Option(help="Store, sockets, logs; default: ASSAY_DATA_DIR or ~/.local.")
]


def settings_with(data_dir: Path | None = None, **overrides: str) -> Settings:
    """Read the settings; options win over the environment, and reach child processes through it."""
    if data_dir is not None:
        os.environ["ASSAY_DATA_DIR"] = str(data_dir.absolute())
    os.environ.update(overrides)
    return load_settings()


def print_json(value: object) -> None:
    """For programs: unstyled, unwrapped."""
    typer.echo(json.dumps(value, indent=2, default=str))


def settings_object(text: str) -> Mapping[str, Any]:
    """A pipeline's settings from the command line.

    Raises:
        InvalidRequest: they are no JSON object.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidRequest(f"settings: not JSON: {error}", field="settings") from error
    if not isinstance(value, dict):
        raise InvalidRequest("settings: not a JSON object", field="settings")
    return value
