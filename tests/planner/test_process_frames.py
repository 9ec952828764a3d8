"""Frames between the planner and its planning process."""

import io

import pytest

from assay.core.tools.framing import FramingError
from assay.planner.process import frames


def test_frames_come_back_and_end_with_the_stream():
    stream = io.BytesIO(frames.encode({"a": 1}) + frames.encode("b") + frames.encode("c")[:-1])
    assert frames.receive(stream) == {"a": 1}
    assert frames.receive(stream) == "b"
    with pytest.raises(FramingError):
        frames.receive(stream)
    assert frames.receive(stream) is None


def test_a_frame_of_nonsense_is_refused():
    with pytest.raises(FramingError):
        frames.decode(b"nonsense")
    with pytest.raises(FramingError):
        frames.length_of(b"\xff" * 4)
