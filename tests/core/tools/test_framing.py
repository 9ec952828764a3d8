"""Frames survive any cut of the stream, and no length that a peer announces is trusted."""

import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.tools.framing import HEAD, FrameReader, FramingError, body_bytes, frame, read_body

BYTES_MAX = 64
bodies = st.lists(st.binary(max_size=BYTES_MAX), max_size=8)


@given(bodies, st.lists(st.integers(0, 600), max_size=12))
def test_any_cut_of_the_stream_gives_the_same_bodies(sent: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(frame(body, bytes_max=BYTES_MAX) for body in sent)
    reader = FrameReader(bytes, bytes_max=BYTES_MAX)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(edges)]
    assert [body for piece in pieces for body in reader.feed(piece)] == sent


@given(bodies)
def test_a_blocking_reader_gives_the_same_bodies(sent: list[bytes]) -> None:
    stream = io.BytesIO(b"".join(frame(body, bytes_max=BYTES_MAX) for body in sent))
    read = [read_body(stream, bytes_max=BYTES_MAX) for _ in sent]
    assert read == sent
    assert read_body(stream, bytes_max=BYTES_MAX) is None


def test_a_body_that_is_too_long_is_refused_on_both_sides() -> None:
    head = HEAD.pack(BYTES_MAX + 1)
    with pytest.raises(FramingError):
        frame(bytes(BYTES_MAX + 1), bytes_max=BYTES_MAX)
    with pytest.raises(FramingError):
        body_bytes(head, bytes_max=BYTES_MAX)
    with pytest.raises(FramingError):
        read_body(io.BytesIO(head), bytes_max=BYTES_MAX)
    with pytest.raises(FramingError):
        list(FrameReader(bytes, bytes_max=BYTES_MAX).feed(head))


@pytest.mark.parametrize("kept", [1, HEAD.size - 1, HEAD.size, HEAD.size + 2])
def test_a_stream_that_ends_inside_a_frame_is_an_error(kept: int) -> None:
    cut = frame(b"body", bytes_max=BYTES_MAX)[:kept]
    with pytest.raises(FramingError, match="ends inside"):
        read_body(io.BytesIO(cut), bytes_max=BYTES_MAX)


def test_frames_before_a_bad_one_are_given_and_not_given_again() -> None:
    reader = FrameReader(bytes, bytes_max=BYTES_MAX)
    found = reader.feed(frame(b"one", bytes_max=BYTES_MAX) + HEAD.pack(BYTES_MAX + 1))
    assert next(found) == b"one"
    with pytest.raises(FramingError):
        next(found)
    with pytest.raises(FramingError):
        list(reader.feed(b""))


def test_a_decoder_that_raises_does_not_block_the_buffer() -> None:
    def refuse(body: memoryview) -> bytes:
        raise ValueError(bytes(body))

    reader = FrameReader(refuse, bytes_max=BYTES_MAX)
    with pytest.raises(ValueError, match="bad"):
        list(reader.feed(frame(b"bad", bytes_max=BYTES_MAX)))
