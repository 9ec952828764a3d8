"""What every command shares: its exit codes, and the options that many have."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from assay.config.settings import Settings, load_settings
from assay.core.errors import InvalidRequest

EXIT_BAD_INPUT = 2
EXIT_WITHOUT_REWARD = 3
EXIT_NOT_ISOLATED = 4
EXIT_UNSOUND = 5
EXIT_BAD_ROWS = 5
EXIT_DIFFERS = 6
EXIT_STOPPED = 130

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
PipelineOption = Annotated[str, typer.Option(help="`assay pipelines` lists them.")]
SettingsOption = Annotated[str, typer.Option(help="The pipeline's settings, as JSON.")]
Url = Annotated[str, typer.Option(help="host:port; default: the running one, or its own.")]
ResponseField = Annotated[str, typer.Option(help="Key of the response.")]
ReferenceField = Annotated[str, typer.Option(help="Key of the reference.")]
IdField = Annotated[str, typer.Option(help="Key of the request id.")]
GroupField = Annotated[str, typer.Option(help="Key of the group id.")]
SettingsField = Annotated[str, typer.Option(help="Key of a row's own settings.")]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Store, sockets, logs; default: ASSAY_DATA_DIR or ~/.local/share/assay."),
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
        InvalidRequest: they are not a JSON object.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidRequest(f"settings: not JSON: {error}", field="settings") from error
    if not isinstance(value, dict):
        raise InvalidRequest("settings: not a JSON object", field="settings")
    return value
