"""`assay replay-rollout`: the shell around `assay.rollout.replay.replay`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated

import typer

from assay.rollout.interface.receipts import read_record

EXIT_DIFFERS = 5


def replay_rollout(
    receipt: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A receipt file.")],
    model: Annotated[Path, typer.Option(exists=True, help="Folder, .gguf or .bin.")],
    threads: Annotated[int, typer.Option(min=0, max=256, help="0: chosen by model size.")] = 0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Regenerate a rollout from its receipt and its model; exit 1 when it differs."""
    from assay.rollout.models import load_model
    from assay.rollout.replay.replay import replay

    found = replay(read_record(receipt), load_model(model), threads=threads)
    if as_json:
        typer.echo(json.dumps(asdict(found)))
    else:
        where = "" if found.differs_at is None else f", from token {found.differs_at} on"
        same = f"{found.tokens} tokens and log-probs, every bit the same"
        typer.echo(same if found.reproduced else f"not reproduced{where}")
        for reason in found.reasons:
            typer.echo(f"  {reason}")
    if not found.reproduced:
        raise typer.Exit(EXIT_DIFFERS)
