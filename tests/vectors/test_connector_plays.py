"""Python's SDK, in every script of a session that plays a connector."""

from contextlib import AsyncExitStack

import pytest
from tests.vectors.connector_play import ConnectorPlay
from tests.vectors.scripts import scripts

SCRIPTS = scripts("connector")


@pytest.mark.parametrize("name", SCRIPTS)
async def test_the_sdk_plays(name: str) -> None:
    async with AsyncExitStack() as stack:
        await ConnectorPlay(SCRIPTS[name], stack).run()
