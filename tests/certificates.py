"""Certificates for tests of TLS."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate of `localhost`, and its key; without openssl, a skip."""
    if shutil.which("openssl") is None:
        pytest.skip("certificates are made with openssl")
    made, key = folder / "tls.crt", folder / "tls.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key)),
            *("-out", str(made)),
        ],
        check=True,
        capture_output=True,
    )
    return made, key
