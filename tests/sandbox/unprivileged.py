"""Run as another uid: opens launchers there and runs the Python programs that its stdin names.

One JSON object per line, `{"launcher", "source", "stdin", "limits"}`; each gives a line in return.
"""

import base64
import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.launchers.bubblewrap import BubblewrapLauncher
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import CommandRun, Limits, PythonRun, RunResult


def run(launchers: dict[str, Any], order: dict[str, Any]) -> RunResult:
    launcher = launchers[order["launcher"]]
    limits = Limits(**order["limits"])
    source, stdin = order["source"].encode(), order["stdin"].encode()
    if isinstance(launcher, ZygoteLauncher):
        return launcher.run_python(PythonRun(source=source, stdin=stdin, limits=limits))
    argv = (os.path.realpath(sys.executable), "-S", "program.py")
    files = {"program.py": source}
    found: RunResult = launcher.run(CommandRun(argv=argv, files=files, stdin=stdin, limits=limits))
    return found


def main() -> None:
    os.chdir("/")
    with contextlib.ExitStack() as held:
        settings = SandboxSettings(cgroup=sys.argv[1])
        shown = Path(held.enter_context(tempfile.TemporaryDirectory()))
        (shown / "entry").mkdir()
        (shown / "entry" / "header.gch").write_text("kept")
        inside = Inside(readable=(shown,))
        launchers = {
            "zygote": held.enter_context(ZygoteLauncher(settings, Clock(), inside=inside)),
            "bubblewrap": held.enter_context(BubblewrapLauncher(settings, Clock(), inside=inside)),
        }
        print(json.dumps({"uid": os.geteuid(), "shown": str(shown)}), flush=True)
        for line in sys.stdin:
            result = run(launchers, json.loads(line))
            told = {
                "status": result.status,
                "exit_code": result.exit_code,
                "stdout": base64.b64encode(result.stdout).decode(),
                "stderr": base64.b64encode(result.stderr).decode(),
                "cpu_s": result.cpu_s,
                "blocked_s": result.blocked_s,
                "wall_s": result.wall_s,
                "memory_bytes_peak": result.memory_bytes_peak,
            }
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
