"""Generated calls, right and wrong, never end as a fault of ours.

Over HTTP, schemathesis reads the OpenAPI document and makes the requests; over gRPC, messages are
made from the descriptors, and then damaged. What may come back is a success or a typed error.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import sys
from typing import TYPE_CHECKING

import grpc
import pytest
from tests.edge import every_call

if TYPE_CHECKING:
    from pathlib import Path

    from tests.running import RunApi, Running

SEED = 20_261_122
MESSAGES = 40
"""Per method."""
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


async def test_any_bytes_over_grpc_are_answered_with_a_typed_error(api: Running) -> None:
    chance = random.Random(SEED)
    methods = [m for m in every_call.methods() if m.containing_service.name == "RewardService"]
    seen = set()
    async with grpc.aio.insecure_channel(api.addresses.grpc) as channel:
        for method in methods:
            for message in every_call.drawn_messages(method, chance, MESSAGES):
                call = every_call.typed_end(channel, method, message, "", timeout_s=2.0)
                seen.add(await asyncio.wait_for(call, 60))
    assert {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND} <= seen


async def test_generated_requests_over_http_have_the_answers_of_the_document(
    run_api: RunApi, tmp_path: Path
) -> None:
    pytest.importorskip("schemathesis")
    tenants = {"red": {"token_sha256": hashlib.sha256(b"red").hexdigest()}}
    api = await run_api(tenants=tenants)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schemathesis.cli", "run"),
        f"{api.addresses.http}/openapi.json",
        *("-H", "authorization: Bearer red", "--no-color"),
        *("--phases", "fuzzing", "--max-examples", "4", "--seed", str(SEED)),
        "--generation-deterministic",
        *("--checks", ",".join(CHECKS), "--request-timeout", "60", "--warnings", "off"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=tmp_path,  # it keeps a cache there
    )
    told, _ = await process.communicate()
    assert process.returncode == 0, told.decode()[-8000:]
