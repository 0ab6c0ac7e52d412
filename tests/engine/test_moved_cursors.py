"""The checkpoint records a cursor that has moved without a message, and nothing is read for it."""

from headrace.engine.checkpoint.position import Offset, Position, moved
from headrace.engine.spark.batches import Logged
from headrace.protocol.v1.frame_pb2 import Position as Place

BEFORE = Position(0, 3, b"3")
AFTER = Position(0, 3, b"heartbeat", 1)


def offset(position: Position) -> Offset:
    return Offset("p", {"orders/0": position}, checkpoint="c")


def test_an_offset_keeps_how_often_the_cursor_has_moved() -> None:
    kept = Offset.from_json(offset(AFTER).to_json()).streams["orders/0"]
    assert (kept.sequence, kept.cursor, kept.moves) == (3, b"heartbeat", 1)
    assert kept.to_proto() == Place(sequence=3, cursor=b"heartbeat", moves=1)
    assert Position.from_proto(kept.to_proto()) == kept


def test_offsets_with_different_cursors_differ_so_that_spark_plans_a_batch() -> None:
    assert offset(BEFORE).to_json() != offset(AFTER).to_json()


def test_a_moved_cursor_is_reported_as_committed_and_not_as_read() -> None:
    assert moved({"orders/0": AFTER}, {"orders/0": BEFORE}) == {"orders/0": AFTER}
    assert moved({"orders/0": AFTER}, {"orders/0": AFTER}) == {}
    assert Logged(1, offset(BEFORE), offset(AFTER)).ends == {}
    ended = Position(0, 3, b"heartbeat", 1, ended=True)
    assert Logged(1, offset(BEFORE), offset(ended)).ends == {"orders/0": ended}
