"""`assay pool resize`: the size of a stage's pool on this machine's worker host."""

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer

from assay.cli.console import AsJson, DataDir, print_json, settings_with
from assay.cli.operate.connection import control_address
from assay.cli.operate.status_client import resize_pool
from assay.cli.printed import out

pool = typer.Typer(help="Set the size of a worker pool.", no_args_is_help=True)


@pool.callback()
def _group() -> None:
    """`resize` is named although it is the only command."""


@pool.command("resize")
def pool_resize(
    stage: Annotated[str, typer.Argument(help="Stage, as `assay status` shows it.")],
    slots: Annotated[int, typer.Argument(min=0, help="Desired number of worker slots.")],
    data_dir: DataDir = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Set the size of a stage's pool on this machine's worker host."""
    control = control_address(settings_with(data_dir))
    resized = asyncio.run(resize_pool(control, stage=stage, slots=slots))
    if as_json:
        print_json(asdict(resized))
    else:
        out.print(
            f"{resized.stage}: {resized.slots_desired} slots wanted, "
            f"{resized.slots_ready} ready, {resized.slots_busy} busy"
        )
