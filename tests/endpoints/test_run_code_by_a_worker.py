"""SandboxFusion's `/run_code` where a worker host without the store runs the programs."""

import asyncio
import json
import os
import secrets
import signal
from pathlib import Path

import httpx
import pytest
from tests.e2e.commands import ASSAY, HANGS_S, assay, environment, platform_up
from tests.e2e.hosts import free_port


async def test_a_report_comes_back_from_a_worker_of_several_pipelines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, token, port = tmp_path / "worker.keys", tmp_path / "worker.token", free_port()
    keys.write_text(secrets.token_hex(32))
    keys.chmod(0o600)
    stages = [part for stage in ("python.run", "match") for part in ("--stage", stage)]
    made = assay("worker-token", "--key-file", keys, *stages, data_dir=tmp_path)
    assert made.returncode == 0, made.stderr
    token.write_text(made.stdout.strip())
    token.chmod(0o600)
    with monkeypatch.context() as patch:
        patch.setenv("ASSAY_REWARD__WORKER_PORT", str(port))
        patch.setenv("ASSAY_REWARD__WORKER_KEY_FILE", str(keys))
        patch.setenv("ASSAY_WORKER__STAGES", json.dumps(["noop"]))
        patch.setenv("ASSAY_PLANNER__ENABLED", "false")
        async with platform_up(tmp_path / "platform") as addresses:
            patch.delenv("ASSAY_WORKER__STAGES")
            worker = await asyncio.create_subprocess_exec(
                *(*ASSAY, "worker", "--api", f"127.0.0.1:{port}", "--token-file", str(token)),
                *stages,
                env={**environment(tmp_path / "worker"), "PATH": os.environ["PATH"]},
                start_new_session=True,
            )
            try:
                url = f"{addresses['http']}/v1/sandboxfusion"
                async with httpx.AsyncClient(base_url=url, timeout=HANGS_S) as http:
                    body = {"code": "print(6 * 7)", "language": "python"}
                    answer = (await http.post("/run_code", json=body)).json()
            finally:
                worker.send_signal(signal.SIGTERM)
                async with asyncio.timeout(HANGS_S):
                    await worker.wait()
    assert (answer["status"], answer["message"]) == ("Success", ""), answer
    assert answer["run_result"]["stdout"] == "42\n"
