"""The wheel in an empty environment: it scores and serves, from any folder, for any user.

The environment is outside of the repository and readable by everyone. Where the tests run as root,
the commands run as an ordinary user as well.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 900
"""Against hanging: compiling and installing take a minute on a quiet machine."""
NOBODY = 65_534
pytestmark = pytest.mark.timeout(2 * SECONDS_MAX)
ROWS = [
    {"request_id": "right", "response": "so \\boxed{1/2}", "reference": {"answers": ["0.5"]}},
    {"request_id": "wrong", "response": "so \\boxed{2}", "reference": {"answers": ["0.5"]}},
]


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Who runs a command, with a home of their own."""

    uid: int
    home: Path

    def environment(self) -> dict[str, str]:
        free = {f"ASSAY_{n}": "0" for n in ("REWARD__GRPC_PORT", "REWARD__HTTP_PORT")}
        free |= {"ASSAY_WORKER__CONTROL_PORT": "0", "ASSAY_PLANNER__GRPC_PORT": "0"}
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8", **free}

    def popen(self, *command: str | Path) -> subprocess.Popen[str]:
        other = self.uid != os.geteuid()
        return subprocess.Popen(
            [str(word) for word in command],
            cwd=self.home,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            user=self.uid if other else None,
            group=self.uid if other else None,
            extra_groups=[] if other else None,
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = ["wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    subprocess.run([sys.executable, "-m", "pip", *command], check=True, timeout=SECONDS_MAX)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def outside() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="assay-wheel-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def python_for_everyone() -> str:
    """A Python that other users may run: ours, or the system's where ours is private."""
    ours = Path(sys.executable).resolve()
    if all(folder.stat().st_mode & 0o005 for folder in ours.parents):
        return str(ours)
    if sys.version_info[:2] == (3, 11) and Path("/usr/bin/python3.11").exists():
        return "/usr/bin/python3.11"
    pytest.skip(f"{ours} is private, and the system has no Python of this version")


@pytest.fixture(scope="module")
def installed(wheel: Path, outside: Path) -> Path:
    """The folder of the installed commands."""
    venv = outside / "venv"
    subprocess.run([python_for_everyone(), "-m", "venv", "--without-pip", str(venv)], check=True)
    into = ["--python", str(venv / "bin" / "python"), "install", "-q", f"{wheel}[server]"]
    subprocess.run([sys.executable, "-m", "pip", *into], check=True, timeout=SECONDS_MAX)
    return venv / "bin"


@pytest.fixture(params=["ourselves", "an ordinary user"])
def user(request: pytest.FixtureRequest, outside: Path) -> User:
    uid = os.geteuid()
    if request.param == "an ordinary user":
        if uid:
            pytest.skip("not root: we are an ordinary user ourselves")
        uid = NOBODY
    home = outside / f"home-{uid}"
    home.mkdir(exist_ok=True)
    os.chown(home, uid, uid) if uid != os.geteuid() else None
    return User(uid=uid, home=home)


def test_a_wheel_has_what_an_installation_needs(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    needed = ("libassay_rollout.so", "libassay_guard.so", "claim.lua", "reward_pb2.py", "py.typed")
    for end in needed:
        assert any(name.endswith(end) for name in names), end
    assert not any(name.startswith(("tests/", "services/", "benchmarks/")) for name in names)


def test_the_installed_command_scores_a_file(installed: Path, user: User) -> None:
    rows, output = user.home / "rows.jsonl", user.home / "out.jsonl"
    rows.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    run = user.popen(
        *(installed / "assay", "score", rows, "--pipeline", "math", "--out", output, "--json")
    )
    out, err = run.communicate(timeout=SECONDS_MAX)
    assert run.returncode == 0, err
    assert json.loads(out)["outcomes"] == {"SCORED": 2}
    results = map(json.loads, output.read_text().splitlines())
    assert {one["request_id"]: one["reward"] for one in results} == {"right": 1.0, "wrong": 0.0}


def test_the_installed_platform_starts_and_drains(installed: Path, user: User) -> None:
    up = user.popen(installed / "assay", "up", "--plain")
    assert up.stdout is not None
    first = up.stdout.readline()
    up.send_signal(signal.SIGINT)
    _, err = up.communicate(timeout=SECONDS_MAX)
    assert first.startswith("gRPC"), err
    assert up.returncode == 0, err


def test_without_a_compiler_the_wheel_has_the_client_and_fits_every_platform(
    tmp_path: Path,
) -> None:
    command = ["wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(ROOT)]
    subprocess.run(
        [sys.executable, "-m", "pip", *command],
        check=True,
        timeout=SECONDS_MAX,
        env={**os.environ, "CC": "no-such-compiler"},
    )
    (built,) = tmp_path.glob("*-py3-none-any.whl")
    names = zipfile.ZipFile(built).namelist()
    assert "assay/client/client.py" in names
    assert not any(name.endswith(".so") for name in names)
