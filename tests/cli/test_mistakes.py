"""A mistake of the user gives one line that names the thing."""

import socket
from importlib.metadata import version
from pathlib import Path

import grpc
import pytest
from typer.testing import CliRunner

from assay.cli.main import app
from assay.cli.operate.status_client import resize_pool
from assay.cli.platform import attached
from assay.cli.score.command import _naming
from assay.core.errors import DependencyDown
from assay.edge.clock import Clock
from assay.edge.grpc_edge import take_port


async def test_a_port_in_use_is_named_with_its_setting_and_nothing_of_grpc() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            OSError, match=rf"^a\.port: cannot listen on 127\.0\.0\.1:{port}: "
        ) as error:
            take_port(grpc.aio.server(), "127.0.0.1", port, setting="a.port")
    assert "GRPC_VERBOSITY" not in str(error.value)


def test_a_misspelt_command_is_answered_with_the_nearest() -> None:
    result = CliRunner().invoke(app, ["scor"])
    assert result.exit_code == 2
    assert "Did you mean 'score'?" in result.stderr


def test_the_version_is_told() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"assay {version('assay')}\n"


async def test_a_service_that_was_named_and_does_not_answer_is_known_after_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attached, "REACH_S_MAX", 0.2)
    with pytest.raises(DependencyDown, match=r"^no service answers on 127\.0\.0\.1:1; start one"):
        async with attached.service("127.0.0.1:1", None, Clock(), pipelines=[]):
            pass


async def test_a_pool_without_a_worker_host_names_the_address() -> None:
    with pytest.raises(DependencyDown, match=r"no worker host answers on 127\.0\.0\.1:1;"):
        await resize_pool("127.0.0.1:1", stage="python.run", slots=1)


def test_a_full_disk_is_named_by_its_file() -> None:
    full = Path("/dev/full")
    with pytest.raises(OSError, match="No space") as error, _naming(full), full.open("a") as file:
        file.write("a result")
    assert error.value.filename == str(full)
