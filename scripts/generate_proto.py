"""Regenerate the protobuf modules: `python scripts/generate_proto.py [OUT]`.

The `.proto` path is the package is the import path, so protoc's absolute imports just work and the
output needs no fixing up. `tests/repo/test_generated.py` proves that what is committed is fresh.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROTO = ROOT / "proto"


def generate(out: Path) -> None:
    """Write `*_pb2.py`, `*_pb2_grpc.py` and their `.pyi` stubs under `out`.

    Raises:
        subprocess.CalledProcessError: protoc refuses a file.
    """
    files = sorted(str(p.relative_to(PROTO)) for p in PROTO.rglob("*.proto"))
    outs = [f"--{kind}_out={out}" for kind in ("python", "grpc_python", "mypy", "mypy_grpc")]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", *outs, *files]
    scripts = sysconfig.get_path("scripts")
    # protoc finds the mypy plugins by name on PATH.
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}"}
    subprocess.run(command, check=True, env=environment)  # noqa: S603


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else PROTO)
