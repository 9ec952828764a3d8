"""`assay`: start the platform, score files, look at it, mend it.

A command's module is imported when it is called: most commands need little of what others do.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

import grpc
import typer
from pydantic import ValidationError
from typer.core import TyperGroup

from assay.cli.console import EXIT_BAD_INPUT, err
from assay.config.settings import UnknownSettingError
from assay.core.errors import AssayError
from assay.edge.lifecycle import told

COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "up": "assay.cli.platform.up:up",
        "score": "assay.cli.score.command:score",
        "convert": "assay.cli.data.convert:convert",
        "check": "assay.cli.data.check:check",
        "status": "assay.cli.operate.commands:status",
        "pipelines": "assay.cli.operate.commands:pipelines",
        "doctor": "assay.cli.operate.doctor:doctor",
        "replay-rollout": "assay.rollout.replay_command:replay_rollout",
        "dlq": "assay.cli.operate.commands:dlq",
        "pool": "assay.cli.operate.commands:pool",
        "plan": "assay.cli.plan.commands:plan",
        "history": "assay.cli.operate.history:history",
        "bench": "assay.rollout.bench:bench_app",
    }
)
"""Name to function or group of commands, in the order of the help."""


class LateGroup(TyperGroup):
    """The commands of `COMMANDS`."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 its type is not exported
        """Their names."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any | None:  # noqa: ANN401 likewise
        """Import one."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        found = getattr(import_module(module), attribute)
        holder = typer.Typer(add_completion=False)
        if isinstance(found, typer.Typer):
            holder.add_typer(found, name=cmd_name)
        else:
            holder.command(cmd_name)(found)
        return typer.main.get_group(holder).commands[cmd_name]


app = typer.Typer(
    cls=LateGroup,
    help="Disaggregated rewards for reinforcement learning with verifiable rewards.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def _every_command() -> None:
    """There are no options before the command's name."""


def main() -> None:
    """Run the command; errors of the contract are one line and an exit code, never a traceback."""
    try:
        app()
    except (AssayError, ValueError, OSError, grpc.aio.AioRpcError, ExceptionGroup) as error:
        line = _line(error)
        if line is None:
            raise
        err.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(EXIT_BAD_INPUT)


def _line(error: Exception) -> str | None:
    """`None`: a bug, which is shown whole."""
    match error:
        case ExceptionGroup():  # several things failed together; the first tells why
            return _line(error.exceptions[0])
        case AssayError():
            return f"{error.reason}: {' '.join(error.message.split())}"
        case UnknownSettingError() | ValidationError():
            return f"settings: {told(error)}"
        case OSError():
            return f"file: {told(error)}"
        case grpc.aio.AioRpcError():
            return f"{error.code().name.lower()}: {error.details() or ''}"
    return None
