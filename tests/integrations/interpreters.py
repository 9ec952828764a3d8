"""Where the packages of other systems are: the environments that `TRAINERS_PYTHON` names.

Trainers do not fit into one environment, so that it is a list of interpreters, separated as `PATH`
is. Programs of theirs run as processes, so that nothing of them reaches the tests.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

INTERPRETERS = tuple(
    filter(None, os.environ.get("TRAINERS_PYTHON", sys.executable).split(os.pathsep))
)
_VERSION = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"


@cache
def interpreter_with(package: str) -> tuple[str, str] | None:
    """The first interpreter that has a distribution, and its version."""
    for interpreter in INTERPRETERS:
        done = run([interpreter, "-c", _VERSION, package], capture_output=True, text=True)
        if done.returncode == 0:
            return interpreter, done.stdout.strip()
    return None


async def run_program(
    program: Path, package: str, *arguments: str | Path, environment: Mapping[str, str]
) -> Any:
    """Run a program where `package` is; its last line as JSON. Skips the test without it."""
    found = interpreter_with(package)
    if found is None:
        pytest.skip(f"{package} is not installed in {os.pathsep.join(INTERPRETERS)}")
    interpreter, _ = found
    process = await asyncio.create_subprocess_exec(
        interpreter,
        program,
        *arguments,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = output.decode(errors="replace")
    assert process.returncode == 0, text
    return json.loads(text.strip().splitlines()[-1])
