"""`assay`: start the platform, score files, look at it, mend it."""

import sys

import grpc
import typer
from pydantic import ValidationError

from assay.cli.console import EXIT_BAD_INPUT, err
from assay.cli.doctor import doctor
from assay.cli.history import history
from assay.cli.operate import dlq, pipelines, pool, status
from assay.cli.plan import plan
from assay.cli.score import score
from assay.cli.up import up
from assay.config.settings import UnknownSettingError
from assay.core.errors import AssayError
from assay.rollout.bench import bench_app

app = typer.Typer(
    help="Disaggregated rewards for reinforcement learning with verifiable rewards.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (up, score, status, pipelines, doctor):
    app.command()(command)
app.add_typer(dlq, name="dlq")
app.add_typer(pool, name="pool")
app.add_typer(plan, name="plan")
app.add_typer(history, name="history")
app.add_typer(bench_app, name="bench")


def main() -> None:
    """Run the command; errors of the contract are told, not traced."""
    try:
        app()
    except AssayError as error:
        _end(error.reason, error.message)
    except (UnknownSettingError, ValidationError) as error:
        _end("settings", str(error))
    except OSError as error:
        _end("file", str(error))
    except grpc.aio.AioRpcError as error:
        _end(error.code().name.lower(), error.details() or "")


def _end(reason: str, message: str) -> None:
    err.print(f"{reason}: {message}", style="red", markup=False, highlight=False)
    sys.exit(EXIT_BAD_INPUT)
