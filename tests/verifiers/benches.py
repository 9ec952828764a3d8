"""Run a pipeline as the workers do: reference and settings through the intake, stage by stage.

Fixtures, for the `conftest.py` of every folder that judges rows.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay.config.settings import VerifierSettings
from assay.core.verdict import Ended
from assay.verifiers.local import LocalPipelines

SHARED_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(scope="session")
def new_bench(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[VerifierSettings], LocalPipelines]:
    """For settings of its own; the caller closes it."""
    return lambda verifiers: LocalPipelines(
        scratch=tmp_path_factory.mktemp("scratch"), verifiers=verifiers
    )


@pytest.fixture(scope="session")
def bench(new_bench: Callable[[VerifierSettings], LocalPipelines]) -> Iterator[LocalPipelines]:
    with new_bench(VerifierSettings()) as made:
        yield made


@pytest.fixture(scope="session")
def judge(bench: LocalPipelines) -> Callable[..., Ended]:
    return bench.judge


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not SHARED_DATA.is_dir():
        pytest.skip(f"no shared data in {SHARED_DATA}")
    return SHARED_DATA
