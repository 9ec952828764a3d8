"""Run a pipeline as the workers do: reference and settings through the intake, stage by stage."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assay.config.settings import SandboxSettings, VerifierSettings
from assay.core.ids import PipelineName
from assay.core.verdict import Ended, ResourceUse
from assay.verifiers.intake import parse_reference, parse_settings
from assay.verifiers.port import HandlerContext, StageDefinition, StageHandler, Work
from assay.verifiers.registry import load_handler, load_pipelines

SHARED_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
Judge = Callable[..., Ended]


class MemoryArtifacts:
    """Artifacts of one process; what they promise across workers is the store's suite."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.made = 0

    def get_or_make(self, key: str, make: Callable[[], bytes]) -> bytes:
        if key not in self.kept:
            self.kept[key] = make()
            self.made += 1
        return self.kept[key]

    def get(self, key: str) -> bytes | None:
        return self.kept.get(key)


class Bench:
    """Handlers of all stages, made on first use."""

    def __init__(self, scratch: Path, verifiers: VerifierSettings) -> None:
        self.artifacts = MemoryArtifacts()
        self.pipelines = load_pipelines(verifiers)
        self._handlers: dict[str, StageHandler] = {}
        self._context = HandlerContext(
            artifacts=self.artifacts,
            sandbox=SandboxSettings(),
            verifiers=verifiers,
            scratch=scratch,
        )

    def judge(
        self,
        pipeline: str,
        response: str,
        reference: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Ended:
        handover = b""
        use = ResourceUse()
        for stage in self.pipelines[PipelineName(pipeline)].stages:
            work = self.work(pipeline, response, reference, handover, **settings)
            [verdict] = self.handler(stage).run([work])
            use = use.plus(verdict.use)
            if isinstance(verdict, Ended):
                return replace(verdict, use=use)
            handover = verdict.artifact
        raise AssertionError("the last stage handed over")

    def work(
        self,
        pipeline: str,
        response: str,
        reference: Mapping[str, Any] | None = None,
        handover: bytes = b"",
        **settings: Any,
    ) -> Work:
        definition = self.pipelines[PipelineName(pipeline)]
        return Work(
            response=response,
            reference=parse_reference(definition, json.dumps(reference or {}).encode()),
            settings=parse_settings(definition, json.dumps(settings).encode()),
            handover=handover,
        )

    def handler(self, stage: StageDefinition) -> StageHandler:
        name = stage.spec.name
        if name not in self._handlers:
            self._handlers[name] = load_handler(stage)(self._context)
        return self._handlers[name]

    def close(self) -> None:
        for handler in self._handlers.values():
            handler.close()


@pytest.fixture(scope="session")
def new_bench(tmp_path_factory: pytest.TempPathFactory) -> Callable[[VerifierSettings], Bench]:
    """For settings of its own; the caller closes it."""
    return lambda verifiers: Bench(tmp_path_factory.mktemp("scratch"), verifiers)


@pytest.fixture(scope="session")
def bench(new_bench: Callable[[VerifierSettings], Bench]) -> Iterator[Bench]:
    made = new_bench(VerifierSettings())
    yield made
    made.close()


@pytest.fixture(scope="session")
def judge(bench: Bench) -> Judge:
    return bench.judge


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not SHARED_DATA.is_dir():
        pytest.skip(f"no shared data in {SHARED_DATA}")
    return SHARED_DATA
