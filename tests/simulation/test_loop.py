"""The loop of the simulation: virtual time, and processes that are killed and frozen."""

import asyncio
import random

from headrace.contract import clock
from headrace.simulation.loop import START_S, Loop, Process, VirtualClock

MAX_COUNT = 10_000


def loop_of(seed: int = 1) -> Loop:
    return Loop(random.Random(seed))  # type: ignore[abstract]


def test_waiting_takes_no_time() -> None:
    loop = loop_of()
    main = loop.create_task(asyncio.sleep(3_600))
    assert loop.run(main, MAX_COUNT)
    assert START_S + 3_600 <= loop.now < START_S + 3_601


def test_a_killed_process_runs_nothing_more_not_even_a_finally() -> None:
    loop, done = loop_of(), []
    process = Process(loop, "victim")

    async def work() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            done.append("finally")

    process.spawn(work())
    loop.call_later(5, process.end)
    assert loop.run(loop.create_task(asyncio.sleep(20)), MAX_COUNT)
    assert done == []


def test_a_frozen_process_continues_where_it_was() -> None:
    loop, done = loop_of(), []
    process = Process(loop, "sleeper")

    async def work() -> None:
        await asyncio.sleep(10)
        done.append(loop.now - START_S)

    process.spawn(work())
    loop.call_later(5, process.freeze)
    loop.call_later(30, process.thaw)
    assert loop.run(loop.create_task(asyncio.sleep(40)), MAX_COUNT)
    assert 30 <= done[0] < 31


def test_the_seed_decides_which_process_runs_next() -> None:
    def order(seed: int) -> list[str]:
        loop, ran = loop_of(seed), list[str]()

        async def work(name: str) -> None:
            for _ in range(5):
                ran.append(name)
                await asyncio.sleep(0)

        for name in ("a", "b", "c"):
            Process(loop, name).spawn(work(name))
        assert loop.run(loop.create_task(asyncio.sleep(1)), MAX_COUNT)
        return ran

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(10)}) > 5


def test_what_waits_for_nothing_is_a_deadlock() -> None:
    loop = loop_of()
    main = loop.create_task(asyncio.wait([loop.create_future()]))
    assert not loop.run(main, MAX_COUNT)


def test_each_process_may_have_a_wrong_time_of_day() -> None:
    loop, seen = loop_of(), dict[str, float]()
    process = Process(loop, "ahead")
    process.clock_offset_s = 60

    async def look(name: str) -> None:
        seen[name] = clock.now()

    with clock.use(VirtualClock(loop)):
        process.spawn(look("ahead"))
        loop.create_task(look("world"))
        assert loop.run(loop.create_task(asyncio.sleep(1)), MAX_COUNT)
    assert 59 < seen["ahead"] - seen["world"] < 61
