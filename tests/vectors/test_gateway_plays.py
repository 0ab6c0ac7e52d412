"""The gateway, in every script of a session that plays it."""

from contextlib import AsyncExitStack

import pytest
from tests.vectors.gateway_play import GatewayPlay
from tests.vectors.scripts import scripts

SCRIPTS = scripts("gateway")


@pytest.mark.parametrize("name", SCRIPTS)
async def test_the_gateway_plays(name: str) -> None:
    async with AsyncExitStack() as stack:
        await GatewayPlay(SCRIPTS[name], stack).run()
