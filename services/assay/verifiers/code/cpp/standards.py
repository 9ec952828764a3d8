"""Which standards of C++ this machine's compiler knows."""

import subprocess
from typing import Final

_ASKED_S: Final = 60.0
"""Asked while candidates run, so on a machine that may be loaded."""


def knows_standard(compiler: str, standard: str) -> bool:
    """Whether g++ at the path `compiler` takes `-std=` with this name: g++ 10 has no gnu++23."""
    done = subprocess.run(  # noqa: S603 - the operator's own compiler; no source of others
        [compiler, f"-std={standard}", "-E", "-x", "c++", "/dev/null"],
        capture_output=True,
        check=False,
        timeout=_ASKED_S,
    )
    return done.returncode == 0
