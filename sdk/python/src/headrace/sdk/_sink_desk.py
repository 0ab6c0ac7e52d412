"""Where the gateway's messages to a sink are worked on: what the three modes have in common."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from headrace.protocol.v1 import sink_pb2 as pb
from headrace.sdk._sink_driver import SinkDriver, describe, transaction_to_wire
from headrace.sdk._sink_types import Part, Transaction

log = logging.getLogger("headrace.sdk")

Say = Callable[[pb.SinkServiceAttachRequest], Awaitable[None]]
"""Sends an answer; never raises."""
Broke = Callable[[BaseException], None]
"""Ends the session with an error that nobody expected."""


class Desk(Protocol):
    """Takes what the gateway sends, in order, and answers it."""

    async def take(self, message: pb.SinkServiceAttachResponse) -> None:
        """Takes a message; waits where the sink is behind."""

    async def finish(self) -> None:
        """Answers all that has arrived wholly. Nothing more is taken."""

    async def close(self) -> None:
        """Drops the rest; returns once the sink does nothing more for this session."""


def watched(task: "asyncio.Task[None]", broke: Broke) -> "asyncio.Task[None]":
    """Sees that what a task raises is not lost."""

    def done(task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            broke(error)

    task.add_done_callback(done)
    return task


class Answers:
    """What a desk says to the gateway."""

    def __init__(self, driver: SinkDriver, say: Say) -> None:
        """Speaks for a sink."""
        self._name = driver.name
        self._say = say

    async def staged(self, id_: int, refused: list[pb.Staged.Refused]) -> None:
        """A part is staged."""
        if refused:
            log.info("sink %s: %d messages refused, the first because: %s", self._name, len(refused), refused[0].reason)
        await self._say(pb.SinkServiceAttachRequest(staged=pb.Staged(id=id_, refused=refused)))

    async def prepared(self, transaction: Transaction) -> None:
        """The vote."""
        answer = pb.Prepared(transaction=transaction_to_wire(transaction))
        await self._say(pb.SinkServiceAttachRequest(prepared=answer))

    async def committed(self, transaction: Transaction) -> None:
        """A transaction is visible."""
        answer = pb.Committed(transaction=transaction_to_wire(transaction))
        await self._say(pb.SinkServiceAttachRequest(committed=answer))

    async def part_failed(self, id_: int, part: Part, error: Exception) -> None:
        """A part cannot be staged."""
        where = f"partition {part.partition} of batch {part.transaction.batch} of pipeline {part.transaction.pipeline}"
        log.error("sink %s: %s: %s", self._name, where, describe(error), exc_info=error)
        await self._say(pb.SinkServiceAttachRequest(failed=pb.Failed(part_id=id_, reason=describe(error))))

    async def transaction_failed(self, transaction: Transaction, doing: str, error: Exception) -> None:
        """A transaction cannot be prepared or committed."""
        self.abort_failed(transaction, doing, error)
        answer = pb.Failed(transaction=transaction_to_wire(transaction), reason=describe(error))
        await self._say(pb.SinkServiceAttachRequest(failed=answer))

    def abort_failed(self, transaction: Transaction, doing: str, error: Exception) -> None:
        """Something failed that the gateway waits for no answer to."""
        where = f"batch {transaction.batch} of pipeline {transaction.pipeline}"
        log.error("sink %s: %s of %s: %s", self._name, doing, where, describe(error), exc_info=error)
