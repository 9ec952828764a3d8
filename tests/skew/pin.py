"""Pin the wire of a release: `python -m tests.skew.pin REF` writes `previous.binpb`.

Run it at a release with the tag of the one before: the tests of this folder then hold the present
code to that wire, in both directions.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PINNED = Path(__file__).with_name("previous.binpb")
WIRES = ("common", "planner", "reward", "rollout", "worker")


def main(ref: str) -> None:
    """Compile the .proto files of a commit to a set of descriptors."""
    with tempfile.TemporaryDirectory() as folder:
        names = [f"assay/v1/{name}.proto" for name in WIRES]
        for name in names:
            shown = subprocess.run(
                ["git", "show", f"{ref}:proto/{name}"], cwd=ROOT, check=True, capture_output=True
            )
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(shown.stdout)
        protoc = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", "--include_imports"]
        subprocess.run([*protoc, f"--descriptor_set_out={PINNED}", *names], check=True)
    print(f"{PINNED.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
