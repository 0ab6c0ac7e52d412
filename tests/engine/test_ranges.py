from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.checkpoint.position import Position
from headrace.engine.source.parallelism import Parallelism
from headrace.engine.source.ranges import Range, split

positions = st.none() | st.builds(Position, st.integers(0, 1), st.integers(0, 100))


@st.composite
def ranges(draw: st.DrawFn) -> list[Range]:
    found = []
    for number in range(draw(st.integers(0, 12))):
        start = draw(positions)
        epoch = draw(st.integers(start.epoch if start else 0, 2))
        low = start.sequence if start is not None and start.epoch == epoch else -1
        end = Position(epoch, draw(st.integers(low + 1, low + 200)), b"cursor")
        found.append(Range(f"s/{number}", start, start, end, end))
    return found


@given(ranges(), st.integers(1, 8), st.data())
def test_a_split_covers_every_sequence_exactly_once(whole: list[Range], tasks: int, data: st.DataObject) -> None:
    weights = [data.draw(st.integers(1, 1000)) for _ in whole]
    lists = split(whole, weights, tasks)
    assert len(lists) <= tasks
    assert all(lists)
    parts = [part for one in lists for part in one]
    for original in whole:
        own = [p for p in parts if p.stream == original.stream]
        assert own[0].start == original.start
        assert own[-1].end == original.end
        assert all(p.committed == original.committed and p.batch_end == original.end for p in own)
        edges = [own[0].low, *(p.end.sequence for p in own)]
        assert edges == sorted(set(edges))
        assert all(p.low == edge for p, edge in zip(own, edges[:-1], strict=True))
        assert all(p.end.epoch == original.end.epoch for p in own)


def one(name: str, high: int) -> Range:
    end = Position(0, high)
    return Range(name, None, None, end, end)


def test_a_large_range_is_read_by_every_task() -> None:
    lists = split([one("a/0", 999_999)], [2**30], 4)
    assert [len(x) for x in lists] == [1, 1, 1, 1]
    assert [x[0].end.sequence - x[0].low for x in lists] == [250_000] * 4


def test_many_small_ranges_share_a_task() -> None:
    small = [one(f"a/{i}", 9) for i in range(1000)]
    weights = [500] * 1000
    assert len(split(small, weights, Parallelism(8).tasks(sum(weights)))) == 1
    weights = [10_000] * 1000
    lists = split(small, weights, Parallelism(8).tasks(sum(weights)))
    assert len(lists) == 8
    assert sum(len(x) for x in lists) == 1000
    assert max(len(x) for x in lists) < 200
