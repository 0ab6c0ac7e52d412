"""The gateway counts each message that all readers have committed once, however often its source resends it."""

import bisect
import itertools
import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.contract.position import Position
from headrace.gateway.core.base.position import BEGINNING
from headrace.gateway.core.pipelines.pipeline import Pipeline
from headrace.gateway.core.streams.frames import HeldFrame
from headrace.gateway.core.streams.reconciling import reconcile
from headrace.gateway.core.streams.stream import Attachment, RequestedCredit, Stream
from headrace.protocol.v1 import frame_pb2, source_pb2

MESSAGES = 40
QUERIES = st.integers(0, 3)


class Session:
    """A session to which nobody listens."""

    id, peer, instance = "session", "test", "log-0"

    def send(self, response: source_pb2.IngestResponse) -> None: ...
    def acknowledge(self, attachment: Attachment, position: Position) -> None:
        attachment.told = position

    def acknowledges(self, stream_id: int) -> bool:
        return False

    def grant_to_stream(self, attachment: Attachment, wanted: RequestedCredit) -> None: ...
    def retire(self, stream_id: int) -> None: ...
    def reject(
        self, stream_id: int, reason: source_pb2.RejectReason.ValueType, message: str, retry_after_ms: int = 0
    ) -> None: ...


def frame_of(sequences: list[int]) -> HeldFrame:
    deltas = [after - before for before, after in itertools.pairwise(sequences)]
    is_dense = all(delta == 1 for delta in deltas)
    packed = b"" if is_dense else b"".join(delta.to_bytes(4, "little") for delta in deltas)
    payload = frame_pb2.Frame(first_sequence=sequences[0], count=len(sequences), sequence_deltas=packed).SerializeToString()
    return HeldFrame(sequences[0], sequences[-1], len(sequences), len(payload), payload, None, 0.0, None)


class Tallies(RuleBasedStateMachine):
    """A log that is read by queries, which commit, leave, and return from where they were."""

    may_forget = False
    largest_gap = 4

    @initialize(seed=st.integers(0, 1000), queries=st.integers(1, 3))
    def begin(self, seed: int, queries: int) -> None:
        source = random.Random(seed)
        self.log = list(itertools.accumulate((source.randint(1, self.largest_gap) for _ in range(MESSAGES)), initial=0))
        self.stream = Stream("log/0")
        self.queries = [Pipeline(f"query{number}", patterns=("log/*",)) for number in range(queries)]
        for query in self.queries:
            query.attached = query.complete = True
            self.stream.note_reader(query)
        self.seen: set[int] = set()
        self.counted: set[int] = set()
        self.connect()

    def connect(self) -> None:
        self.stream.attachment = Attachment(Session(), self.stream, 1)
        self.settle()

    def settle(self) -> None:
        reconcile(self.stream)
        if self.stream.attachment is None:
            self.connect()
        if self.stream.readers:
            committed = min(query.position("log/0").sequence for query in self.stream.readers)
            self.counted |= {sequence for sequence in self.seen if sequence <= committed}

    @rule(count=st.integers(1, 10))
    def send(self, count: int) -> None:
        at = bisect.bisect_right(self.log, self.stream.received.sequence)
        if sequences := self.log[at : at + count]:
            self.stream.append(frame_of(sequences))
            self.seen.update(sequences)
            self.settle()

    @rule(number=QUERIES, count=st.integers(1, 15))
    def commit(self, number: int, count: int) -> None:
        query = self.queries[number % len(self.queries)]
        if not query.attached or query not in self.stream.readers or self.stream.must_be_rewound_for(query):
            return
        at = bisect.bisect_right(self.log, query.position("log/0").sequence)
        ends = [sequence for sequence in self.log[at : at + count] if sequence <= self.stream.received.sequence]
        if ends:
            query.commit({"log/0": Position(0, ends[-1])})
            self.settle()

    @rule(number=QUERIES)
    def leave(self, number: int) -> None:
        self.queries[number % len(self.queries)].attached = False
        self.settle()

    @rule(number=QUERIES)
    def come_back(self, number: int) -> None:
        query = self.queries[number % len(self.queries)]
        query.attached = True
        if query not in self.stream.readers:
            self.stream.readers.append(query)
        self.settle()

    @precondition(lambda self: self.may_forget)
    @rule(number=QUERIES)
    def forget(self, number: int) -> None:
        query = self.queries[number % len(self.queries)]
        if query in self.stream.readers and len(self.stream.readers) > 1:
            query.attached = False
            self.stream.readers.remove(query)
            self.settle()

    @rule()
    def reconnect(self) -> None:
        self.stream.leave()
        self.connect()

    @invariant()
    def counts_each_message_once(self) -> None:
        assert self.stream.tally.total == len(self.counted)

    @invariant()
    def what_is_left_is_known(self) -> None:
        tally, start = self.stream.tally, self.stream.start
        left = {sequence for sequence in self.seen if tally.up_to.sequence < sequence <= start.sequence}
        assert tally.released(start) == len(left)
        assert len(tally._released) <= len(self.queries) + 2


class TalliesOfForgotten(Tallies):
    """As before, with queries that are forgotten and return: where they continue is not known meanwhile."""

    may_forget = True
    largest_gap = 1


TestTallies = Tallies.TestCase
TestTallies.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestTalliesOfForgotten = TalliesOfForgotten.TestCase
TestTalliesOfForgotten.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_what_is_acknowledged_within_a_frame_counts_though_the_stream_restarts() -> None:
    stream, query = Stream("queue/0", kind=source_pb2.SOURCE_KIND_REDELIVERING), Pipeline("query", patterns=("queue/*",))
    query.attached = query.complete = True
    stream.note_reader(query)
    stream.restart(Position(7, 0))
    stream.append(frame_of(list(range(1, 11))))
    query.commit({"queue/0": Position(7, 4)})
    reconcile(stream)
    stream.void()
    assert stream.tally.total == 4
    stream.restart(Position(8, 0))
    stream.append(frame_of(list(range(1, 7))))
    query.commit({"queue/0": Position(8, 6)})
    reconcile(stream)
    assert stream.tally.total == 10
    assert stream.acknowledged > BEGINNING
