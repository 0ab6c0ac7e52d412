"""What `headrace bench pipelines` compares steps with does the same work, and each part has its figures."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.pipelines import meetings
from headrace.laboratory.bench.pipelines.alone import Alone
from headrace.laboratory.bench.pipelines.feed import Words
from headrace.laboratory.bench.pipelines.meetings import aggregated, join_as_of, joined, joined_by_hand, map_async_part
from headrace.laboratory.bench.pipelines.sizes import QUICK
from headrace.pipelines import Message, Trial, quantile, top_n

TINY = replace(QUICK, meeting_messages=12_000, meeting_rounds=2)


def test_the_join_and_the_function_by_hand_make_the_same_pairs() -> None:
    pairs = []
    for app in (joined(), joined_by_hand()):
        trial = Trial(app)
        trial.open("customers/0", "orders/0")
        for start in range(0, 300, 50):
            for stream in ("orders/0", "customers/0"):
                shift = 0 if stream == "orders/0" else 7
                trial.send(
                    *(Message(b"%d" % (at % 13), b"%d" % (at % 13), at + shift, stream) for at in range(start, start + 50))
                )
        trial.finish()
        pairs.append(sorted(trial.values("bench")))
    assert pairs[0] == pairs[1]
    assert len(pairs[0]) == 300
    assert any(b"None" in pair for pair in pairs[0])


@pytest.mark.parametrize(
    ("name", "aggregation", "result"), [("top_n", top_n(3), lambda v: sorted(v)[:-4:-1]), ("quantile", quantile(0.99), max)]
)
def test_windows_alone_give_as_many_results_as_the_loop(name: str, aggregation: Any, result: Callable[[list[int]], Any]) -> None:
    batches = [meetings._dated(Words(50), at, at + 5_000) for at in range(0, 45_000, 5_000)]
    app = Alone(aggregated(aggregation), ["words/0"])
    for batch in batches:
        app.send(batch)
    app.finish()
    assert app.results == meetings._loop(batches, result)[1] == 3 * 50


@pytest.mark.parametrize(("name", "part"), [("join_as_of", join_as_of), ("map_async", map_async_part)])
def test_each_part_has_a_figure_and_one_against_itself(name: str, part: Callable[..., Iterator[Figure]]) -> None:
    figures = list(part(None, lambda text: None, TINY))
    steps = [name, "map_async_step"] if name == "map_async" else [name]
    assert [figure.name for figure in figures] == [each for step in steps for each in (step, f"{step}_itself")]
    assert all(figure.value > 0 and figure.baseline for figure in figures)
