"""The fork server of a host that dies while it starts ends without a word."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from assay.config.settings import SandboxSettings, VerifierSettings
from assay.worker.forking.server import packed_settings
from assay.worker.slots.main import SlotSettings


@pytest.mark.parametrize("says", [False, True])
def test_a_fork_server_whose_host_has_died_logs_no_traceback(tmp_path: Path, *, says: bool) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", "assay.worker.forking.server", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    with ours:
        if says:
            settings = SlotSettings(
                sandbox=SandboxSettings(),
                verifiers=VerifierSettings(),
                scratch=tmp_path,
                shared=Path(tmp_path / "shared"),
            )
            ours.send(packed_settings(settings))
    _, said = server.communicate(timeout=120)
    assert said == b""
    assert server.returncode == 0
