"""`assay store backup`: a copy of the embedded store while the platform serves."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from assay.cli.console import AsJson, DataDir, print_json, settings_with
from assay.cli.platform.addresses import running
from assay.cli.printed import out
from assay.core.errors import FailedPrecondition
from assay.store.backup import back_up

store = typer.Typer(help="Back up the embedded store.", no_args_is_help=True)


@store.callback()
def _group() -> None:
    """`backup` is named although it is the only command."""


@store.command("backup")
def store_backup(
    target: Annotated[Path, typer.Argument(help="A new folder: a data directory to start from.")],
    data_dir: DataDir = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Copy the store of a running platform; `assay up --data-dir TARGET` starts from the copy."""
    settings = settings_with(data_dir)
    if settings.store.url:
        message = "store.url names a server of your own: back it up by its own means"
        raise FailedPrecondition(message, field="store.url")
    running(settings)
    copied = asyncio.run(back_up(settings.data_dir, target.absolute()))
    if as_json:
        print_json({"target": str(target), "log_bytes": copied})
    else:
        out.print(f"{target}: {copied:,} bytes of log", highlight=False, soft_wrap=True)
