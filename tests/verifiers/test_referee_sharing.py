"""How the referee and the program pass messages and notice what the other side changed."""

import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.verdict import Ended
from assay.verifiers.code.referee.frames import Frames
from assay.verifiers.code.referee.held import Shared
from assay.verifiers.code.referee.lent import Surroundings

Judge = Callable[..., Ended]
ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=5)
)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, Frames]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, Frames(other.fileno())


def written(*messages: Any) -> bytes:
    one, other = socket.socketpair()
    with one, other:
        for message in messages:
            Frames(one.fileno()).send(message)
        return os.read(other.fileno(), 1 << 20)


@given(
    messages=st.lists(st.lists(ATOMS.filter(lambda v: not isinstance(v, bytes))), max_size=6),
    cuts=st.lists(st.integers(0, 400), max_size=6),
)
def test_messages_are_read_whole_however_they_arrive(messages: list[Any], cuts: list[int]) -> None:
    stream = written(*messages) if messages else b""
    pieces = [stream[a:b] for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), None], strict=True)]
    one, other = socket.socketpair()
    with one, other:
        frames = Frames(other.fileno())
        left = iter(pieces)

        def more() -> None:
            one.sendall(next(piece for piece in left if piece))

        assert repr([frames.receive(more) for _ in messages]) == repr(messages)


def test_a_message_behind_another_is_not_waited_for(pair: tuple[socket.socket, Frames]) -> None:
    """Both arrived with one read: a wait for more would never end."""
    one, frames = pair
    one.sendall(written([1], [2]))
    waits: list[int] = []
    assert [frames.receive(lambda: waits.append(1)) for _ in range(2)] == [[1], [2]]
    assert len(waits) == 1


def test_an_end_within_a_message_is_an_end(pair: tuple[socket.socket, Frames]) -> None:
    one, frames = pair
    one.sendall(written([1], [2])[:-1])
    one.shutdown(socket.SHUT_WR)
    assert frames.receive(lambda: None) == [1]
    with pytest.raises(EOFError):
        frames.receive(lambda: None)


CHANGES: list[tuple[str, list[Any], Callable[[list[Any]], object]]] = [
    ("an item more", [1, 2], lambda held: held.append(3)),
    ("an item less", [1, 2], lambda held: held.pop()),
    ("an equal item of another type", [1, 2], lambda held: held.__setitem__(0, True)),
    ("an equal float", [1, 2], lambda held: held.__setitem__(0, 1.0)),
    ("a negative zero", [0.0], lambda held: held.__setitem__(0, -0.0)),
    ("another order", [1, 2], lambda held: held.reverse()),
    ("a container among atoms", [1, 2], lambda held: held.__setitem__(0, [1])),
    ("within a container", [[1], 2], lambda held: held[0].append(3)),
]


@pytest.mark.parametrize(("held", "change"), [each[1:] for each in CHANGES],
                         ids=[each[0] for each in CHANGES])  # fmt: skip
def test_every_change_of_a_kept_list_is_seen(
    held: list[Any], change: Callable[[list[Any]], object]
) -> None:
    shared = Shared()
    shared.add([held, *(item for item in held if isinstance(item, list))], 20)
    assert shared.changed(shared.containers) == []
    change(held)
    assert shared.changed(shared.containers)
    for value in shared.containers:
        shared.told(value)
    assert shared.changed(shared.containers) == []


def test_variables_and_arguments_are_news_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    seen = Surroundings("")
    assert seen.news() == []
    monkeypatch.setenv("ASSAY_TRIED", "\udcff")
    monkeypatch.setattr(sys, "argv", ["a", "b"])
    assert seen.news() == [["env", "ASSAY_TRIED", "\udcff"], ["argv", ["a", "b"]]]
    assert seen.news() == []
    monkeypatch.delenv("ASSAY_TRIED")
    monkeypatch.setattr(os, "environ", {**os.environ, "ASSAY_OTHER": "x"})
    assert seen.news() == [["env", "ASSAY_OTHER", "x"], ["env", "ASSAY_TRIED", None]]


ALTERED = """
def alter(x, **named):
    x[0] = True
    named.clear()
    return len(named)

def same(x): return x

class Box:
    def __init__(self, x): self.x = x
    def turn(self): self.x.reverse()
"""


@pytest.mark.parametrize(
    "code",
    [
        "x = [1, 2]\nassert alter(x) == 0 and x[0] is True and type(x[0]) is bool",
        "x, k = [1.0], [3]\nassert alter(x, k=k) == 0 and x[0] is True and k == [3]",
        "x = {0: 1}\nassert alter(x=x) == 0 and x[0] is True",
        "x = [float('nan')]\nassert alter(x) == 0 and x[0] is True",
        "x = [[1], 2]\nassert same(x) is x and same(x[0]) is x[0]",
    ],
)
def test_what_a_program_changes_in_an_argument_the_tests_see(judge: Judge, code: str) -> None:
    ended = judge("code.python", ALTERED, {"asserts": {"code": [code]}}, extraction="raw")
    assert ended.reward == 1.0, ended.evidence
