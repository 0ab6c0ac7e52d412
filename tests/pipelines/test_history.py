"""A trial takes messages of the past, and drops messages of streams that repeat them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipelines import Message, Pipeline, Trial, TrialError


def application() -> Pipeline:
    app = Pipeline("past")
    app.source("orders/*", decode=bytes.decode, name="orders").sink("all")
    return app


@given(st.permutations(range(1, 9)), st.integers(1, 8), st.integers(0, 8), st.booleans())
def test_the_past_and_what_follows_it_are_there_once_and_in_order(order: list[int], end: int, kept: int, ordered: bool) -> None:
    whole = [Message(b"%d" % n, event_time=n, stream="orders/0", sequence=n if ordered else 0) for n in range(1, 9)]
    trial = Trial(application())
    trial.history(*(whole[n - 1] for n in order if n <= end))
    live = whole[min(kept, end) :]
    trial.restart()
    trial.send(*live)
    assert trial.values("all") == [b"%d" % n for n in range(1, 9)]
    assert trial.counts["repeated", "orders"] == len(live) - (8 - end)


def test_a_message_whose_place_is_unknown_is_refused() -> None:
    trial = Trial(application())
    trial.history(Message(b"a", event_time=3, stream="orders/0"), until=9)
    with pytest.raises(TrialError, match="has no event time"):
        trial.send(Message(b"b", stream="orders/0"))
    with pytest.raises(TrialError, match="no message is before until"):
        Trial(application()).history(Message(b"a", event_time=3, stream="orders/0"), until=3)
