"""The call with which a run in real-time mode delivers parts to a sink that writes at once."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from headrace.gateway.core import Gateway
from headrace.gateway.core.base.turns import Signal
from headrace.gateway.core.sinks import Refused
from headrace.gateway.identity import Identity
from headrace.gateway.services.delivery import Begun, begin_part, failure_logged, fill_part
from headrace.gateway.services.received import Delivered
from headrace.protocol.v1 import engine_pb2 as pb

MAX_OPEN = 18
"""How many parts of a call the sink may have that it has not answered."""


async def deliver_at_once(
    gateway: Gateway, identity: Identity, requests: AsyncIterator[Delivered]
) -> AsyncIterator[pb.DeliverAtOnceResponse]:
    """Delivers parts in order, each without waiting for the answer to the one before; yields the answers.

    Raises:
        ProtocolError: a part cannot be delivered, and the answers to the parts before it were yielded.
    """
    parts = _Parts()
    taking = asyncio.create_task(_take(gateway, identity, requests, parts))
    taking.add_done_callback(parts.notify)
    try:
        while parts.unanswered or not taking.done():
            if parts.unanswered and parts.unanswered[0].done():
                yield pb.DeliverAtOnceResponse(refused=parts.unanswered[0].result())
                parts.unanswered.popleft()
                parts.room.release()
            else:
                await parts.news.wait()
        taking.result()
    finally:
        left = [taking, *parts.unanswered]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


class _Parts:
    """The parts of one call that were sent to the sink and whose answers were not yielded.

    Attributes:
        unanswered: The tasks that wait for the answers, in order. The call owns them.
        room: Has one permit for each further part.
        news: Notified when a part was answered, and when no more are taken.
    """

    def __init__(self) -> None:
        self.unanswered = deque[asyncio.Task[Refused]]()
        self.room = asyncio.Semaphore(MAX_OPEN)
        self.news = Signal()

    def notify(self, _: object) -> None:
        """Notifies `news`, as the callback of a task."""
        self.news.notify()

    def add(self, gateway: Gateway, part: Begun) -> None:
        """Begins to wait for the answer to a part that was sent."""
        task = asyncio.create_task(_written(gateway, part))
        # A task that is cancelled before its first turn runs no `finally`.
        task.add_done_callback(lambda _: part.session.drop_part(part.opened))
        task.add_done_callback(self.notify)
        self.unanswered.append(task)


async def _take(gateway: Gateway, identity: Identity, requests: AsyncIterator[Delivered], parts: _Parts) -> None:
    """Sends parts to the sink until the call ends.

    Raises:
        ProtocolError: a part cannot be delivered.
    """
    async for request, _ in requests:
        await parts.room.acquire()
        begun = await begin_part(gateway, identity, request, at_once=True)
        try:
            with failure_logged("a delivery failed", begun.sink, begun.opened, begun.session):
                await fill_part(gateway, begun, requests)
        except BaseException:
            begun.session.drop_part(begun.opened)
            raise
        parts.add(gateway, begun)


async def _written(gateway: Gateway, part: Begun) -> Refused:
    """Waits until the sink has written a part."""
    with part.traced():
        refused = await part.session.finish_part(part.opened)
    if part.letters is not None:
        part.letters.voted = True
        gateway.dead_letters.add(part.sink.name, part.part, part.letters)
    return refused
