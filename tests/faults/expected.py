"""What queries must have seen, whatever was killed meanwhile."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from tests.faults.queries import Query
from tests.faults.sources import number_key, number_sequence, number_value

QUEUE = "queue/0"


def assert_each_came_once(query: Query, partition: str, last: int) -> None:
    """Every message of a partition of numbers came once, in order, as it is."""
    got = [(sequence, value) for stream, sequence, value in query.rows() if stream == f"numbers/{partition}"]
    want = [(number_sequence(n), str(number_value(n))) for n in range(1, last + 1)]
    assert got == want, f"{query.name}, partition {partition}: {_difference(got, want)}"


def assert_none_is_missing(query: Query, last: int) -> None:
    """Every message of the queue came at least once, and nothing else did."""
    got = {int(value) for stream, _, value in query.rows() if stream == QUEUE}
    want = set(range(1, last + 1))
    assert got == want, f"{query.name}: missing {sorted(want - got)[:10]}, surplus {sorted(got - want)[:10]}"


def changed_batches(query: Query) -> list[str]:
    """Batches that saw something else of a replayable source when they were run again."""
    changed = []
    for number, before, after in query.batches_run_again():
        was, now = ([row for row in rows if row[0] != QUEUE] for rows in (before, after))
        if was != now:
            changed.append(f"{query.name}, batch {number}: {was} became {now}")
    return changed


def expected_state(partitions: Iterable[str], last: int) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Count, sum and last of the values of each stream and key."""
    state: dict[tuple[str, str], tuple[int, int, int]] = {}
    for partition in partitions:
        for n in range(1, last + 1):
            key, value = (f"numbers/{partition}", number_key(n).decode()), number_value(n)
            count, total, _ = state.get(key, (0, 0, 0))
            state[key] = (count + 1, total + value, value)
    return state


def _difference(got: Sequence[Any], want: Sequence[Any]) -> str:
    """The missing, doubled and misplaced messages."""
    counts, wanted = Counter(got), Counter(want)
    missing, surplus = sorted((wanted - counts).elements()), sorted((counts - wanted).elements())
    steps = [(a[0], b[0]) for a, b in pairwise(got) if b[0] <= a[0]]
    return f"missing {len(missing)}: {missing[:5]}; surplus {len(surplus)}: {surplus[:5]}; steps back: {steps[:5]}"
