"""The version of a pipeline: a content hash of its code, settings and tools.

Invariant: results of one version were judged by the same files, interpreter, limits, tools and
settings, so that the same request may be expected to get the same reward again. Two
versions may judge alike: the hash covers all code that a pipeline could use, not only the code that
it uses.
Code is what this process found when it started, as are the processes that it starts; programs and
folders of an operator, which may change while it runs, are looked at again.
"""

import hashlib
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from assay.config.settings import VerifierSettings
from assay.core.ids import PipelineName
from assay.core.tools.lru import LruCache
from assay.verifiers.port import PipelineDefinition, Tools

VERSION_CHARS: Final = 32
OWN_PACKAGES: Final = ("assay.core", "assay.sandbox", "assay.verifiers")
"""Code of every built-in pipeline."""
VERSIONS_KNOWN_MAX: Final = 1_024
LOOK_SHARE_MAX: Final = 0.01
"""Share of the time that is spent on looking whether tools have changed."""
LOOK_EVERY_S_MIN: Final = 1.0
_ABSENT: Final = "absent"
_NOT_LIMITS: Final = frozenset({"program_paths", "program_packages", "function_paths"})
"""Settings that name tools, which are looked at themselves."""


def version_after(before: str, own: str) -> str:
    """Version over several stages: `own`, unless earlier ones were judged by another version."""
    if not before or before == own:
        return own
    return _hash((before.encode(), own.encode()))


class Versions:
    """Versions of pipelines on this host."""

    def __init__(
        self,
        pipelines: Mapping[PipelineName, PipelineDefinition],
        settings: VerifierSettings,
        *,
        now_s: Callable[[], float],
    ) -> None:
        """Look at code and tools.

        Args:
            pipelines: all that a request may name.
            settings: the operator's limits.
            now_s: a monotonic clock.
        """
        limits = settings.model_dump_json(exclude=set(_NOT_LIMITS)).encode()
        self._code = {
            name: _hash((limits, *_code_of(definition))) for name, definition in pipelines.items()
        }
        self._tools = {name: definition.tools for name, definition in pipelines.items()}
        self._files = _Files()
        self._now_s = now_s
        self._known: LruCache[tuple[PipelineName, str, bytes], str] = LruCache(
            weight_max=VERSIONS_KNOWN_MAX
        )
        self._seen: dict[PipelineName, str] = {}
        self._next_look_s: dict[PipelineName, float] = {}
        for name in pipelines:
            self._look(name)

    def of(self, pipeline: PipelineName, settings_json: bytes) -> str:
        """Version of a pipeline with a task's settings; empty: there is no such pipeline here."""
        if pipeline not in self._code:
            return ""
        self._look(pipeline)
        tools = self._seen[pipeline]
        known = self._known.get((pipeline, tools, settings_json))
        if known is None:
            known = _hash((self._code[pipeline].encode(), tools.encode(), settings_json))
            self._known.put((pipeline, tools, settings_json), known)
        return known

    def _look(self, pipeline: PipelineName) -> None:
        """Look at the tools, if the last look is long enough ago for its cost."""
        began_s = self._now_s()
        if began_s < self._next_look_s.get(pipeline, began_s):
            return
        self._seen[pipeline] = self._files.of_tools(self._tools[pipeline])
        ended_s = self._now_s()
        pause_s = max(LOOK_EVERY_S_MIN, (ended_s - began_s) / LOOK_SHARE_MAX)
        self._next_look_s[pipeline] = ended_s + pause_s


class _Files:
    """Hashes of files; a file is read again when its size or time has changed."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[int, int, str]] = {}

    def of_tools(self, tools: Tools) -> str:
        programs = [self._of_program(name) for name in tools.programs]
        folders = [self.of_folder(folder) for folder in tools.folders]
        return _hash(text.encode() for text in (*programs, *folders))

    def _of_program(self, name: str) -> str:
        found = shutil.which(name)
        return self.of_file(Path(found).resolve()) if found else _ABSENT

    def of_folder(self, folder: Path) -> str:
        parts = [
            text
            for path in _files_in(folder)
            for text in (str(path.relative_to(folder)), self.of_file(path))
        ]
        return _hash(text.encode("utf-8", "surrogateescape") for text in parts)

    def of_file(self, path: Path) -> str:
        try:
            facts = path.stat()
            known = self._read.get(path)
            if known is not None and known[:2] == (facts.st_mtime_ns, facts.st_size):
                return known[2]
            digest = _hash_of_file(path)
        except OSError:  # it is gone
            return _ABSENT
        self._read[path] = (facts.st_mtime_ns, facts.st_size, digest)
        return digest


def _code_of(definition: PipelineDefinition) -> Iterator[bytes]:
    """What the pipeline's code is made of."""
    yield definition.spec.name.encode()
    yield sys.version.encode()
    yield platform.machine().encode()
    yield hash_of_packages(OWN_PACKAGES).encode()
    for stage in definition.stages:
        for part in stage.parts or (stage,):
            yield part.spec.name.encode()
            yield part.handler.encode()
    yield hash_of_packages(_packages_of(definition)).encode()
    for name in definition.tools.distributions:
        yield _version_of(name).encode()


def _packages_of(definition: PipelineDefinition) -> tuple[str, ...]:
    """Top-level packages of the handlers and models that are not ours."""
    parts = [part for stage in definition.stages for part in stage.parts or (stage,)]
    modules = [part.handler.partition(":")[0] for part in parts]
    modules += [definition.settings.__module__, definition.reference.__module__]
    ours = tuple(f"{package}." for package in OWN_PACKAGES)
    others = {name for name in modules if not f"{name}.".startswith(ours)}
    # A part of `assay` that is not ours is a namespace package's: take the module itself.
    return tuple(
        sorted(name if name.startswith("assay.") else name.partition(".")[0] for name in others)
    )


@lru_cache(maxsize=256)
def hash_of_packages(names: Sequence[str]) -> str:
    """Content of packages or modules, as found by this process at its first call."""
    files = _Files()
    parts: list[str] = []
    for name in names:
        parts.append(name)
        for root in _places_of(name):
            parts.append(files.of_folder(root) if root.is_dir() else files.of_file(root))
    return _hash(part.encode() for part in parts)


def _places_of(name: str) -> Sequence[Path]:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return ()
    if spec is None:
        return ()
    if spec.submodule_search_locations is not None:
        return [Path(place) for place in spec.submodule_search_locations]
    return [Path(spec.origin)] if spec.has_location and spec.origin else ()


def _files_in(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if "__pycache__" not in path.parts and path.is_file():
            yield path


def _version_of(distribution: str) -> str:
    try:
        return f"{distribution} {version(distribution)}"
    except PackageNotFoundError:
        return f"{distribution} {_ABSENT}"


def _hash_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hash(parts: Iterable[bytes]) -> str:
    """Hash of parts, each with its length, so that no two lists are alike."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:VERSION_CHARS]
