"""Boxes of launchers that run as another uid than the tests."""

import base64
import dataclasses
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.sandbox.test_launchers import _interpreter_for_everybody, _own_paths

from assay.sandbox.port import Limits, RunResult, RunStatus


class Unprivileged:
    """Boxes of a launcher that runs as another uid."""

    def __init__(self, cgroup: str) -> None:
        self._process = subprocess.Popen(
            [_interpreter_for_everybody(), "-m", "tests.sandbox.unprivileged", cgroup],
            user=65_534,
            group=65_534,
            extra_groups=[],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            text=True,
            env={"PYTHONPATH": os.pathsep.join([*_own_paths(), str(Path.cwd())]), "HOME": "/tmp"},
        )
        self.shown: str = self._hear()["shown"]
        """A folder of that uid, which its boxes show: `entry/header.gch` in it says `kept`."""

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the unprivileged launchers ended"
        found: dict[str, Any] = json.loads(line)
        return found

    def run(self, launcher: str, source: str, *, stdin: bytes = b"", limits: Limits) -> RunResult:
        order = {
            "launcher": launcher,
            "source": source,
            "stdin": stdin.decode(),
            "limits": dataclasses.asdict(limits),
        }
        assert self._process.stdin is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        told = self._hear()
        stdout, stderr = (base64.b64decode(told.pop(name)) for name in ("stdout", "stderr"))
        status = RunStatus(told.pop("status"))
        return RunResult(status=status, stdout=stdout, stderr=stderr, **told)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        if self._process.stdout is not None:
            self._process.stdout.close()
