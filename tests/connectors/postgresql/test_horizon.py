"""Which rows are final: a model of transactions that draw numbers, and commit or not, in any order."""

from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.postgresql.horizon import Horizon


def test_all_is_final_while_nobody_writes() -> None:
    horizon = Horizon()
    horizon.look(9, frozenset())
    assert horizon.final(0, [2, 5, 9]) == 3


def test_what_comes_after_a_missing_number_waits_for_who_was_writing() -> None:
    horizon = Horizon()
    horizon.look(3, {"a"})
    assert horizon.final(0, [1, 3]) == 1
    horizon.look(5, {"a", "b"})
    assert horizon.final(1, [3, 4, 5]) == 0
    horizon.look(5, {"b"})
    assert horizon.all_final_to == 3
    assert horizon.final(1, [3, 4, 5]) == 3


def test_numbers_that_leave_nothing_out_are_final_whoever_writes() -> None:
    horizon = Horizon()
    horizon.look(4, {"a"})
    assert horizon.final(0, [1, 2, 3, 4]) == 4
    assert horizon.final(2, [3, 4]) == 2
    assert horizon.final(2, [4, 5]) == 0


# A step: who acts, whether a writer draws one more number, commits or rolls back; or the reader looks, or reads.
STEPS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["draw", "commit", "roll back", "look", "read"])), max_size=60)


@given(STEPS, st.integers(1, 5))
def test_no_row_that_is_ever_committed_is_skipped(steps: list[tuple[int, str]], page: int) -> None:
    horizon, drawn, after = Horizon(), 0, 0
    writing: dict[int, list[int]] = {}
    named: dict[int, int] = {}
    visible: list[int] = []
    read: list[int] = []

    def act(who: int, what: str) -> None:
        nonlocal drawn, after
        if what == "draw":
            drawn += 1
            named.setdefault(who, drawn)
            writing.setdefault(who, []).append(drawn)
        elif what == "look":
            horizon.look(max(visible, default=0), {f"{writer}/{named[writer]}" for writer in writing})
        elif what == "read":
            found = visible[bisect_right(visible, after) :][:page]
            count = horizon.final(after, found)
            read.extend(found[:count])
            after = found[count - 1] if count else max(after, horizon.all_final_to) if not found else after
        elif who in writing:
            numbers = writing.pop(who)
            del named[who]
            if what == "commit":
                visible.extend(numbers)
                visible.sort()

    for step in steps:
        act(*step)
        assert read == visible[: len(read)]
    for writer in list(writing):
        act(writer, "commit")
    act(0, "look")
    act(0, "look")
    while len(read) < len(visible):
        act(0, "read")
    assert read == visible
