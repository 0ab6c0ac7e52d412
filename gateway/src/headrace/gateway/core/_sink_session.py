"""A sink connector's session: the parts that are on their way to it, and what it is still to be told."""

import asyncio
import itertools
from collections import deque
from dataclasses import dataclass, field
from typing import TypeVar

from headrace.gateway.core._errors import ProtocolError, SinkAway, SinkFailed
from headrace.gateway.core._signal import Signal
from headrace.gateway.core._transaction import Part, Transaction
from headrace.protocol.v1 import frame_pb2
from headrace.protocol.v1 import sink_pb2 as pb

QUEUE_BYTES = 4 * 2**20
"""Frames that wait to be written to one session; who delivers more waits."""

_ids = itertools.count(1)

Refused = list[pb.Staged.Refused]
_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class OpenPart:
    """A part that is being delivered."""

    id: int
    part: Part
    staged: "asyncio.Future[Refused]"
    messages: int = 0


@dataclass(slots=True)
class Holdings:
    """What an instance holds of transactions that are not decided."""

    staged: set[Part] = field(default_factory=set)
    prepared: set[Transaction] = field(default_factory=set)

    def transactions(self) -> set[Transaction]:
        """All of them."""
        return self.prepared | {part.transaction for part in self.staged}

    def runs(self, transaction: Transaction) -> set[str]:
        """The runs of the pipeline that delivered parts of a transaction."""
        return {part.run for part in self.staged if part.transaction == transaction}

    def keep_only(self, transaction: Transaction, parts: list[Part]) -> None:
        """Forgets the parts of a transaction that do not count."""
        self.drop(transaction)
        self.staged.update(parts)

    def drop(self, transaction: Transaction) -> None:
        """Forgets a transaction."""
        self.prepared.discard(transaction)
        self.staged = {part for part in self.staged if part.transaction != transaction}


class SinkSession:
    """Everything about one live call of an instance of a sink."""

    def __init__(self, hello: pb.SinkHello, peer: str) -> None:
        self.id = f"k{next(_ids)}"
        self.hello = hello
        self.peer = peer
        self.failure: ProtocolError | None = None
        self.outgoing = Signal()
        self.holdings = Holdings()
        self.open: dict[int, OpenPart] = {}
        self.votes: dict[Transaction, asyncio.Future[None]] = {}
        self._waiting: deque[tuple[pb.SinkServiceAttachResponse, int]] = deque()
        self._waiting_bytes = 0
        self._room = Signal()
        self._next_part = 1
        self._told_to_commit: set[Transaction] = set()
        self._closed = False

    @property
    def instance(self) -> str:
        """Which deployment of the sink this is."""
        return self.hello.instance

    @property
    def durable(self) -> bool:
        """Whether what it has staged outlives it."""
        return self.hello.mode == pb.SINK_MODE_TWO_PHASE

    # What it is told

    def send(self, response: pb.SinkServiceAttachResponse) -> None:
        """Queues a message."""
        self._waiting.append((response, 0))
        self.outgoing.notify()

    def waiting(self) -> pb.SinkServiceAttachResponse | None:
        """Takes the next message to write."""
        if not self._waiting:
            return None
        response, size = self._waiting.popleft()
        self._waiting_bytes -= size
        if size:
            self._room.notify()
        return response

    def end(self, failure: ProtocolError) -> None:
        """Ends the session with an error."""
        self.failure = self.failure or failure
        self.outgoing.notify()

    # Parts

    def has_parts_of(self, transaction: Transaction) -> bool:
        """Whether parts of a transaction are here, or on their way."""
        on_their_way = any(opened.part.transaction == transaction for opened in self.open.values())
        return on_their_way or any(part.transaction == transaction for part in self.holdings.staged)

    def start_part(self, part: Part) -> OpenPart:
        """Begins to deliver a part. What an earlier run of the pipeline left of the same transaction is aborted first."""
        if any(run != part.run for run in self.holdings.runs(part.transaction)):
            self.abort(part.transaction)
        opened = OpenPart(self._next_part, part, asyncio.get_running_loop().create_future())
        self._next_part += 1
        self.open[opened.id] = opened
        start = pb.StartPart(id=opened.id, part=part.to_proto())
        self.send(pb.SinkServiceAttachResponse(start_part=start))
        return opened

    async def deliver(self, opened: OpenPart, frame: frame_pb2.Frame, size: int) -> None:
        """Queues a frame of a part, once there is room.

        Raises:
            SinkAway: the session has ended.
        """
        while self._waiting_bytes >= QUEUE_BYTES and not self._closed:
            await self._room.wait()
        self._check_open()
        opened.messages += frame.count
        response = pb.SinkServiceAttachResponse()
        response.frame.id = opened.id
        response.frame.frame.MergeFrom(frame)
        self._waiting.append((response, size))
        self._waiting_bytes += size
        self.outgoing.notify()

    async def finish_part(self, opened: OpenPart) -> Refused:
        """Ends a part; returns, once it is staged, what the sink refused of it.

        Raises:
            SinkAway: the session ended before the answer.
            SinkFailed: the sink could not stage it.
        """
        self._check_open()
        self.send(pb.SinkServiceAttachResponse(end_part=pb.EndPart(id=opened.id, messages=opened.messages)))
        return await opened.staged

    def drop_part(self, opened: OpenPart) -> None:
        """Forgets a part whose delivery has ended; the sink is told where it was not staged."""
        if self.open.pop(opened.id, None) is not None and not self._closed:
            self.send(pb.SinkServiceAttachResponse(drop_part=pb.DropPart(id=opened.id)))

    def staged(self, part_id: int, refused: Refused) -> OpenPart | None:
        """Notes that a part is staged, and returns it; None where it was dropped meanwhile."""
        opened = self.open.pop(part_id, None)
        if opened is not None:
            self.holdings.staged.add(opened.part)
            _answer(opened.staged, refused)
        return opened

    def part_failed(self, part_id: int, reason: str) -> None:
        """Notes that a part could not be staged."""
        opened = self.open.pop(part_id, None)
        if opened is not None:
            _fail(opened.staged, SinkFailed(f"sink {self.hello.sink}, {opened.part}: {reason}"))

    # Transactions

    async def vote(self, transaction: Transaction, parts: list[Part]) -> None:
        """Asks for the vote on parts that are staged here.

        Raises:
            SinkAway: the session ended before the answer.
            SinkFailed: the sink votes against it.
        """
        self._check_open()
        answer = self.votes.get(transaction)
        if answer is None:
            answer = self.votes[transaction] = asyncio.get_running_loop().create_future()
            self.holdings.keep_only(transaction, parts)
            prepare = pb.Prepare(transaction=transaction.to_proto(), parts=[part.to_proto() for part in parts])
            self.send(pb.SinkServiceAttachResponse(prepare=prepare))
        await asyncio.shield(answer)

    def prepared(self, transaction: Transaction) -> bool:
        """Notes the vote; False where none was asked for."""
        answer = self.votes.pop(transaction, None)
        if answer is not None:
            self.holdings.prepared.add(transaction)
            _answer(answer, None)
        return answer is not None

    def committed(self, transaction: Transaction) -> None:
        """Notes that a transaction is visible."""
        self._told_to_commit.discard(transaction)
        self.holdings.drop(transaction)

    def transaction_failed(self, transaction: Transaction, reason: str) -> bool:
        """Notes a vote against a transaction; False where none was asked for.

        Where its commit has failed, that is tried again with the next look at the log.
        """
        self._told_to_commit.discard(transaction)
        answer = self.votes.pop(transaction, None)
        if answer is not None:
            _fail(answer, SinkFailed(f"sink {self.hello.sink}, {transaction}: {reason}"))
        return answer is not None

    def commit(self, transaction: Transaction) -> None:
        """Tells it, once, to make a transaction visible."""
        if transaction in self._told_to_commit:
            return
        self._told_to_commit.add(transaction)
        self.send(pb.SinkServiceAttachResponse(commit=pb.Commit(transaction=transaction.to_proto())))

    def abort(self, transaction: Transaction) -> None:
        """Tells it to drop a transaction."""
        self.holdings.drop(transaction)
        self.transaction_failed(transaction, "it was aborted")
        self.send(pb.SinkServiceAttachResponse(abort=pb.Abort(transaction=transaction.to_proto())))

    def close(self) -> None:
        """Fails whatever waits for it."""
        self._closed = True
        away = SinkAway(f"sink {self.hello.sink}: the session of instance {self.instance} was lost; deliver again")
        for opened in self.open.values():
            _fail(opened.staged, away)
        for answer in self.votes.values():
            _fail(answer, away)
        self.open, self.votes = {}, {}
        self._room.notify()

    def _check_open(self) -> None:
        if self._closed:
            raise SinkAway(f"sink {self.hello.sink}: the session of instance {self.instance} was lost; deliver again")


def _answer(future: "asyncio.Future[_T]", result: _T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[_T]", error: ProtocolError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # Who delivered it may be gone, and nobody else has to hear of it.
