"""The committed protobuf modules are what the `.proto` files say."""

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_generated_protobuf_modules_are_fresh(tmp_path: Path) -> None:
    generate = runpy.run_path(str(ROOT / "scripts" / "generate_proto.py"))["generate"]
    generate(tmp_path)
    fresh = {p.relative_to(tmp_path): p.read_text() for p in tmp_path.rglob("*_pb2*.py*")}
    assert len(fresh) >= 8
    stale = [
        str(path) for path, text in fresh.items() if (ROOT / "proto" / path).read_text() != text
    ]
    assert stale == [], "run: python scripts/generate_proto.py"
