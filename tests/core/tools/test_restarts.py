"""When a dead process is started again: at once after a healthy life, later in a crash loop."""

from hypothesis import given
from hypothesis import strategies as st

from assay.core.tools.restarts import RestartPolicy

POLICY = RestartPolicy()
LIVES = st.lists(st.tuples(st.floats(0, 1e6), st.booleans()), max_size=40)


def streak(lives: list[tuple[float, bool]]) -> int:
    count = 0
    for lived_s, ready in lives:
        count = POLICY.short_lives(count, lived_s=lived_s, ready=ready)
    return count


@given(LIVES)
def test_a_process_that_became_ready_and_lived_is_started_at_once_whatever_was_before(
    lives: list[tuple[float, bool]],
) -> None:
    assert POLICY.pause_s(streak([*lives, (POLICY.healthy_s, True)])) == 0.0


@given(st.integers(0, 10_000))
def test_healthy_lives_are_never_too_many(deaths: int) -> None:
    assert POLICY.pause_s(streak([(POLICY.healthy_s, True)] * deaths)) == 0.0


def test_a_process_that_never_becomes_ready_is_given_up_however_long_it_tries() -> None:
    lives = [(1e6, False)] * POLICY.short_lives_max
    assert POLICY.pause_s(streak(lives[1:])) is not None
    assert POLICY.pause_s(streak(lives)) is None


def test_a_process_that_dies_soon_after_it_was_ready_is_given_up_too() -> None:
    assert POLICY.pause_s(streak([(0.5, True)] * POLICY.short_lives_max)) is None


def test_one_healthy_life_ends_a_crash_loop() -> None:
    loop = [(0.0, False)] * (POLICY.short_lives_max - 1)
    assert POLICY.pause_s(streak([*loop, (POLICY.healthy_s, True), *loop])) is not None


def test_pauses_double_up_to_the_longest_and_then_end() -> None:
    policy = RestartPolicy(short_lives_max=6, pause_first_s=1.0, pause_longest_s=5.0)
    assert [policy.pause_s(n) for n in range(8)] == [0.0, 1.0, 2.0, 4.0, 5.0, 5.0, None, None]
