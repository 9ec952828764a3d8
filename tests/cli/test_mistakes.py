"""A mistake of the user gives one line that names the thing."""

import socket
from pathlib import Path

import grpc
import pytest

from assay.cli.operate.status_client import resize_pool
from assay.cli.score.command import _naming
from assay.core.errors import DependencyDown
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


async def test_a_pool_without_a_worker_host_names_the_address() -> None:
    with pytest.raises(DependencyDown, match=r"no worker host answers on 127\.0\.0\.1:1;"):
        await resize_pool("127.0.0.1:1", stage="python.run", slots=1)


def test_a_full_disk_is_named_by_its_file() -> None:
    full = Path("/dev/full")
    with pytest.raises(OSError, match="No space") as error, _naming(full), full.open("a") as file:
        file.write("a result")
    assert error.value.filename == str(full)
