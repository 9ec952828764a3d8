"""What a box shows of a device, and which of its calls it lets through."""

import json
from collections.abc import Sequence

import pytest

from assay.config.settings import SandboxSettings
from assay.edge.clock import Clock
from assay.sandbox.launchers.order import Inside
from assay.sandbox.launchers.zygote import ZygoteLauncher
from assay.sandbox.port import PythonRun

LOOK = """
import errno, fcntl, json, os
def call(number):
    try:
        fcntl.ioctl(0, number)
    except OSError as error:
        return errno.errorcode[error.errno]
numbers = (0x4600, 0xC0484601, 75, 0x30000001, 0x5412, 0x4700, 0x30000003)
print(json.dumps([os.path.exists("/dev/ptmx"), [call(number) for number in numbers]]))
"""
"""The driver's, the same with a size, UVM's; TIOCSTI and others."""


@pytest.mark.parametrize(
    ("devices", "answers"),
    [
        ((), ["ENOSYS"] * 7),
        (("ptmx",), ["ENOTTY"] * 4 + ["ENOSYS"] * 3),
    ],
)
def test_a_box_shows_a_device_with_the_calls_of_its_driver_and_no_others(
    devices: Sequence[str], answers: list[str]
) -> None:
    inside = Inside(gpu_devices=tuple(devices))
    with ZygoteLauncher(SandboxSettings(), Clock(), inside=inside) as launcher:
        result = launcher.run_python(PythonRun(source=LOOK.encode()))
    assert json.loads(result.stdout) == [bool(devices), answers], result.stderr
