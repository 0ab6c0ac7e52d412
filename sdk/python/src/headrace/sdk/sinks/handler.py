"""The interface that the handlers of the three sink modes share, and their answers to the gateway."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from headrace.protocol.v1 import sink_pb2 as pb
from headrace.sdk.sinks.driver import SinkDriver, describe, transaction_to_wire
from headrace.sdk.sinks.types import Part, Transaction

log = logging.getLogger("headrace.sdk")

Say = Callable[[pb.SinkServiceAttachRequest], Awaitable[None]]
"""Sends an answer; never raises."""
Fail = Callable[[BaseException], None]
"""Ends the session with an unexpected error."""


class SinkHandler(Protocol):
    """Handles the gateway's messages, in order, and answers them."""

    async def take(self, message: pb.SinkServiceAttachResponse) -> None:
        """Accepts a message; waits while the sink is behind."""

    async def finish(self) -> None:
        """Handles and answers everything that has arrived completely. `take` must not be called afterwards."""

    async def close(self) -> None:
        """Drops the remaining messages; returns once no method of the sink runs for this session."""


def report_failure(task: "asyncio.Task[None]", fail: Fail) -> "asyncio.Task[None]":
    """Makes an error of a task end the session; returns the task."""

    def done(task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            fail(error)

    task.add_done_callback(done)
    return task


class Answers:
    """Sends a handler's answers to the gateway."""

    def __init__(self, driver: SinkDriver, say: Say) -> None:
        """Sends answers with `say`."""
        self._name = driver.name
        self._reports = driver.reports
        self._say = say

    async def staged(self, id_: int, refused: list[pb.Staged.Refused]) -> None:
        """Answers that a part is staged."""
        if refused:
            log.info("sink %s: refused messages: %d, the first because: %s", self._name, len(refused), refused[0].reason)
        await self._say(pb.SinkServiceAttachRequest(staged=pb.Staged(id=id_, refused=refused)))

    async def prepared(self, transaction: Transaction) -> None:
        """Answers with the vote for a transaction."""
        answer = pb.Prepared(transaction=transaction_to_wire(transaction))
        await self._say(pb.SinkServiceAttachRequest(prepared=answer))

    async def committed(self, transaction: Transaction) -> None:
        """Answers that a transaction is visible."""
        answer = pb.Committed(transaction=transaction_to_wire(transaction))
        await self._say(pb.SinkServiceAttachRequest(committed=answer))

    async def part_failed(self, id_: int, part: Part, error: Exception) -> None:
        """Answers that a part cannot be staged."""
        where = f"partition {part.partition} of batch {part.transaction.batch} of pipeline {part.transaction.pipeline}"
        fields = {**self._fields(part.transaction), "partition": part.partition, "error": describe(error)}
        log.error("sink %s: %s: %s", self._name, where, describe(error), exc_info=error, extra=fields)
        self._reports.add_error(f"{where}: {describe(error)}")
        await self._say(pb.SinkServiceAttachRequest(failed=pb.Failed(part_id=id_, reason=describe(error))))

    async def transaction_failed(self, transaction: Transaction, doing: str, error: Exception) -> None:
        """Answers that a transaction cannot be prepared or committed."""
        self.abort_failed(transaction, doing, error)
        answer = pb.Failed(transaction=transaction_to_wire(transaction), reason=describe(error))
        await self._say(pb.SinkServiceAttachRequest(failed=answer))

    def abort_failed(self, transaction: Transaction, doing: str, error: Exception) -> None:
        """Logs that an abort failed; the gateway expects no answer to an abort."""
        where = f"batch {transaction.batch} of pipeline {transaction.pipeline}"
        fields = {**self._fields(transaction), "error": describe(error)}
        log.error("sink %s: %s of %s: %s", self._name, doing, where, describe(error), exc_info=error, extra=fields)
        self._reports.add_error(f"{doing} of {where}: {describe(error)}")

    def _fields(self, transaction: Transaction) -> dict[str, object]:
        """The fields of a log line about a transaction."""
        return {"sink": self._name, "pipeline": transaction.pipeline, "batch": transaction.batch}
