"""`assay`: the command line.

Start-up is kept light: the help is made from `COMMANDS` alone, and a command's module is imported
only when that command runs. This module imports typer and nothing heavier.
"""

import gc
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a command is implemented, and its line in the help."""

    target: str
    """`module:attribute`; the attribute is a function or a `typer.Typer`."""
    summary: str
    """The first line of the function's docstring, or the help of the `typer.Typer`."""
    extra: str = "server"
    """Of the distribution: has all that the command imports."""


COMMANDS: Final[Mapping[str, Entry]] = MappingProxyType(
    {
        "up": Entry(
            "assay.cli.platform.up:up",
            "Start the API, an embedded store, workers and a planner; Ctrl-C drains.",
        ),
        "worker": Entry(
            "assay.cli.platform.worker:worker",
            "Serve stages on this machine until stopped, for a platform that runs elsewhere.",
        ),
        "worker-token": Entry(
            "assay.cli.platform.worker:worker_token",
            "Print a token with which a worker host enrolls at the API for some stages.",
        ),
        "score": Entry("assay.cli.score.command:score", "Score a file of responses."),
        "rescore": Entry(
            "assay.cli.score.rescore:rescore",
            "Judge scored rows again and say which rewards differ.",
        ),
        "convert": Entry(
            "assay.cli.data.convert:convert",
            "Convert a data set, as its authors publish it, to rows for `check` and `score`.",
        ),
        "check": Entry(
            "assay.cli.data.check:check",
            "Try each distinct reference with responses of known verdict, before training.",
        ),
        "status": Entry("assay.cli.operate.status:status", "Show queues, slots and batches."),
        "top": Entry(
            "assay.cli.operate.live:top",
            "Show queues, slots and batches as they change; with --json one line per reading.",
        ),
        "watch": Entry(
            "assay.cli.operate.live:watch",
            "Follow a batch to its end; exit 3 when requests of it have no reward.",
        ),
        "batch": Entry("assay.cli.operate.batch:batch", "One batch: describe it, cancel it."),
        "pipelines": Entry(
            "assay.cli.operate.pipelines:pipelines",
            "List the pipelines and the form of their references and settings.",
        ),
        "doctor": Entry(
            "assay.cli.operate.doctor:doctor",
            "Try what the platform needs: isolation, limits, compilers, the store.",
        ),
        "replay-rollout": Entry(
            "assay.rollout.replay.command:replay_rollout",
            "Regenerate a rollout from its receipt and its model; exit 1 when it differs.",
            extra="rollout",
        ),
        "dlq": Entry(
            "assay.cli.operate.dead_letters:dlq",
            "Dead letters: requests that ran out of attempts.",
        ),
        "store": Entry("assay.cli.operate.backup:store", "Back up the embedded store."),
        "pool": Entry("assay.cli.operate.pool:pool", "Set the size of a worker pool."),
        "plan": Entry(
            "assay.cli.plan.commands:plan", "Show, explain and try out the planner's plan."
        ),
        "sim": Entry(
            "assay.sim.rollout.command:sim_app",
            "Simulate architectures of rollout and training.",
            extra="sim",
        ),
        "history": Entry(
            "assay.cli.operate.history:history", "Export the history of finished batches."
        ),
        "demo": Entry(
            "assay.cli.demo.command:demo",
            "Train a small model on one machine, on the real platform: about two minutes.",
            extra="demo",
        ),
        "bench": Entry(
            "assay.rollout.bench:bench_app",
            "Measure the rollout runtime on this machine.",
            extra="rollout",
        ),
    }
)
"""Commands and groups of commands by name, in the order of the help."""


class LazyGroup(TyperGroup):
    """The commands of `COMMANDS`: a summary for the help, the implementation on use."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 its type is not exported
        """Return the names."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any | None:  # noqa: ANN401 likewise
        """Return a placeholder with the summary; it is never run."""
        entry = COMMANDS.get(cmd_name)
        return entry and TyperCommand(cmd_name, help=entry.summary)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 likewise
        """Import the command that is called; a misspelt one is answered with the nearest."""
        if args[0] not in COMMANDS and (near := get_close_matches(args[0], COMMANDS, n=1)):
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{near[0]}'?")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load_command(command.name or ""), rest


def load_command(name: str) -> Any:  # noqa: ANN401 its type is not exported
    """Import the implementation of a command of `COMMANDS`."""
    module, _, attribute = COMMANDS[name].target.partition(":")
    found = getattr(_imported(module), attribute)
    holder = typer.Typer(add_completion=False)
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
    else:
        holder.command(name)(found)
    return typer.main.get_group(holder).commands[name]


def _imported(module: str) -> ModuleType:
    """Import without looking for garbage: modules and classes are never garbage."""
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.enable()
        gc.freeze()


app = typer.Typer(
    cls=LazyGroup,
    help="Disaggregated rewards for reinforcement learning with verifiable rewards.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"assay {version('assay')}")
        raise typer.Exit


@app.callback()
def _every_command(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=lambda wanted: _print_version(wanted=wanted),
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """There are no other options before the command's name."""


def main() -> None:
    """Run a command; an expected error is one line and an exit code, never a traceback."""
    # For its plugins, pydantic would read the metadata of every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        app()
    except ModuleNotFoundError as error:
        from assay.config.extras import EXIT_NOT_INSTALLED, missing_package, not_installed

        package = missing_package(error)
        if package is None:
            raise
        named = COMMANDS.get(sys.argv[1]) if len(sys.argv) > 1 else None
        extra = "server" if named is None else named.extra
        sys.stderr.write(f"{not_installed(package, extra)}\n")
        sys.exit(EXIT_NOT_INSTALLED)
    except Exception as error:
        # Imported here: what describes an error needs gRPC and the settings.
        from assay.cli.console import EXIT_BAD_INPUT
        from assay.cli.errors import error_line
        from assay.cli.printed import err

        line = error_line(error)
        if line is None:
            raise
        err.print(line, style="red", highlight=False, soft_wrap=True)
        sys.exit(EXIT_BAD_INPUT)
