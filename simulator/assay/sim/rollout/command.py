"""`assay sim rollout`, also as `python -m assay.sim.rollout`."""

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from assay.core.errors import InvalidRequest
from assay.sim.rollout.page import page
from assay.sim.rollout.report import STAGES, report
from assay.sim.rollout.sweep import Scene

sim_app = typer.Typer(
    name="sim", help="Simulate architectures of rollout and training.", no_args_is_help=True
)


@sim_app.callback()
def _every_command() -> None:
    """There are no options before the command's name."""


def scene_of(changes: Sequence[str]) -> Scene:
    """The scene with `NAME=VALUE` changes.

    Raises:
        InvalidRequest: no such input, or not a number.
    """
    scene, kinds = Scene(), {one.name: one.type for one in fields(Scene)}
    for change in changes:
        name, _, text = change.partition("=")
        if name not in kinds:
            raise InvalidRequest(f"unknown; there are {', '.join(sorted(kinds))}", field=name)
        whole = isinstance(getattr(scene, name), int) or name == "staleness_max"
        try:
            value: float = int(text) if whole else float(text)
        except ValueError as error:
            raise InvalidRequest(f"not a number: {text!r}", field=name) from error
        if not 0 <= value < float("inf"):
            raise InvalidRequest("must be finite and not negative", field=name)
        changed: dict[str, Any] = {name: value}
        scene = replace(scene, **changed)
    return scene


def _table(section: Mapping[str, Any]) -> Table:
    unit = section["unit"]
    table = Table(title=f"{section['title']} (simulated)")
    for column in ("", "slots", "trainer", "steps", f"step, {unit}", f"wait, {unit}", "stale"):
        table.add_column(column, justify="right" if column else "left")
    for panel in section["panels"]:
        used = panel["figures"]
        times = (used["step_time"], used["train_wait"])
        table.add_row(
            panel["name"],
            f"{used['rollout_utilisation']:.0%}",
            f"{used['trainer_utilisation']:.0%}",
            str(used["steps"]),
            *("-" if one is None else f"{one:.2f}" for one in times),
            f"{used['staleness_mean']:.2f}",
        )
    return table


Plot = Callable[[Mapping[str, Any], Path], list[Path]]


def _plot_of_matplotlib() -> Plot | None:
    """What draws, where matplotlib is installed."""
    if importlib.util.find_spec("matplotlib") is None:
        return None
    from assay.sim.rollout.plot import plot

    return plot


def _write(found: Mapping[str, Any], out: Path, plot: Plot | None) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    written = [out / "rollout.html", out / "rollout.json"]
    written[0].write_text(page(found), encoding="utf-8")
    written[1].write_text(json.dumps(found, allow_nan=False), encoding="utf-8")
    if plot is not None:
        written += plot(found, out)
    return written


@sim_app.command("rollout")
def rollout(
    out: Annotated[Path, typer.Option(help="Folder for the page, plots and JSON.")] = Path(
        "rollout-architectures"
    ),
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An input, repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the lengths.")] = 1,
    drawn_s: Annotated[float, typer.Option(min=1, max=600, help="Drawn seconds.")] = 60.0,
    until_s: Annotated[float, typer.Option(min=1, max=36_000, help="Seconds per sweep.")] = 300.0,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare architectures of rollout and training: a page, plots and a table.

    Writes one self-contained HTML page whose panels play on a shared clock.
    """
    console = Console(stderr=True)
    scene = scene_of(changes or [])
    plot = _plot_of_matplotlib()  # what it lacks is reported before anything is simulated
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("simulating", total=STAGES)

        def progress(what: str) -> None:
            bar.update(task, advance=1, description=what)

        found = report(scene, seed=seed, drawn_s=drawn_s, until_s=until_s, progress=progress)
    written = _write(found, out, plot)
    if as_json:
        typer.echo(json.dumps(found, allow_nan=False))
        return
    for section in found["sections"]:
        Console().print(_table(section))
    for path in written:
        console.print(str(path), highlight=False, soft_wrap=True)
