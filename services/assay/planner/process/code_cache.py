"""Where the planning process keeps machine code: one directory per state of the sources.

numba itself looks only at the file of the compiled function. After an upgrade it would run code
that was compiled with functions or record types of another release.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import assay
from assay.config.computed import bases, cache_dir

COMPILED_PACKAGES: Final = ("model", "planner/core", "sim/pools")
"""Where compiled functions, and what they are compiled with, are defined."""
VARIABLE: Final = "NUMBA_CACHE_DIR"
ANY_PROCESSOR: Final = {"NUMBA_CPU_NAME": "generic"}
"""What is compiled serves every processor of the architecture: one set is shipped with the wheel.
Plans are whole numbers, heaps and branches; they gain nothing from a processor's vector units."""


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that compiles; one that names a directory itself keeps it."""
    given = {**ANY_PROCESSOR, **inherited}
    if inherited.get(VARIABLE):
        return given
    digest = sources_digest(assay.__path__)
    for base in bases(inherited):
        if (found := cache_dir(base / "compiled", digest)) is not None:
            return {**given, VARIABLE: str(found)}
    return given


def sources_digest(roots: Iterable[str | Path]) -> str:
    """SHA-256 of the compiled packages below these roots; names and contents."""
    digest = hashlib.sha256()
    for root in sorted(map(str, roots)):
        for package in COMPILED_PACKAGES:
            for file in sorted(Path(root, package).glob("*.py")):
                content = file.read_bytes()
                digest.update(f"{package}/{file.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]
