"""The call with which a run in real-time mode delivers parts to a sink that writes at once."""

import asyncio
from collections.abc import AsyncIterator

from headrace.gateway.core import Gateway, ProtocolError
from headrace.gateway.core.long_calls import LongCall
from headrace.gateway.core.sinks.parts import Refused
from headrace.gateway.identity import Identity
from headrace.gateway.services.delivery import Begun, begin_part, failure_logged, fill_part
from headrace.gateway.services.received import Delivered
from headrace.protocol.v1 import engine_pb2 as pb

MOST_OPEN = 16
"""How many parts of a call the sink may have that it has not answered."""

_Answers = asyncio.Queue["asyncio.Future[Refused] | None"]


async def deliver_at_once(
    gateway: Gateway, identity: Identity, requests: AsyncIterator[Delivered]
) -> AsyncIterator[pb.DeliverAtOnceResponse]:
    """Delivers parts in order, each without waiting for the answer to the one before; yields the answers.

    Raises:
        ProtocolError: a part cannot be delivered. The answers to the parts before it were yielded.
    """
    answers: _Answers = asyncio.Queue(MOST_OPEN)
    taking = asyncio.create_task(_take(gateway, identity, requests, answers))
    call = LongCall(identity, taking.cancel)
    gateway.long_calls[call] = None
    try:
        while (answer := await answers.get()) is not None:
            yield pb.DeliverAtOnceResponse(refused=await answer)
        if call.failure is not None:
            raise call.failure
    finally:
        gateway.long_calls.pop(call, None)
        taking.cancel()
        left = [answer for answer in _drained(answers) if answer is not None]
        for answer in left:
            answer.cancel()
        await asyncio.gather(taking, *left, return_exceptions=True)


async def _take(gateway: Gateway, identity: Identity, requests: AsyncIterator[Delivered], answers: _Answers) -> None:
    """Takes parts until the call ends, or one cannot be delivered; the last answer is None, or the error."""
    last: asyncio.Future[Refused] | None = None
    try:
        async for request, _ in requests:
            begun = await begin_part(gateway, identity, request, at_once=True)
            try:
                with failure_logged("a delivery failed", begun.sink, begun.opened, begun.session):
                    await fill_part(gateway, begun, requests)
                await answers.put(asyncio.create_task(_written(gateway, begun)))
            except BaseException:
                begun.session.drop_part(begun.opened)
                raise
    except ProtocolError as error:
        last = asyncio.get_running_loop().create_future()
        last.set_exception(error)
    finally:
        await answers.put(last)


async def _written(gateway: Gateway, begun: Begun) -> Refused:
    """Waits until the sink has written a part."""
    try:
        with begun.traced():
            refused = await begun.session.finish_part(begun.opened)
        # No vote will name it.
        begun.session.holdings.staged.discard(begun.part)
        if begun.letters is not None:
            begun.letters.voted = True
            gateway.dead_letters.add(begun.sink.name, begun.part, begun.letters)
        return refused
    finally:
        begun.session.drop_part(begun.opened)


def _drained(answers: _Answers) -> "list[asyncio.Future[Refused] | None]":
    """Takes all that is waiting, so that there is room for the last one."""
    return [answers.get_nowait() for _ in range(answers.qsize())]
