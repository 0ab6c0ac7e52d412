"""The deadlines by which a consumer's messages must be acknowledged, and how they are extended."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import nats.errors
from nats.js.api import ConsumerConfig

from headrace.connectors.nats.client import Client
from headrace.connectors.nats.pull import Pull
from headrace.connectors.nats.unsettled import Unsettled, say

_DEFAULT_ACK_WAIT_S = 30.0


@asynccontextmanager
async def extending(client: Client, pull: Pull, unsettled: Unsettled, config: ConsumerConfig) -> AsyncIterator[None]:
    """Extends the acknowledgement deadline of all unacknowledged messages while the body runs."""
    seconds = ack_wait(config) / 3

    async def keep() -> None:
        with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
            while True:
                await asyncio.sleep(seconds)
                await say(client, [*unsettled.replies, *(message.reply for message in pull.left)], b"+WPI")

    task = asyncio.create_task(keep(), name="headrace extends acknowledgement deadlines")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def ack_wait(config: ConsumerConfig) -> float:
    """Returns the earliest time after which a message is redelivered, in seconds."""
    return min(config.ack_wait or _DEFAULT_ACK_WAIT_S, *(config.backoff or (math.inf,)))
