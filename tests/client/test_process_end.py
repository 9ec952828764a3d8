"""A process that leaves a client open ends all the same.

The wait that is prevented (see `assay.client.connection`) happened in some 3 of 100 processes with
grpcio 1.66, so what is tested is that nothing can begin it.
"""

import subprocess
import sys

import pytest

LEAVES = """
import atexit, grpc
atexit.register(lambda: print(taken))  # hooks run from the last to the first
taken, own = 0, grpc.aio.init_grpc_aio
def init():
    global taken
    taken += 1
    own()
grpc.aio.init_grpc_aio = init
from assay.client import SyncClient
from assay.core.errors import DependencyDown
from assay.client.backoff import Backoff
client = SyncClient("127.0.0.1:9", backoff=Backoff(total_s=0.0))
with client if {closed} else open("/dev/null"):
    try:
        client.score([], pipeline="exact")
    except DependencyDown:
        pass
if {closed}:
    import gc
    del client
    gc.collect()
"""


@pytest.mark.parametrize(("closed", "taken"), [(False, "1"), (True, "0")])
def test_grpc_is_not_waited_for_while_a_channel_is_open(closed: bool, taken: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVES.format(closed=closed)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout.strip()) == (0, taken), done.stderr
