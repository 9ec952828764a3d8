"""Regenerate the protobuf modules: `python scripts/generate_proto.py [OUT]`.

The `.proto` path is the package is the import path, so protoc's absolute imports just work and the
output needs no fixing up. `tests/repo/test_generated.py` proves that what is committed is fresh.

A runtime of protobuf or gRPC accepts code that an older generator made, never that of a newer one,
and the client is installed beside trainers that hold protobuf back. So the modules are made by the
oldest generator that is supported, in an environment of its own; the type stubs by the installed
one.
"""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROTO = ROOT / "proto"
OLDEST = "grpcio-tools==1.66.2"
"""Makes code for grpcio 1.66 and protobuf 5.27: the lower bounds in `pyproject.toml`."""


def oldest_generator() -> Path:
    """The Python of an environment with the oldest generator; made on first use.

    Raises:
        subprocess.CalledProcessError: pip could not install it.
    """
    folder = ROOT / "build" / OLDEST.replace("==", "-")
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        venv.create(folder, with_pip=True, clear=True)
        # It imports pkg_resources, which newer releases of setuptools do not have.
        packages = [OLDEST, "setuptools<80"]
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
        subprocess.run(pip, check=True)  # noqa: S603
        (folder / "complete").touch()
    return python


def generate(out: Path) -> None:
    """Write `*_pb2.py`, `*_pb2_grpc.py` and their `.pyi` stubs under `out`.

    Raises:
        subprocess.CalledProcessError: protoc refuses a file.
    """
    _protoc(oldest_generator(), ("python", "grpc_python"), out)
    _protoc(Path(sys.executable), ("mypy", "mypy_grpc"), out)


def _protoc(python: Path, kinds: tuple[str, ...], out: Path) -> None:
    files = sorted(str(p.relative_to(PROTO)) for p in PROTO.rglob("*.proto"))
    outs = [f"--{kind}_out={out}" for kind in kinds]
    command = [str(python), "-m", "grpc_tools.protoc", f"-I{PROTO}", *outs, *files]
    scripts = sysconfig.get_path("scripts")
    # protoc finds the mypy plugins by name on PATH.
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}"}
    subprocess.run(command, check=True, env=environment)  # noqa: S603


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else PROTO)
