"""Runs a part of the platform with a clock that is wrong: `python skewed.py SECONDS MODULE`."""

import runpy
import sys
import time

if __name__ == "__main__":
    shift_s, module = float(sys.argv[1]), sys.argv[2]
    real_s, real_ns = time.time, time.time_ns
    time.time = lambda: real_s() + shift_s
    time.time_ns = lambda: real_ns() + round(shift_s * 1e9)
    del sys.path[0]  # this folder, whose modules have common names
    sys.argv = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
