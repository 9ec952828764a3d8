"""`assay worker`: a worker host in the foreground; `assay worker-token`: its token."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from assay.cli.console import DataDir, settings_with
from assay.core.errors import InvalidRequest
from assay.core.ids import StageName
from assay.edge.clock import Clock
from assay.edge.work.tokens import NAME_FORM, STAGES_MAX, WorkerKeys, WorkerPass

DAYS_MAX: Final = 366
UNITS_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def worker(
    data_dir: DataDir = None,
    api: Annotated[
        str, typer.Option(help="The API's port for workers; empty: work on the store.")
    ] = "",
    token_file: Annotated[
        Path | None, typer.Option(help="A token of `assay worker-token`.", exists=True)
    ] = None,
    stage: Annotated[
        list[str] | None, typer.Option(help="A stage to serve; repeatable. Default: all.")
    ] = None,
    slots: Annotated[int | None, typer.Option(min=0, help="Worker slots per stage.")] = None,
) -> None:
    """Serve stages on this machine until stopped, for a platform that runs elsewhere."""
    import json

    overrides = {}
    if api:
        overrides["ASSAY_WORKER__API"] = api
    if token_file is not None:
        overrides["ASSAY_WORKER__API_TOKEN_FILE"] = str(token_file.resolve())
    if stage:
        overrides["ASSAY_WORKER__STAGES"] = json.dumps(stage)
    if slots is not None:
        overrides["ASSAY_WORKER__SLOTS"] = str(slots)
    settings_with(data_dir, **overrides)
    from assay.worker.__main__ import main

    main()


def worker_token(
    stage: Annotated[list[str], typer.Option(help="A permitted stage; repeatable.")],
    key_file: Annotated[
        Path, typer.Option(help="The keys of `reward.worker_key_file`.", exists=True)
    ],
    name: Annotated[str, typer.Option(help="Holder's name, for the audit log.")] = "worker",
    lasts: Annotated[str, typer.Option("--for", help="Lifetime, such as 30m, 12h or 7d.")] = "12h",
) -> None:
    """Print a token with which a worker host enrolls at the API for some stages."""
    if not NAME_FORM.fullmatch(name):
        raise InvalidRequest("name: 1 to 200 letters, digits, _.:~/-", field="name")
    if len(stage) > STAGES_MAX:
        raise InvalidRequest(f"stage: at most {STAGES_MAX}", field="stage")
    try:
        keys = WorkerKeys.parsed(key_file.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"key_file: {key_file}: {error}", field="key_file") from error
    found = WorkerPass(
        stages=tuple(map(StageName, dict.fromkeys(stage))),
        expires_ns=Clock().now_ns() + int(duration(lasts).total_seconds() * 1e9),
        name=name,
    )
    typer.echo(keys.mint(found))


def duration(text: str) -> timedelta:
    """Read `90s`, `30m`, `12h` or `7d`.

    Raises:
        InvalidRequest: it is in no such form, empty, or more than `DAYS_MAX`.
    """
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdecimal()) or unit not in UNITS_S or len(number) > 9:
        raise InvalidRequest("for: a number and s, m, h or d, such as 12h", field="for")
    found = timedelta(seconds=int(number) * UNITS_S[unit])
    if not timedelta(0) < found <= timedelta(days=DAYS_MAX):
        raise InvalidRequest(f"for: more than 0, at most {DAYS_MAX}d", field="for")
    return found
