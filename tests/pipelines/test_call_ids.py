"""Different results have different ids of calls, and each has the same one whatever the micro-batches, tasks and attempts."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.engine.stages import Stages
from tests.pipelines.rig import cut

from headrace.pipelines import Call, Context, Late, Message, OnError, Pipeline, Trial, count_window, total, tumbling

PROPERTY = settings(max_examples=20, derandomize=True, database=None, deadline=None)
Seen = list[tuple[str, str]]


def calling(seen: Seen) -> Callable[[Any, Call], Any]:
    async def call(value: Any, call: Call) -> str:
        seen.append((repr(value), call.id))
        return repr(value)

    return call


def remember(value: Any, state: list[Any], context: Context) -> list[Any]:
    state.append(value)
    context.set_timer(after="0s")
    context.set_timer(after="3us")
    return [value] * (len(state) % 3)


def remind(state: list[Any], context: Context) -> list[Any]:
    return [len(state)] * (len(state) % 3)


def by_event_time(seen: Seen) -> Pipeline:
    """Results of all kinds that share messages, keys and times with others, and often values, too."""
    app = Pipeline("app", on_error=OnError.SKIP)
    numbers = app.source("n/*", decode=int)
    again = app.source("n/*", decode=int, name="again")
    both = numbers.merge(numbers, again.map(lambda number: number, name="same"), name="both")
    both.map_async(calling(seen), name="first").sink("first")
    twice = both.flat_map(lambda number: [number] * (number % 3), name="twice").flat_map(
        lambda number: [number, number], name="more"
    )
    keyed = twice.key_by(lambda number: number % 2)
    reminded = keyed.stateful_flat(remember, list, on_timer=remind, name="reminded")
    deep = reminded.stateful_flat(remember, list, on_timer=remind, name="deep")
    windows = keyed.window(tumbling("4us"), late=Late.FIRE).aggregate(total(), name="windows")
    counted = keyed.window(count_window(3, ttl="5us")).aggregate(total(), name="counted")
    pairs = keyed.join_within(keyed, before="1us", after="1us", how="full", name="pairs").map(lambda pair: 0, name="zero")
    everything = reminded.merge(deep, windows, counted, pairs, name="all")
    everything.map_async(calling(seen), name="here").sink("here")
    everything.key_by(lambda value: 0, name="one").map_async(calling(seen), name="there").sink("there")
    return app


MESSAGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=10)
CUTS = st.lists(st.integers(0, 100), max_size=5)


@PROPERTY
@given(
    given_=MESSAGES,
    cuts=CUTS,
    restarts=st.lists(st.booleans(), min_size=1, max_size=4),
    buckets=st.integers(1, 4),
    seed=st.integers(0, 9),
)
def test_each_result_has_an_id_of_its_own_that_does_not_depend_on_how_micro_batches_are_cut(
    given_: list[tuple[int, int]], cuts: list[int], restarts: list[bool], buckets: int, seed: int
) -> None:
    at, messages = 0, list[Message]()
    for sequence, (number, step) in enumerate(given_, 1):
        at += step
        messages.append(Message(b"%d" % number, b"k", at - number % 2, "n/0", sequence))
    whole, cut_up, staged = Seen(), Seen(), Seen()
    Trial(by_event_time(whole)).send(*messages)
    trial = Trial(by_event_time(cut_up), buckets=buckets)
    stages = Stages(by_event_time(staged), buckets, failing=0.2, seed=seed)
    for number, batch in enumerate(cut(messages, cuts)):
        trial.send(*batch)
        stages.send(*batch)
        if restarts[number % len(restarts)]:
            trial.restart()
    assert max(Counter(id_ for _, id_ in whole).values(), default=1) == 1
    assert sorted(cut_up) == sorted(whole)
    assert set(staged) == set(whole)


def by_clock(seen: Seen) -> Pipeline:
    app = Pipeline("app", on_error=OnError.SKIP)

    def watch(number: int, state: list[int], context: Context) -> int:
        state.append(number)
        context.set_timer(at_clock=10 * number)
        context.set_timer(at_clock=10 * number + 1)
        context.set_timer(after_clock="15us")
        return 0

    keyed = app.source("n/*", decode=int).key_by(lambda number: number % 2)
    rung = keyed.stateful(watch, list, on_timer=lambda state, context: 0, clock_every="1s")
    early = keyed.window(tumbling("40us"), emit_every="20us").aggregate(total(lambda number: 0), name="early")
    rung.merge(early).map_async(calling(seen), name="call").sink("out")
    return app


@PROPERTY
@given(
    batches=st.lists(st.tuples(st.integers(1, 30), st.lists(st.integers(0, 9), max_size=3)), max_size=10),
    buckets=st.integers(1, 4),
    seed=st.integers(0, 9),
)
# A value in a worker that reads the state, and has no index yet, sets a timer anew.
@example(batches=[(1, [0]), (2, [0]), (13, [])], buckets=1, seed=8)
def test_results_by_the_clock_have_ids_of_their_own_which_a_repeat_finds_again(
    batches: list[tuple[int, list[int]]], buckets: int, seed: int
) -> None:
    now, sequence = [0], 0
    tried, staged = Seen(), Seen()
    trial = Trial(by_clock(tried), buckets=buckets, now=lambda: now[0])
    stages = Stages(by_clock(staged), buckets, failing=0.3, seed=seed, now=0)
    for passed, numbers in batches:
        now[0] += passed
        stages.now = now[0]
        messages = [Message(b"%d" % number, b"k", 5 * number, "n/0", sequence + at) for at, number in enumerate(numbers, 1)]
        sequence += len(numbers)
        trial.send(*messages)
        stages.send(*messages)
    assert max(Counter(id_ for _, id_ in tried).values(), default=1) == 1
    assert set(staged) == set(tried)
