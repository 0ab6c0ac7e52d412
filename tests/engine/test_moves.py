"""Where a query continues: arithmetic of positions, for all histories of a stream."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contract.limits import MAX_SEQUENCE
from headrace.engine import (
    After,
    AtBatch,
    AtBeginning,
    AtEnd,
    AtPositions,
    AtTime,
    By,
    Change,
    Direction,
    PositionRefused,
    Target,
)
from headrace.engine.checkpoint.moves import BEGINNING, Point, kind_of, moved_to
from headrace.engine.checkpoint.position import Position

S = "orders/0"


@st.composite
def histories(draw: st.DrawFn) -> list[Point]:
    """A stream that advances, in micro-batches that are planned one after the other."""
    steps = draw(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 1000)), min_size=1, max_size=12))
    first = draw(st.integers(0, 100))
    sequence, time, points = draw(st.integers(0, 100)), draw(st.integers(0, 1000)), []
    for batch, (more, later) in enumerate(steps, first):
        sequence, time = sequence + more, time + later
        has = draw(st.booleans())
        points.append(Point(batch, time, {S: Position(0, sequence, b"%d" % sequence if has else None)}))
    return points


def moved(points: Sequence[Point], target: Target, direction: Direction = Direction.ANY) -> Position:
    return moved_to(S, points, target, direction)


def now(points: Sequence[Point]) -> Position:
    return points[-1].streams[S]


@given(histories(), st.integers(0, 2000))
def test_a_sequence_is_reached_and_its_cursor_is_one_from_which_the_source_sends_it(points: list[Point], to: int) -> None:
    there = moved(points, After(to))
    assert (there.epoch, there.sequence) == (0, to)
    known = [point.streams[S] for point in points if point.streams[S].cursor is not None]
    if there != now(points):
        before = [at for at in known if at.sequence <= to]
        assert there.cursor == (max(before).cursor if before else None)


@given(histories(), st.integers(1, 2000))
def test_back_and_forward_by_the_same_number_is_where_it_began(points: list[Point], count: int) -> None:
    forward = moved(points, By(count), Direction.FORWARD)
    assert Change("p", S, now(points), forward).skipped == count
    there = [*points, Point(points[-1].batch + 1, points[-1].planned_ms, {S: forward})]
    assert moved(there, By(-count), Direction.BACK) == now(points)
    back = moved(points, By(-count), Direction.BACK)
    assert Change("p", S, now(points), back).again == min(count, now(points).sequence + 1)


@given(histories(), st.integers(0, 20_000))
def test_a_time_is_the_last_micro_batch_planned_by_then(points: list[Point], time: int) -> None:
    if not points[0].planned_ms <= time <= points[-1].planned_ms:
        with pytest.raises(PositionRefused, match="--after"):
            moved(points, AtTime(time))
        return
    there = moved(points, AtTime(time))
    assert there == max(point.streams[S] for point in points if point.planned_ms <= time)


@given(histories(), st.data())
def test_later_times_are_later_positions(points: list[Point], data: st.DataObject) -> None:
    times = st.integers(points[0].planned_ms, points[-1].planned_ms)
    one, other = sorted((data.draw(times), data.draw(times)))
    assert moved(points, AtTime(one)) <= moved(points, AtTime(other))


@given(histories())
def test_each_micro_batch_of_the_log_can_be_gone_back_to(points: list[Point]) -> None:
    for point in points:
        assert moved(points, AtBatch(point.batch), Direction.BACK) == point.streams[S]
    for batch in (points[0].batch - 1, points[-1].batch + 1):
        with pytest.raises(PositionRefused, match=rf"no micro-batch {batch}: it has {points[0].batch} to {points[-1].batch}"):
            moved(points, AtBatch(batch))


@given(histories(), st.integers(0, 2000))
def test_the_directions_refuse_what_the_other_one_is_for(points: list[Point], to: int) -> None:
    at = now(points).sequence
    for direction, refused in ((Direction.BACK, to > at), (Direction.FORWARD, to < at)):
        if refused:
            with pytest.raises(PositionRefused, match=r"use headrace positions (skip|rewind), or set"):
                moved(points, After(to), direction)
        else:
            assert moved(points, After(to), direction).sequence == to


@given(histories(), st.integers(0, 2000))
def test_the_end_is_never_before_the_present(points: list[Point], end: int) -> None:
    assert moved(points, AtEnd({S: end}), Direction.FORWARD).sequence == max(end, now(points).sequence)
    with pytest.raises(PositionRefused, match="its connector has not told"):
        moved(points, AtEnd({"orders/1": end}))


@given(histories(), st.integers(1, 2**62))
def test_a_queue_is_moved_nowhere(points: list[Point], epoch: int) -> None:
    queue = [replace(point, streams={S: replace(point.streams[S], epoch=epoch)}) for point in points]
    for target in (After(0), By(1), AtBatch(points[0].batch), AtTime(0), AtBeginning(), AtEnd({S: 1})):
        with pytest.raises(PositionRefused, match="its source is a queue"):
            moved(queue, target)


def of_epoch(*positions: Position) -> list[Point]:
    """The ends of micro-batches that the offset log has."""
    return [Point(batch, 1000 * batch, {S: position}) for batch, position in enumerate(positions, 7)]


@pytest.mark.parametrize(
    ("positions", "kind"),
    [
        ((Position(0, 5), Position(0, 9)), "replayable"),
        ((Position(3, 5), Position(3, 9)), "redelivering"),
        ((Position(3, 5, b"this queue"), Position(4, 2, b"this queue"), Position(4, 3, b"this queue")), "redelivering"),
        ((Position(3, 5), Position(3, 9, b"c", begin=Position(3, 5))), "resumable"),
        ((Position(3, 9, b"c", begin=Position(3, 5)), Position(3, 9, b"c"), Position(3, 9, b"c")), "resumable"),
        ((Position(3, 9, b"c", begin=BEGINNING), Position(4, 0, b"b")), "resumable"),
        ((Position(3, 9, b"c"), Position(3, 9, b"c")), "redelivering or resumable"),
        ((Position(3, 9, b"c"), Position(4, 2, b"b")), "redelivering or resumable"),
    ],
)
def test_the_kind_of_a_source_is_what_its_checkpoint_tells(positions: tuple[Position, ...], kind: str) -> None:
    assert kind_of(S, of_epoch(*positions)) == kind


def test_a_resumable_stream_is_moved_nowhere_and_is_not_called_a_queue() -> None:
    feed = of_epoch(Position(3, 5), Position(3, 9, b"c", begin=Position(3, 5)))
    for target in (After(0), By(1), AtBatch(7), AtTime(0), AtBeginning(), AtEnd({S: 1})):
        with pytest.raises(PositionRefused, match="its source is resumable"):
            moved(feed, target)


@given(histories(), st.integers(0, 2000), st.sampled_from(Direction))
def test_positions_of_a_source_move_a_stream_in_the_direction_of_the_move_only(
    points: list[Point], to: int, direction: Direction
) -> None:
    given_, before = Position(0, to, b"found"), now(points)
    there = moved(points, AtPositions({S: given_}), direction)
    goes = direction is Direction.ANY or (to < before.sequence if direction is Direction.BACK else to > before.sequence)
    if goes:
        assert (there.sequence, there.cursor) == (to, before.cursor if to == before.sequence else b"found")
    else:
        assert there == before


def test_what_is_no_sequence_is_refused_and_the_ends_of_the_range_are_not() -> None:
    points = [Point(0, 0, {S: Position(0, 7)})]
    for wrong in (-2, MAX_SEQUENCE + 1):
        with pytest.raises(PositionRefused, match="no sequence"):
            moved(points, After(wrong))
    assert moved(points, After(MAX_SEQUENCE)) == Position(0, MAX_SEQUENCE)
    assert moved(points, After(-1)) == BEGINNING
    assert moved(points, By(-100), Direction.BACK) == BEGINNING


def test_a_stream_that_a_micro_batch_did_not_have_yet_began_with_its_first_message() -> None:
    points = [Point(0, 10, {}), Point(1, 20, {S: Position(0, 7)})]
    assert moved(points, AtBatch(0)) == BEGINNING
