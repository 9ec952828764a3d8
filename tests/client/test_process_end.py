"""A process that leaves a client open ends all the same.

The wait that is prevented (see `assay.client.connection`) happens by chance with grpcio 1.66, so
what is tested is that nothing can begin it.
"""

import subprocess
import sys

import pytest

LEAVES = """
import atexit, gc, sys
counted = []
atexit.register(lambda: print([sys.getrefcount(pair[0]) - pair[1] for pair in counted]))
from assay.client import SyncClient, connection  # its hook runs before the one above
from assay.client.backoff import Backoff
from assay.core.errors import DependencyDown
client = SyncClient("127.0.0.1:9", backoff=Backoff(total_s=0.0))
try:
    client.register_task("a", pipeline="exact")
except DependencyDown:
    pass
if {closed}:
    client.close()
    del client
    gc.collect()
counted.extend([c, sys.getrefcount(c)] for c in connection._channels)
for pair in counted:
    pair[1] = sys.getrefcount(pair[0])
"""


@pytest.mark.parametrize(("closed", "taken"), [(False, "[1]"), (True, "[]")])
def test_grpc_is_not_waited_for_while_a_channel_is_open(closed: bool, taken: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVES.format(closed=closed)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, taken, "")
