"""A pytest plugin: collections of garbage pass over what a run has collected of tests.

A part holds ten thousand tests with their parameters. Without this, each full collection, also one
that a test asks for, would visit all of them; none is garbage before the run ends.
"""

import gc

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> object:
    """Collect the tests without looking for garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Modules, tests and their parameters stay to the end."""
    gc.collect()
    gc.freeze()
