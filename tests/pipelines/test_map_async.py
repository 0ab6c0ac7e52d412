"""Async functions give what a loop over the values gives, several at a time, in order, within their bounds."""

import asyncio
import sys
from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.stages import Stages
from tests.pipelines.rig import cut

from headrace.pipelines import Call, Flow, GraphError, Message, OnError, Pipeline, StepError, Trial
from headrace.pipelines.steps.per_process import ResultCache

PROPERTY = settings(max_examples=40, derandomize=True, database=None, deadline=None)


def messages(numbers: list[int]) -> list[Message]:
    return [Message(b"%d" % number, b"k", None, "n/0", at) for at, number in enumerate(numbers, 1)]


def app_of(function: Any, on_error: OnError = OnError.FAIL, **arguments: Any) -> Pipeline:
    app = Pipeline("app", on_error=on_error, dead_letters="failed" if on_error is OnError.DEAD_LETTER else None)
    found: Flow[Any] = app.source("n/*", decode=int).map_async(function, name="call", **arguments)
    found.sink("out", encode=lambda value: str(value).encode())
    return app


@PROPERTY
@given(
    numbers=st.lists(st.integers(0, 40), max_size=30),
    cuts=st.lists(st.integers(0, 100), max_size=5),
    restarts=st.lists(st.booleans(), min_size=1, max_size=6),
    buckets=st.integers(1, 8),
    concurrency=st.integers(1, 9),
)
def test_results_are_in_order_and_ids_stay_the_same_whatever_the_micro_batches_restarts_and_buckets(
    numbers: list[int], cuts: list[int], restarts: list[bool], buckets: int, concurrency: int
) -> None:
    ids: defaultdict[tuple[str, int], list[str]] = defaultdict(list)

    def application(run: str) -> Pipeline:
        async def early(number: int, call: Call) -> int | None:
            for _ in range(number % 5):
                await asyncio.sleep(0)
            if number % 11 == 10:
                raise ValueError(f"{number} is not good")
            return None if number % 7 == 6 else number * 10

        async def late(text: str, call: Call) -> str:
            await asyncio.sleep(0)
            ids[text, int(text.split()[0])].append(call.id)
            return text

        app = Pipeline("app", on_error=OnError.DEAD_LETTER, dead_letters="failed")
        tens = app.source("n/*", decode=int).map_async(early, concurrency=concurrency)
        counted = tens.key_by(lambda ten: ten % 3).stateful(
            lambda ten, state: state.append(ten) or f"{len(state)} {ten}", list, name="n"
        )
        counted.map_async(late, concurrency=concurrency).sink("out")
        return app

    trial, stages = Trial(application("trial"), buckets=buckets), Stages(application("stages"), buckets, failing=0.2)
    for number, batch in enumerate(cut(messages(numbers), cuts)):
        trial.send(*batch)
        stages.send(*batch)
        if restarts[number % len(restarts)]:
            trial.restart()
    good = [number for number in numbers if number % 11 != 10]
    by_key: defaultdict[int, list[str]] = defaultdict(list)
    for ten in (number * 10 for number in good if number % 7 != 6):
        by_key[ten % 3].append(f"{len(by_key[ten % 3]) + 1} {ten}")
    for key, texts in by_key.items():
        assert [one.value.decode() for one in trial.written["out"] if one.key == key] == texts
    assert sorted(value for _, value in stages.written["out"]) == sorted(trial.values("out"))
    assert sum(map(len, by_key.values())) == len(trial.values("out"))
    assert len(trial.failed) == len(numbers) - len(good)
    assert all("step early, stream n/0, sequence" in reason and "is not good" in reason for reason in trial.failed)
    # Each value has one id, in the trial and in each attempt of a stage; values that are alike in two keys have two.
    different = Counter(text for texts in by_key.values() for text in texts)
    for (text, _), some in ids.items():
        assert len(set(some)) == different[text]


def test_so_many_calls_run_at_a_time_and_no_more() -> None:
    running, most, full = 0, 0, asyncio.Event()

    async def call(number: int, call: Call) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 7:
            full.set()
        await full.wait()
        running -= 1
        return number

    trial = Trial(app_of(call, concurrency=7, timeout="1 minute"))
    trial.send(*messages(list(range(50))))
    assert trial.values("out") == [b"%d" % number for number in range(50)]
    assert (most, running) == (7, 0)


def test_a_call_that_fails_is_repeated_with_its_id_as_often_as_said() -> None:
    seen = list[tuple[int, str]]()

    async def call(number: int, call: Call) -> int:
        seen.append((call.attempt, call.id))
        if call.attempt < number:
            raise ConnectionError(f"attempt {call.attempt}")
        return number

    trial = Trial(app_of(call, OnError.DEAD_LETTER, retries=1, concurrency=1))
    trial.send(*messages([1, 2, 3]))
    assert trial.values("out") == [b"1", b"2"]
    assert [attempt for attempt, _ in seen] == [1, 1, 2, 1, 2]
    assert len({id for _, id in seen}) == 3
    (reason,) = trial.failed
    assert "sequence 3: ConnectionError: attempt 2" in reason


def test_a_call_that_takes_too_long_is_cancelled_and_fails() -> None:
    cancelled = list[int]()

    async def call(number: int, call: Call) -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(number)
            raise
        return number

    trial = Trial(app_of(call, OnError.SKIP, timeout="10ms"))
    trial.send(*messages([4]))
    assert (trial.values("out"), cancelled, trial.counts["skipped", "call"]) == ([], [4], 1)
    with pytest.raises(StepError, match=r"step call, .*: TimeoutError: the call took longer than 0.01 s"):
        Trial(app_of(call, timeout="10ms")).send(*messages([5]))


def test_a_call_that_ends_in_spite_of_being_too_late_has_its_result_and_the_next_ones_are_watched() -> None:
    async def call(number: int, call: Call) -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if number == 9:
                raise
        return number

    trial = Trial(app_of(call, OnError.SKIP, timeout="10ms", concurrency=1))
    trial.send(*messages([7, 9, 8, 9]))
    assert (trial.values("out"), trial.counts["skipped", "call"]) == ([b"7", b"8"], 2)


def test_the_first_failure_that_ends_the_query_cancels_all_other_calls() -> None:
    ended, begun = list[int](), list[int]()

    async def call(number: int, call: Call) -> int:
        begun.append(number)
        try:
            if number == 2:
                raise ValueError("two")
            await asyncio.Event().wait()
        finally:
            ended.append(number)
        return number

    with pytest.raises(StepError, match=r"step call, stream n/0, sequence 3: ValueError: two\. Correct the function"):
        Trial(app_of(call, concurrency=4)).send(*messages(list(range(50))))
    assert sorted(begun) == sorted(ended)
    assert 2 in begun
    assert max(begun) <= 4


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), GeneratorExit(), RuntimeError("plain")])
def test_whatever_a_call_raises_follows_the_policy_and_the_loop_lives(error: BaseException) -> None:
    async def call(number: int, call: Call) -> int:
        if number == 1:
            raise error
        return number

    trial = Trial(app_of(call, OnError.SKIP))
    trial.send(*messages([0, 1, 2]))
    trial.send(*messages([3]))
    assert trial.values("out") == [b"0", b"2", b"3"]
    assert trial.counts["skipped", "call"] == 1


def test_the_client_is_made_once_in_a_process_and_again_if_that_failed() -> None:
    made = list[object]()

    async def client() -> str:
        made.append(object())
        if len(made) == 1:
            raise ConnectionError("not there yet")
        return f"client {len(made)}"

    async def call(number: int, call: Call) -> str:
        return f"{number} {call.client}"

    app = app_of(call, OnError.SKIP, setup=client)
    trial = Trial(app)
    with pytest.raises(StepError, match=r"step call, .*: setup raised ConnectionError: not there yet"):
        trial.send(*messages([0]))
    trial.send(*messages([1, 2]))
    trial.send(*messages([3]))
    other = Trial(app, buckets=3)
    other.send(*messages([4]))
    assert trial.values("out") + other.values("out") == [b"1 client 2", b"2 client 2", b"3 client 2", b"4 client 2"]
    with pytest.raises(StepError, match="setup raised RuntimeError: SystemExit: 2"):
        Trial(app_of(call, setup=lambda: sys.exit(2))).send(*messages([0]))
    plain = Trial(app_of(call, setup=lambda: "made"))
    plain.send(*messages([5]))
    assert plain.values("out") == [b"5 made"]


def test_a_trial_may_run_inside_of_an_event_loop() -> None:
    async def call(number: int, call: Call) -> int:
        await asyncio.sleep(0)
        return number

    async def main() -> list[bytes]:
        trial = Trial(app_of(call))
        trial.send(*messages([1, 2]))
        return trial.values("out")

    assert asyncio.run(main()) == [b"1", b"2"]


def test_a_result_that_is_not_there_yet_is_refused() -> None:
    async def call(number: int, call: Call) -> Any:
        return (n for n in range(number))

    with pytest.raises(StepError, match="the function returned a generator"):
        Trial(app_of(call)).send(*messages([1]))


def test_an_async_function_for_another_method_is_refused_with_the_name_of_the_one_that_awaits_it() -> None:
    async def call(number: int) -> int:
        return number

    with pytest.raises(GraphError, match=r"step call: function is an async function.*or call it in map_async"):
        Pipeline("app").source("n/*").map(call)


@PROPERTY
@given(
    numbers=st.lists(st.integers(0, 9), max_size=30),
    cuts=st.lists(st.integers(0, 100), max_size=5),
    size=st.integers(1, 12),
    concurrency=st.integers(1, 9),
    buckets=st.integers(1, 8),
)
def test_values_with_equal_keys_have_the_result_of_one_call_and_what_failed_is_called_again(
    numbers: list[int], cuts: list[int], size: int, concurrency: int, buckets: int
) -> None:
    made = Counter[int]()

    async def call(number: int, call: Call) -> list[int]:
        made[number // 2] += 1
        for _ in range(number % 3):
            await asyncio.sleep(0)
        if number // 2 == 3:
            raise ValueError("not good")
        return [number // 2]

    app = Pipeline("app", on_error=OnError.SKIP)
    found = app.source("n/*", decode=int).map_async(
        call, name="call", cache_by=lambda number: number // 2, cache_ttl="1 hour", cache_size=size, concurrency=concurrency
    )
    found.map(lambda result: result.append(0) or result, name="changed").map(str, name="text").sink("out")
    trial, batches = Trial(app, buckets=buckets), cut(messages(numbers), cuts)
    for batch in batches:
        trial.send(*batch)
    assert trial.values("out") == [f"{[number // 2, 0]}".encode() for number in numbers if number // 2 != 3]
    keys = {number // 2 for number in numbers}
    failing = sum(any(int(message.value or b"") // 2 == 3 for message in batch) for batch in batches)
    assert failing <= made[3] <= sum(number // 2 == 3 for number in numbers)
    if size >= 5:
        assert {key: count for key, count in made.items() if key != 3} == {key: 1 for key in keys if key != 3}


def test_a_result_is_kept_for_its_time_and_the_ones_that_were_used_least_recently_make_room() -> None:
    now, called = 0.0, list[str]()

    async def main() -> None:
        nonlocal now
        cache = ResultCache(10, 2, lambda: now)

        async def result(key: str) -> str:
            async def call() -> str:
                called.append(key)
                await asyncio.sleep(0)
                return f"{key} at {now}"

            found: str = await cache.result(key, call, lambda found: False)
            return found

        assert await asyncio.gather(*(result("a") for _ in range(3))) == ["a at 0.0"] * 3
        now = 9.9
        assert [await result(key) for key in "aba"] == ["a at 0.0", "b at 9.9", "a at 0.0"]
        now = 10.0
        assert [await result(key) for key in "abcb"] == ["a at 10.0", "b at 9.9", "c at 10.0", "b at 9.9"]
        assert await result("a") == "a at 10.0"

    asyncio.run(main())
    assert called == ["a", "b", "a", "c", "a"]


def test_those_who_wait_for_a_call_that_fails_fail_with_it_and_the_next_one_is_called() -> None:
    called = list[int]()

    async def main() -> None:
        cache, ends = ResultCache(10, 2, lambda: 0.0), asyncio.Event()

        async def call() -> str:
            called.append(1)
            await ends.wait()
            return f"failure {len(called)}"

        waiting = [asyncio.create_task(cache.result("a", call, lambda found: True)) for _ in range(100)]
        await asyncio.sleep(0)
        ends.set()
        assert await asyncio.gather(*waiting) == ["failure 1"] * 100
        assert await cache.result("a", call, lambda found: True) == "failure 2"

    asyncio.run(main())


def test_a_call_that_is_cancelled_leaves_its_key_to_the_next_one() -> None:
    async def main() -> str:
        cache, begun = ResultCache(10, 2, lambda: 0.0), asyncio.Event()

        async def hangs() -> str:
            begun.set()
            await asyncio.Event().wait()
            return "never"

        async def ends() -> str:
            return "there"

        first = asyncio.create_task(cache.result("a", hangs, lambda found: False))
        await begun.wait()
        second = asyncio.create_task(cache.result("a", ends, lambda found: False))
        first.cancel()
        found: str = await second
        return found

    assert asyncio.run(main()) == "there"


def test_a_teardown_without_a_setup_and_a_cache_without_room_are_refused() -> None:
    async def call(number: int, call: Call) -> int:
        return number

    with pytest.raises(GraphError, match="step call: teardown has no effect without setup"):
        app_of(call, teardown=print)
    with pytest.raises(GraphError, match="step call: cache_size must be at least 1, and is 0"):
        app_of(call, cache_size=0)
