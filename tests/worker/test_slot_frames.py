"""Frames between a host and its slots, however they are cut."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.worker.slots import messages
from assay.worker.slots.frames import BlockingFrames, ProtocolError, SlotFrameReader, encode

PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.binary(max_size=50)
VALUES = st.recursive(PLAIN | st.text(max_size=20), lambda some: st.lists(some, max_size=5))


@given(st.lists(st.lists(VALUES, min_size=1, max_size=4), max_size=4), st.data())
def test_frames_survive_any_cutting(frames: list[list[object]], data: st.DataObject) -> None:
    stream = b"".join(encode(*frame) for frame in frames)
    reader = SlotFrameReader()
    arrived: list[list[object]] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        arrived += reader.feed(stream[:size])
        stream = stream[size:]
    assert arrived == frames


@given(st.binary(max_size=200))
def test_what_is_no_frame_breaks_the_protocol_or_waits_for_more(data: bytes) -> None:
    try:
        for frame in SlotFrameReader().feed(data):
            assert isinstance(frame, list)
    except ProtocolError:
        pass


def test_a_frame_too_long_breaks_the_protocol_before_it_arrives() -> None:
    with pytest.raises(ProtocolError, match="4294967295"):
        list(SlotFrameReader().feed(b"\xff\xff\xff\xff"))


def test_a_slot_hears_of_its_hosts_end() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(encode("work", 1))
        theirs.close()
        frames = BlockingFrames(ours)
        assert frames.receive() == ["work", 1]
        assert frames.receive() is None


def test_work_that_comes_while_a_slot_waits_for_an_answer_is_kept() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        frames = BlockingFrames(ours)
        theirs.sendall(encode("work", 1) + encode("take_back") + encode("artifact", None, False))
        assert frames.receive(leaving=messages.AHEAD) == ["artifact", None, False]
        assert not frames.next_is("take_back"), "work is before it"
        assert frames.receive() == ["work", 1]
        assert frames.next_is("take_back")
        assert not frames.next_is("take_back"), "nothing has arrived, and none is waited for"
        theirs.sendall(encode("work", 2))
        assert frames.next_is("work")
        theirs.close()
        assert not frames.next_is("work")
        assert frames.receive() is None
