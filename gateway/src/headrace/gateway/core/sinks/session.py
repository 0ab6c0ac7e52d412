"""A sink connector's session: the parts in transit to it, and the messages queued for it."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from headrace.contract import clock
from headrace.gateway.core.base.envelopes import part_frame
from headrace.gateway.core.base.errors import MalformedMessage, OutOfTurn, ProtocolError, ReadTimeout, SinkAway, SinkFailed
from headrace.gateway.core.connections import ConnectorCounts, Heartbeat, Reported
from headrace.gateway.core.sinks.answers import answer, outcome
from headrace.gateway.core.sinks.outbox import Outbox, Response
from headrace.gateway.core.sinks.parts import Holdings, OpenPart, Refused, check_refused
from headrace.gateway.core.sinks.transaction import Part, Transaction
from headrace.gateway.identity import Identity
from headrace.protocol.v1 import sink_pb2 as pb
from headrace.protocol.v1.source_pb2 import CAPABILITY_RUNS

MAX_REMEMBERED = 1024
"""How many answered parts, and how many transactions aborted before their answer arrived, a session remembers."""

log = logging.getLogger("headrace.gateway")

_T = TypeVar("_T")
_K = TypeVar("_K")


@dataclass(frozen=True, slots=True, eq=False)
class _Vote:
    """A vote that was requested and is outstanding."""

    answer: "asyncio.Future[ProtocolError | None]"
    asked_at: float
    """On the monotonic clock."""


class SinkSession:
    """The state of one live session of a sink's instance."""

    def __init__(
        self,
        session_id: str,
        hello: pb.SinkHello,
        peer: str,
        identity: Identity,
        counts: ConnectorCounts,
        readers: Callable[[str], Sequence[str]] = lambda _: (),
    ) -> None:
        """Opens the session.

        Args:
            session_id: Its id.
            hello: Its first message.
            peer: The address of the connector.
            identity: The owner of its token.
            counts: The counts of all sessions of such connectors.
            readers: Returns the names under which a query reads, given its id, which is all that a transaction has.
        """
        self._readers = readers
        self.id = session_id
        self.hello = hello
        self.peer = peer
        self.identity = identity
        self.opened_at = clock.monotonic()
        self.counts = counts
        self.heartbeat = Heartbeat(hello.capabilities)
        self.reported = Reported(hello.sdk if hello.HasField("sdk") else None)
        self.succeeded_at: float | None = None
        """When it last staged, voted or committed, on the monotonic clock."""
        self.failure: ProtocolError | None = None
        self._outbox = Outbox()
        self.outgoing = self._outbox.arrived
        self.keeps_runs = self.durable and CAPABILITY_RUNS in hello.capabilities
        """Whether it keeps what several runs of a pipeline write of one micro-batch apart."""
        self.holdings = Holdings()
        self.outcomes = Counter[str]()
        """How many transactions were committed and aborted, and how many parts and transactions failed. Shared by the sink."""
        self.visible: dict[str, int] = {}
        """The last batch of each pipeline that it has reported visible."""
        self.open: dict[int, OpenPart] = {}
        self.votes: dict[Transaction, _Vote] = {}
        self._next_part = 1
        self._told_to_commit: dict[Transaction, float] = {}
        """The transactions that it has been asked to commit, and when, on the monotonic clock."""
        self._answered: dict[int, None] = {}
        """The ids of the parts that were answered most recently."""
        self._withdrawn: dict[Transaction, None] = {}
        """The transactions that were aborted most recently while an answer may have been in transit."""
        self._writing: asyncio.Timeout | None = None
        self._write_timeout_s = 0.0
        self._closed = False

    @property
    def instance(self) -> str:
        """The name that identifies this deployment of the sink across its restarts."""
        return self.hello.instance

    @property
    def part(self) -> str:
        """The connector, as health names it."""
        return f"connector {self.instance} of sink {self.hello.sink}"

    @property
    def for_logs(self) -> dict[str, str | int]:
        """The keys and values that every log line about this session contains."""
        return {"session": self.id, "sink": self.hello.sink, "instance": self.instance}

    @property
    def durable(self) -> bool:
        """Whether staged parts survive the session."""
        return self.hello.mode == pb.SINK_MODE_TWO_PHASE

    def outstanding(self) -> tuple[float, str] | None:
        """Returns what the sink has yet to answer for the longest time, after when on the monotonic clock that began."""
        waits = [(o.completed_at, f"has not written {self._with_names(o.part)}") for o in self.open.values() if o.complete]
        waits += [(vote.asked_at, f"has not voted for {self._with_names(asked)}") for asked, vote in self.votes.items()]
        waits += [(since, f"has not made {self._with_names(told)} visible") for told, since in self._told_to_commit.items()]
        if self._outbox.full_since is not None:
            waits.append((self._outbox.full_since, "does not take what is delivered to it"))
        return min(waits, default=None)

    def _with_names(self, one: Transaction | Part) -> str:
        """Returns a transaction or a part with the names of the pipelines, as far as the query has told them."""
        transaction = one.transaction if isinstance(one, Part) else one
        names = ", ".join(sorted({*self._readers(transaction.pipeline)} - {transaction.pipeline}))
        return f"{one} ({names})" if names else str(one)

    # Messages to the sink

    def send(self, response: pb.SinkServiceAttachResponse) -> None:
        """Queues a message."""
        self._outbox.put(response)

    def waiting(self) -> Response | None:
        """Removes and returns the next queued message; None if there is none."""
        return self._outbox.take()

    @asynccontextmanager
    async def writing(self, timeout_ms: int) -> AsyncIterator[None]:
        """Limits how long the sink may take to read a message. The timeout restarts whenever the sink sends something.

        Raises:
            ReadTimeout: the sink has neither read nor sent anything for `timeout_ms` milliseconds.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000) as self._writing:
                self._write_timeout_s = timeout_ms / 1000
                yield
        except TimeoutError:
            raise ReadTimeout(
                f"sink {self.hello.sink}: instance {self.instance} has neither read nor sent anything for {timeout_ms} ms; "
                "keep reading, or send SinkBusy while the sink cannot take more",
                timeout_ms=timeout_ms,
            ) from None
        finally:
            self._writing = None

    def note_activity(self) -> None:
        """Notes that the sink has sent something, and so is alive, however slowly it reads."""
        self.heartbeat.heard()
        if self._writing is not None and not self._writing.expired():
            self._writing.reschedule(asyncio.get_running_loop().time() + self._write_timeout_s)

    def end(self, failure: ProtocolError) -> None:
        """Ends the session with an error."""
        self.failure = self.failure or failure
        self.outgoing.notify()

    # Names

    def transaction_of(self, part: Part) -> Transaction:
        """Returns its own transaction for a part from an engine."""
        return self.own(part).transaction

    def own(self, part: Part) -> Part:
        """Returns a part from an engine as it knows it."""
        return part.of_run(part.run_id if self.keeps_runs else "")

    def named(self, wire: pb.Transaction) -> Transaction:
        """Returns a transaction that it has named.

        Raises:
            MalformedMessage: the transaction is invalid.
        """
        transaction = Transaction.from_proto(wire)
        return transaction if self.keeps_runs else transaction.of_run("")

    # Parts

    def has_parts_of(self, transaction: Transaction) -> bool:
        """Returns whether the instance has staged parts of a transaction, or is receiving some."""
        on_their_way = any(opened.part.transaction == transaction for opened in self.open.values())
        return on_their_way or any(part.transaction == transaction for part in self.holdings.staged)

    def start_part(self, part: Part, *, at_once: bool = False) -> OpenPart:
        """Begins the delivery of a part; `at_once` if no vote will name it."""
        part = self.own(part)
        opened = OpenPart(self._next_part, part, asyncio.get_running_loop().create_future(), at_once)
        self._next_part += 1
        self.open[opened.id] = opened
        start = pb.StartPart(id=opened.id, part=part.to_proto())
        self.send(pb.SinkServiceAttachResponse(start_part=start))
        return opened

    async def room(self, opened: OpenPart | None = None) -> None:
        """Waits until more may be queued, or until the outcome of `opened` is already known.

        Raises:
            SinkAway: the session has ended.
        """
        while self._outbox.is_full and not self._closed and not (opened is not None and opened.staged.done()):
            await self._outbox.room.wait()
        self._check_open()

    async def deliver(self, opened: OpenPart, messages: int, frame: memoryview) -> None:
        """Queues a frame of `messages` messages of a part, once there is room.

        Raises:
            SinkAway: the session has ended.
            SinkFailed: the sink has already failed to stage the part.
            Superseded: another run has replaced the run that delivers the part.
        """
        await self.room(opened)
        if opened.staged.done():
            await outcome(opened.staged)
        opened.messages += messages
        self._outbox.put(part_frame(opened.id, frame), len(frame))

    async def finish_part(self, opened: OpenPart) -> Refused:
        """Ends a part, and waits until it is staged; returns the messages that the sink refused.

        Raises:
            SinkAway: the session ended before the answer arrived.
            SinkFailed: the sink could not stage the part.
            Superseded: another run has replaced the run that delivers the part.
        """
        self._check_open()
        if opened.staged.done():
            return await outcome(opened.staged)
        opened.complete, opened.completed_at = True, clock.monotonic()
        self.send(pb.SinkServiceAttachResponse(end_part=pb.EndPart(id=opened.id, messages=opened.messages)))
        return await outcome(opened.staged)

    def drop_part(self, opened: OpenPart) -> None:
        """Forgets a part whose delivery has ended, and tells the sink to drop it unless it was staged."""
        if self.open.pop(opened.id, None) is not None and not self._closed:
            self.send(pb.SinkServiceAttachResponse(drop_part=pb.DropPart(id=opened.id)))

    def refuse_part(self, opened: OpenPart, error: ProtocolError) -> None:
        """Ends the delivery of a part with an error."""
        answer(opened.staged, error)
        self.drop_part(opened)
        self._outbox.room.notify()

    def staged(self, part_id: int, refused: Refused) -> OpenPart | None:
        """Notes that a part is staged, and returns it; returns None if it was dropped in the meantime.

        Raises:
            OutOfTurn: no answer is due for the part, or not all of it has been sent.
            MalformedMessage: the refusals do not name messages of the part, each once and in order.
        """
        opened = self.open.get(part_id)
        if opened is not None:
            if not opened.complete:
                text = f"sink {self.hello.sink}, {opened.part}: Staged before EndPart; wait for the whole part"
                raise OutOfTurn(text, sink=self.hello.sink)
            self._check_refused(opened, refused)
            if not opened.at_once:
                self.holdings.staged.add(opened.part)
            answer(opened.staged, refused)
        self._noteanswer(part_id)
        return opened

    def _check_refused(self, opened: OpenPart, refused: Refused) -> None:
        try:
            check_refused(refused, opened.messages)
        except MalformedMessage as error:
            transaction = opened.part.transaction
            where = {"sink": self.hello.sink, "pipeline": transaction.pipeline, "batch": transaction.batch}
            raise error.within(f"sink {self.hello.sink}, {opened.part}", **where) from None

    def part_failed(self, part_id: int, reason: str) -> None:
        """Notes that a part could not be staged; has no effect if it was dropped in the meantime.

        Raises:
            OutOfTurn: no answer is due for the part.
        """
        opened = self.open.get(part_id)
        if opened is not None:
            answer(opened.staged, SinkFailed(f"sink {self.hello.sink}, {self._with_names(opened.part)}: {reason}"))
        self._noteanswer(part_id)

    def _noteanswer(self, part_id: int) -> None:
        """Ends a part. A dropped part may still be answered once, because the answer may have been in transit."""
        self.open.pop(part_id, None)
        if not 0 < part_id < self._next_part or part_id in self._answered:
            why = "was answered already" if part_id in self._answered else "was never begun in this session"
            raise OutOfTurn(f"sink {self.hello.sink}: an answer to part {part_id}, which {why}", sink=self.hello.sink)
        _remember(self._answered, part_id)

    # Transactions

    def has(self, transaction: Transaction) -> bool:
        """Returns whether the instance has a transaction that it voted for, of any run if it names none: prepared, or visible.

        A sink that is not two-phase and reports nothing visible is trusted.
        """
        last = self.visible.get(transaction.pipeline)
        if last is None and not self.durable:
            return True
        runs = self.holdings.prepared_by(transaction)
        is_prepared = bool(runs) and (not transaction.run or bool(runs & {"", transaction.run}))
        return is_prepared or (last is not None and transaction.batch <= last)

    def note_visible(self, transaction: Transaction) -> None:
        """Notes that a transaction is visible."""
        self.visible[transaction.pipeline] = max(transaction.batch, self.visible.get(transaction.pipeline, -1))

    async def vote(self, transaction: Transaction, parts: list[Part]) -> None:
        """Asks the instance for its vote on parts that it has staged.

        Raises:
            SinkAway: the session ended before the answer arrived.
            SinkFailed: the sink votes against the transaction.
        """
        self._check_open()
        vote = self.votes.get(transaction)
        if vote is None:
            vote = self.votes[transaction] = _Vote(asyncio.get_running_loop().create_future(), clock.monotonic())
            self.holdings.keep_only(transaction, parts)
            self._end_open_parts(transaction, "the transaction was prepared without it")
            prepare = pb.Prepare(transaction=transaction.to_proto(), parts=[part.to_proto() for part in parts])
            self.send(pb.SinkServiceAttachResponse(prepare=prepare))
        await outcome(vote.answer)

    def refuse_vote(self, transaction: Transaction, error: ProtocolError) -> None:
        """Ends the wait for a vote, which may still arrive."""
        vote = self.votes.get(transaction)
        if vote is not None:
            answer(vote.answer, error)

    def prepared(self, transaction: Transaction) -> bool:
        """Notes a vote for a transaction; returns False if it was aborted in the meantime.

        Raises:
            OutOfTurn: no vote was requested.
        """
        vote = self.votes.pop(transaction, None)
        if vote is None:
            self._check_withdrawn("Prepared", transaction)
            return False
        self.holdings.prepared.add(transaction)
        answer(vote.answer, None)
        return True

    def committed(self, transaction: Transaction) -> bool:
        """Notes that a transaction was committed and is visible; returns False if it was aborted in the meantime.

        Raises:
            OutOfTurn: the instance was not told to commit it.
        """
        if transaction not in self._told_to_commit:
            self._check_withdrawn("Committed", transaction)
            return False
        self._told_to_commit.pop(transaction, None)
        self.holdings.drop(transaction)
        self.note_visible(transaction)
        self.outcomes["committed"] += 1
        return True

    def transaction_failed(self, transaction: Transaction, reason: str) -> bool:
        """Notes a vote against a transaction, or a failed commit; returns False if no vote was requested.

        A failed commit is retried with the next report of the commit log.
        """
        self._withdrawn.pop(transaction, None)
        self._told_to_commit.pop(transaction, None)
        vote = self.votes.pop(transaction, None)
        if vote is not None:
            answer(vote.answer, SinkFailed(f"sink {self.hello.sink}, {self._with_names(transaction)}: {reason}"))
        return vote is not None

    def _check_withdrawn(self, answer: str, transaction: Transaction) -> None:
        """Accepts one answer about a transaction that was aborted while the answer was in transit.

        Raises:
            OutOfTurn: no such answer is expected.
        """
        if transaction not in self._withdrawn:
            text = f"sink {self.hello.sink}, {transaction}: {answer} answers no request of this session"
            raise OutOfTurn(text, sink=self.hello.sink)
        del self._withdrawn[transaction]

    def commit(self, transaction: Transaction) -> None:
        """Tells the sink, once, to make a transaction visible."""
        if transaction in self._told_to_commit:
            return
        self._told_to_commit[transaction] = clock.monotonic()
        self.send(pb.SinkServiceAttachResponse(commit=pb.Commit(transaction=transaction.to_proto())))

    def abort(self, transaction: Transaction) -> None:
        """Tells the sink to drop a transaction."""
        self.outcomes["aborted"] += 1
        withdrawn = transaction in self.votes or transaction in self._told_to_commit
        log.info("transaction aborted", extra={**self.for_logs, **transaction.for_logs})
        self.holdings.drop(transaction)
        self._end_open_parts(transaction, "the transaction was aborted")
        self.transaction_failed(transaction, "it was aborted")
        if withdrawn:
            _remember(self._withdrawn, transaction)
        self.send(pb.SinkServiceAttachResponse(abort=pb.Abort(transaction=transaction.to_proto())))

    def _end_open_parts(self, transaction: Transaction, why: str) -> None:
        """Fails deliveries in progress: the sink drops their parts, and does not answer their EndPart."""
        for opened in [opened for opened in self.open.values() if opened.part.transaction == transaction]:
            del self.open[opened.id]
            answer(opened.staged, SinkFailed(f"sink {self.hello.sink}, {opened.part}: {why}"))

    def close(self) -> None:
        """Closes the session, and fails every call that waits for its answer."""
        self._closed = True
        away = SinkAway(f"sink {self.hello.sink}: the session of instance {self.instance} was lost; deliver again")
        for opened in self.open.values():
            answer(opened.staged, away)
        for vote in self.votes.values():
            answer(vote.answer, away)
        self.open, self.votes = {}, {}
        self._outbox.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise SinkAway(f"sink {self.hello.sink}: the session of instance {self.instance} was lost; deliver again")


def _remember(keys: dict[_K, None], key: _K) -> None:
    """Adds a key as the latest, and removes the oldest beyond MAX_REMEMBERED."""
    keys.pop(key, None)
    keys[key] = None
    if len(keys) > MAX_REMEMBERED:
        del keys[next(iter(keys))]
