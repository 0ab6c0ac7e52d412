"""The calls of one sink, from the gateway's side: parts, votes, and the rules that hold in every session."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.conformance.core.changes import Changes
from headrace.conformance.core.frames import Message, encode
from headrace.conformance.core.gateway import SessionGateway, metadata_of
from headrace.conformance.core.server import UNKNOWN_KIND, ScriptedCall
from headrace.conformance.core.trace import Trace
from headrace.contract.counts import counted
from headrace.contract.limits import PROTOCOL_VERSION
from headrace.protocol.v1 import sink_pb2 as pb
from headrace.protocol.v1.sink_pb2_grpc import SinkServiceServicer, add_SinkServiceServicer_to_server

Key = tuple[str, int, str]
"""A transaction: pipeline, batch and run."""


def key(transaction: pb.Transaction) -> Key:
    """A transaction as a key of a dictionary."""
    return transaction.pipeline, transaction.batch, transaction.run


@dataclass(eq=False)
class PartState:
    """The messages about one part in one session."""

    part: pb.Part
    rows: int = 0
    ended: bool = False
    dropped: bool = False
    ended_after_drop: bool = False
    """EndPart was sent for a part that was dropped or aborted before: there must be no answer."""
    staged: pb.Staged | None = None
    failed: str | None = None

    @property
    def answered(self) -> bool:
        """Whether Staged or Failed has arrived."""
        return self.staged is not None or self.failed is not None


@dataclass(eq=False)
class Question:
    """A Prepare or a Commit, and its answer."""

    answered: bool = False
    failed: str | None = None

    @property
    def confirmed(self) -> bool:
        """Whether the answer was Prepared, or Committed."""
        return self.answered and self.failed is None


@dataclass(eq=False, kw_only=True)
class SinkSession(ScriptedCall[pb.SinkServiceAttachRequest, pb.SinkServiceAttachResponse]):
    """One call of a sink. Rules that hold in every session are judged here, and breaches reported to the gateway."""

    number: int
    gateway: "SinkGateway"
    hello: pb.SinkHello | None = None
    welcomed: bool = False
    ended: bool = False
    goodbye: str | None = None
    """Why the connector has left, if it named a reason."""
    parts: dict[int, PartState] = field(default_factory=dict)
    votes: dict[Key, Question] = field(default_factory=dict)
    commits: dict[Key, Question] = field(default_factory=dict)
    heard: int = 0
    """How many messages have arrived."""
    unasked: list[str] = field(default_factory=list)
    """Failures of transactions that nothing was asked about."""

    # What checks use

    def send(self, **message: object) -> None:
        """Sends a message to the connector."""
        response = pb.SinkServiceAttachResponse(**message)  # type: ignore[arg-type]
        self.gateway.trace.from_gateway(self.number, response)
        self.outgoing.put_nowait(response)

    def send_unknown(self) -> None:
        """Sends a message of a kind that only a later version of the protocol has."""
        self.gateway.trace.event(f"#{self.number} connector <- gateway  a message of an unknown kind")
        self.outgoing.put_nowait(pb.SinkServiceAttachResponse.FromString(UNKNOWN_KIND))

    def welcome(self) -> None:
        """Answers SinkHello."""
        self.welcomed = True
        welcome = pb.SinkWelcome(
            protocol_version=PROTOCOL_VERSION,
            gateway_version="conformance",
            session=f"s{self.number}",
            read_timeout_ms=self.gateway.read_timeout_ms,
            capabilities=self.gateway.capabilities,
        )
        self.send(welcome=welcome)

    def start(self, part: pb.Part) -> int:
        """Begins a part; returns its id."""
        number = len(self.parts) + 1
        self.parts[number] = PartState(part)
        self.send(start_part=pb.StartPart(id=number, part=part))
        return number

    def rows(self, number: int, rows: Sequence[Message]) -> None:
        """Sends rows of a part, as one frame."""
        state = self.parts[number]
        numbered = [
            Message(row.value, row.key, state.rows + index, row.event_time, row.message_id, row.headers)
            for index, row in enumerate(rows)
        ]
        state.rows += len(rows)
        self.send(frame=pb.PartFrame(id=number, frame=encode(numbered)))

    def end(self, number: int) -> None:
        """Says that a part is complete."""
        state = self.parts[number]
        state.ended = True
        state.ended_after_drop = state.dropped
        self.send(end_part=pb.EndPart(id=number, messages=state.rows))

    def deliver(self, part: pb.Part, rows: Sequence[Message]) -> int:
        """Sends a whole part; returns its id."""
        number = self.start(part)
        if rows:
            self.rows(number, rows)
        self.end(number)
        return number

    def drop(self, number: int) -> None:
        """Drops a part."""
        if number in self.parts:
            self.parts[number].dropped = True
        self.send(drop_part=pb.DropPart(id=number))

    def prepare(self, transaction: pb.Transaction, *parts: pb.Part) -> None:
        """Asks for a vote."""
        self.votes[key(transaction)] = Question()
        self.send(prepare=pb.Prepare(transaction=transaction, parts=parts))

    def commit(self, transaction: pb.Transaction) -> None:
        """Says that a transaction is in the commit log."""
        self.commits[key(transaction)] = Question()
        self.send(commit=pb.Commit(transaction=transaction))

    def abort(self, transaction: pb.Transaction) -> None:
        """Says that a transaction will never be in the commit log."""
        for state in self.parts.values():
            state.dropped = state.dropped or state.part.transaction == transaction
        self.send(abort=pb.Abort(transaction=transaction))

    def drain(self, deadline_ms: int) -> None:
        """Asks the connector to finish."""
        self.send(drain=pb.SinkDrain(deadline_ms=deadline_ms, reason="as the check says"))

    # What arrives

    def take(self, request: pb.SinkServiceAttachRequest) -> None:
        """Handles a message."""
        self.gateway.trace.from_connector(self.number, request)
        self.heard += 1
        kind = request.WhichOneof("message")
        if kind not in ("hello", None) and not self.welcomed:
            self.gateway.breach("hello", f"it sends {kind} before it has SinkWelcome")
        match kind:
            case "hello":
                self._take_hello(request.hello)
            case "staged":
                self._take_staged(request.staged)
            case "prepared":
                self._take_answer("Prepared", self.votes, request.prepared.transaction)
            case "committed":
                self._take_answer("Committed", self.commits, request.committed.transaction)
            case "failed":
                self._take_failed(request.failed)
            case "report":
                self.gateway.reported(request.report)
            case "goodbye":
                self.goodbye = request.goodbye.reason
        self.gateway.changes.notify()

    def _take_hello(self, hello: pb.SinkHello) -> None:
        if self.hello is not None:
            self.gateway.breach("hello", "it sends SinkHello again in the same session")
            return
        self.hello = hello
        self.gateway.greeted(self)

    def _take_staged(self, staged: pb.Staged) -> None:
        state = self.parts.get(staged.id)
        if state is None:
            self.gateway.breach("answers", f"Staged for part {staged.id}, which was never begun in this session")
            return
        if not state.ended:
            self.gateway.breach("answers", f"Staged for part {staged.id} before its EndPart")
        if state.answered:
            self.gateway.breach("answers", f"a second answer for part {staged.id}")
        sequences = [refused.sequence for refused in staged.refused]
        if sequences != sorted(set(sequences)):
            self.gateway.breach("refusals", f"part {staged.id}: refused sequences that do not ascend: {sequences}")
        if sequences and sequences[-1] >= state.rows:
            self.gateway.breach(
                "refusals", f"part {staged.id}: refuses sequence {sequences[-1]} of {counted(state.rows, 'message')}"
            )
        state.staged = staged

    def _take_answer(self, name: str, questions: dict[Key, Question], transaction: pb.Transaction) -> None:
        question = questions.get(key(transaction))
        if question is None or question.answered:
            again = "" if question is None else " again"
            self.gateway.breach("answers", f"{name}{again} for batch {transaction.batch} of {transaction.pipeline}, unasked")
            return
        question.answered = True

    def _take_failed(self, failed: pb.Failed) -> None:
        if failed.WhichOneof("what") == "part_id":
            state = self.parts.get(failed.part_id)
            if state is None or state.answered:
                self.gateway.breach("answers", f"Failed for part {failed.part_id}, which was not begun, or is answered")
                return
            state.failed = failed.reason or "no reason given"
            return
        asked = [found for questions in (self.votes, self.commits) if (found := questions.get(key(failed.transaction)))]
        for question in asked:
            if not question.answered:
                question.answered, question.failed = True, failed.reason or "no reason given"
        if not asked:
            self.unasked.append(failed.reason)


class SinkGateway(SessionGateway[SinkSession], SinkServiceServicer):
    """Serves the sessions of one sink: answers SinkHello by itself, and leaves the rest to checks."""

    register = add_SinkServiceServicer_to_server  # type: ignore[assignment]

    def __init__(self, trace: Trace, changes: Changes) -> None:
        super().__init__(trace, changes)
        self.read_timeout_ms = 30_000

    async def Attach(  # type: ignore[override]
        self, request_iterator: AsyncIterator[pb.SinkServiceAttachRequest], context: Any
    ) -> None:
        """One session."""
        session = SinkSession(metadata=metadata_of(context), number=len(self.sessions) + 1, gateway=self)
        await self.run("SinkService.Attach", session, request_iterator, context)
