import asyncio
import random

import pytest
from tests.shuffled_loop import ShuffledLoop


def order(seed: int) -> list[tuple[int, int]]:
    """The order in which five tasks take three steps each."""
    taken = list[tuple[int, int]]()

    async def take(task: int) -> None:
        for step in range(3):
            taken.append((task, step))
            await asyncio.sleep(0)

    async def take_all() -> None:
        await asyncio.gather(*(take(task) for task in range(5)))

    loop = ShuffledLoop(random.Random(seed))
    try:
        loop.run_until_complete(take_all())
    finally:
        loop.close()
    return taken


@pytest.mark.parametrize("seed", range(5))
def test_a_seed_decides_the_order_of_tasks_and_each_task_keeps_its_own(seed: int) -> None:
    taken = order(seed)
    assert taken == order(seed)
    assert taken != sorted(taken, key=lambda each: (each[1], each[0])), "as on any other loop"
    for task in range(5):
        assert [step for each, step in taken if each == task] == [0, 1, 2]
