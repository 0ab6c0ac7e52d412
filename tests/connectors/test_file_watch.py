"""The wait for a change of a file: whoever waits can be told to stop at any step of it."""

import asyncio
from pathlib import Path

import pytest

from headrace.connectors.file.watch import Watch, state_of


@pytest.mark.parametrize("steps", range(12))
async def test_a_cancellation_is_never_lost(tmp_path: Path, steps: int) -> None:
    """A reader that loses its cancellation reads for ever, and its connector never comes to another session."""
    path, watch = tmp_path / "a", Watch()
    path.touch()

    async def reads() -> None:
        while True:
            await watch.changed(path, state_of(path), 600)

    reader = asyncio.create_task(reads())
    await asyncio.sleep(0)
    watch.wake(path)
    for _ in range(steps):
        await asyncio.sleep(0)
    reader.cancel()
    done, _ = await asyncio.wait({reader}, timeout=120)
    try:
        assert done == {reader}
        assert reader.cancelled()
    finally:
        reader.cancel()
        await asyncio.wait({reader})
        watch.rest()
