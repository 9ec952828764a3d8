"""A platform of the fuzzer's own, on free ports and in a directory that goes away with it."""

import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from unittest.mock import patch

from tests.fuzz.verdicts.code import functions
from tests.fuzz.verdicts.stages import brittle, judges

from assay.cli.platform.addresses import Addresses
from assay.cli.platform.local import LocalPlatform
from assay.config.settings import load_settings
from assay.edge.clock import Clock

_SETTINGS: Final = {
    "ASSAY_REWARD__GRPC_PORT": "0",
    "ASSAY_REWARD__HTTP_PORT": "0",
    "ASSAY_WORKER__CONTROL_PORT": "0",
    "ASSAY_PLANNER__ENABLED": "false",
    "ASSAY_VERIFIERS__FUNCTION_PATHS": f'["{functions.PATH}"]',
}


@asynccontextmanager
async def platform() -> AsyncIterator[Addresses]:
    """Start it; its parts are started again when they die.

    Raises:
        DependencyDown: a part is in a crash loop; the block is cancelled.
    """
    path = [str(brittle.PATH), *filter(None, [os.environ.get("PYTHONPATH")])]
    with (
        patch.object(sys, "path", [path[0], *sys.path]),
        judges.serving() as judge_settings,
        tempfile.TemporaryDirectory(prefix="assay-fuzz-") as data_dir,
        patch.dict(
            os.environ,
            {
                **_SETTINGS,
                "ASSAY_DATA_DIR": data_dir,
                "ASSAY_VERIFIERS__JUDGES": judge_settings,
                "PYTHONPATH": os.pathsep.join(path),
            },
        ),
    ):
        own = LocalPlatform(load_settings(), clock=Clock())
        addresses = await own.start()
        try:
            async with own.kept():
                yield addresses
        finally:
            await own.stop()
