"""The fake gateway with a sink: keeps what is delivered, voted for and reported, and fails as a test tells it to."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import grpc
import pyarrow as pa
from tests.fake_gateway.engine import FakeGateway

from headrace.engine import codec
from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1 import frame_pb2, sink_pb2


@dataclass
class Delivered:
    """A call of Deliver."""

    start: pb.DeliveryStart
    frames: list[frame_pb2.Frame] = field(default_factory=list)
    messages: int | None = None
    """What DeliveryEnd said; None where the call broke before."""

    @property
    def attempt(self) -> str:
        return self.start.part.attempt

    @property
    def rows(self) -> list[dict[str, object]]:
        columns = [codec.columns("", frame) for frame in self.frames]
        at = codec.SCHEMA.get_field_index("event_time")
        rows: list[dict[str, object]] = []
        for batch in codec.record_batches(columns):
            rows += batch.set_column(at, "event_time", batch.column(at).cast(pa.int64())).to_pylist()
        return rows


class FakeSinkGateway(FakeGateway):
    def __init__(self) -> None:
        super().__init__()
        self.delivered: list[Delivered] = []
        self.votes: list[pb.VoteRequest] = []
        self.commit_reports: list[pb.ReportCommitsRequest] = []
        self.deliver_failures: list[tuple[int, grpc.StatusCode, str]] = []
        """Ends the next deliveries after so many frames."""
        self.vote_failures: list[tuple[grpc.StatusCode, str]] = []
        """Ends the next votes."""
        self.vote_answers = threading.Event()
        """Votes are answered while it is set."""
        self.vote_answers.set()
        self.votes_asked = 0
        self.commit_report_failures: list[tuple[grpc.StatusCode, str]] = []
        """Ends the next calls of ReportCommits."""
        self.undecided: list[list[int]] = []
        """The batches that the next calls of ReportCommits say are undecided; then none is."""
        self.refused: list[sink_pb2.Staged.Refused] = []
        """What sink `alerts` refuses of each part."""
        self.pending: list[int] = []
        """What the next calls of ReportCommits say is pending; then nothing is."""
        self.remembered: list[pb.SinkVote] = []
        """The last votes for batches in the commit log, as every call of ReportCommits is told."""

    def batch(self, number: int) -> dict[int, list[dict[str, object]]]:
        """The sink's last vote for a batch, by partition."""
        vote = [vote for vote in self.votes if vote.transaction.batch == number][-1]
        parts = {d.attempt: d for d in self.delivered if d.messages is not None}
        return {part.partition: parts[part.attempt].rows for part in vote.parts}

    @property
    def values(self) -> list[object]:
        """The values of all batches that the sink voted for, in order."""
        numbers = sorted({vote.transaction.batch for vote in self.votes})
        return [row["value"] for number in numbers for _, rows in sorted(self.batch(number).items()) for row in rows]

    def committed_batches(self) -> dict[str, list[int | None]]:
        """What each pipeline has said it committed."""
        said: dict[str, list[int | None]] = defaultdict(list)
        for report in self.commit_reports:
            said[report.pipeline].append(report.committed if report.HasField("committed") else None)
        return said

    # The service

    def Deliver(self, requests: Iterator[pb.DeliverRequest], context: grpc.ServicerContext) -> pb.DeliverResponse:
        delivered = Delivered(next(requests).start)
        with self._changed:
            self._admit(context)
            self.delivered.append(delivered)
            failure = self.deliver_failures.pop(0) if self.deliver_failures else None
            self._changed.notify_all()
        for request in requests:
            if failure is not None and len(delivered.frames) == failure[0]:
                self._abort(context, failure[1], failure[2])
            if request.HasField("end"):
                delivered.messages = request.end.messages
            else:
                delivered.frames.append(request.frame)
        refused = self.refused if delivered.start.sink == "alerts" else ()
        return pb.DeliverResponse(refused=refused, instance=f"{delivered.start.sink}-1")

    def Vote(self, request: pb.VoteRequest, context: grpc.ServicerContext) -> pb.VoteResponse:
        with self._changed:
            self.votes_asked += 1
            self._changed.notify_all()
        while not self.vote_answers.wait(0.05) and context.is_active() and not self._is_stopped(request):
            pass
        with self._changed:
            if self._is_stopped(request):
                context.set_trailing_metadata((("headrace-reason", "stopped"),))
                self._abort(context, grpc.StatusCode.ABORTED, "the run was stopped")
            self._admit(context)
            if self.vote_failures:
                self._abort(context, *self.vote_failures.pop(0))
            self.votes.append(request)
            self._changed.notify_all()
        return pb.VoteResponse()

    def _is_stopped(self, request: pb.VoteRequest) -> bool:
        runs = {part.attempt.partition("/")[0] for part in request.parts}
        return any(report.stopped and report.run in runs for report in self.commit_reports)

    def ReportCommits(self, request: pb.ReportCommitsRequest, context: grpc.ServicerContext) -> pb.ReportCommitsResponse:
        with self._changed:
            self._admit(context)
            if self.commit_report_failures:
                self._abort(context, *self.commit_report_failures.pop(0))
            self.commit_reports.append(request)
            self._changed.notify_all()
            undecided = self.undecided.pop(0) if self.undecided else []
            pending = self.pending.pop(0) if self.pending else 0
            return pb.ReportCommitsResponse(pending=pending, undecided=undecided, votes=self.remembered)
