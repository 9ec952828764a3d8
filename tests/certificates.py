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


class Authority:
    """An authority that signs certificates for one test."""

    def __init__(self, folder: Path, name: str) -> None:
        """Made with openssl; without it, a skip."""
        if shutil.which("openssl") is None:
            pytest.skip("certificates are made with openssl")
        self._folder = folder
        self.certificate, self._key = folder / f"{name}.crt", folder / f"{name}.key"
        _openssl("req", "-x509", *NEW_KEY, "-days", "2", "-subj", f"/CN={name}",
                 "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                 "-keyout", self._key, "-out", self.certificate)  # fmt: skip

    def signed(self, name: str, *names: str, days: int = 2) -> tuple[Path, Path]:
        """A certificate with a common name and alternative names, and its key.

        With `days=-1` it ended yesterday.
        """
        made, key, asked = (self._folder / f"{name}.{end}" for end in ("crt", "key", "csr"))
        extension = self._folder / f"{name}.ext"
        # From Python 3.13 on, clients ask for all that RFC 5280 does.
        extension.write_text(
            f"subjectAltName={','.join(names)}\n"
            "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
        )
        _openssl("req", *NEW_KEY, "-subj", f"/CN={name}", "-keyout", key, "-out", asked)
        _openssl("x509", "-req", "-in", asked, "-CA", self.certificate, "-CAkey", self._key,
                 "-CAcreateserial", "-days", days, "-extfile", extension, "-out", made)  # fmt: skip
        return made, key


NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _openssl(*arguments: str | Path | int) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
