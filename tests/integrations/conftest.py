"""A platform for the adapters."""

from typing import Any

import pytest
from tests.integrations.stand_in import Judge


@pytest.fixture
async def judge(api: Any, run_worker: Any, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """A running platform, named by `ASSAY_URL`, whose pipeline `math` is judged by this."""
    stand_in = Judge()
    await run_worker(stand_in, stage="math.verify")
    monkeypatch.setenv("ASSAY_URL", api.addresses.grpc)
    return stand_in
