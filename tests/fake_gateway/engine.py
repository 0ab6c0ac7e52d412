"""A gateway that keeps frames in lists and remembers every call, to script what the engine meets."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from typing import Any, NoReturn

import grpc
from tests.engine.frames import Message, frame

from headrace.protocol.v1 import engine_pb2 as pb
from headrace.protocol.v1 import frame_pb2
from headrace.protocol.v1.engine_pb2_grpc import EngineServiceServicer, add_EngineServiceServicer_to_server

DEADLINE_S = 150.0
FRAME_MESSAGES = 10


class FakeGateway(EngineServiceServicer):
    def __init__(self) -> None:
        self.streams: dict[str, list[Message]] = {}
        self.starts: dict[str, int] = {}
        """Where streams begin for a pipeline that has no position in them."""
        self.positions: dict[str, dict[str, int]] = {}
        self.attached: list[pb.AttachRequest] = []
        self.renewed: list[pb.RenewRequest] = []
        self.lease_ms = 0
        self.plans: list[pb.PlanRequest] = []
        self.fetches: list[pb.FetchRequest] = []
        self.detached: list[pb.DetachRequest] = []
        self.sinks_away: list[str] = []
        self.streams_away: list[str] = []
        """The streams that a run awaits and that have no connector; the run is not exhausted then."""
        self.metadata: list[dict[str, str]] = []
        self.failure: tuple[grpc.StatusCode, str] | None = None
        """Ends every call."""
        self.reason = ""
        """Names for programs why calls end, if the status code is not enough."""
        self.fetch_failures: list[tuple[int, grpc.StatusCode, str]] = []
        """Ends the next fetches after so many frames."""
        self.arrived: dict[str, int] = {}
        """How many messages existed when an available-now run attached."""
        self.knows_tables = True
        """Whether it has heard of tables that are read first; otherwise it plans whatever is there."""
        self.table_ends: dict[str, int] = {}
        """The present ends of the streams of tables that are read first; a stream that is not here has told none."""
        self.ended: set[str] = set()
        """Streams whose source has ended them; told to those who want to know."""
        self.gone: set[str] = set()
        self.reported: list[pb.ReportBatchesRequest] = []
        self.heartbeats: list[pb.HeartbeatRequest] = []
        self.wants_history = False
        self.refuses_batches: grpc.StatusCode | None = None
        """Those of them that are to be left out of checkpoints."""
        self.forgets_alone = False
        """Whether that is told without a batch, as where a new stream of the name waits."""
        self._ends: dict[str, set[str]] = {}
        """Those whose end a pipeline's checkpoint has."""
        self._changed = threading.Condition()
        self._server: grpc.Server | None = None
        self.address = ""

    # For tests

    def start(self) -> "FakeGateway":
        server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
        add_EngineServiceServicer_to_server(self, server)
        port = server.add_insecure_port(self.address or "127.0.0.1:0")
        self.address = self.address or f"127.0.0.1:{port}"
        server.start()
        self._server = server
        return self

    @property
    def is_running(self) -> bool:
        return self._server is not None

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(None).wait()
            self._server = None

    def forget(self) -> None:
        """As after a restart."""
        with self._changed:
            self.positions.clear()

    def append(self, stream: str, messages: Sequence[Message]) -> None:
        with self._changed:
            self.streams.setdefault(stream, []).extend(messages)
            self._changed.notify_all()

    def committed(self, stream: str) -> int:
        """The largest sequence of a stream that any pipeline committed; -1 where none did."""
        with self._changed:
            return max((p.get(stream, -1) for p in self.positions.values()), default=-1)

    def wait_until(self, condition: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        with self._changed:
            while not condition():
                left = deadline - time.monotonic()
                assert left > 0, f"not within {DEADLINE_S} s: {what}"
                self._changed.wait(min(left, 0.05))

    # The service

    def Attach(self, request: pb.AttachRequest, context: grpc.ServicerContext) -> pb.AttachResponse:
        with self._changed:
            self._admit(context)
            self.attached.append(request)
            self.positions[request.pipeline.name] = {p.stream: p.position.sequence for p in request.committed}
            self._ends[request.pipeline.name] = set(request.ended)
            if request.available_now:
                self.arrived = {stream: len(messages) for stream, messages in self.streams.items()}
            self._changed.notify_all()
        return pb.AttachResponse(gateway_version="fake", lease_ms=self.lease_ms)

    def Renew(self, request: pb.RenewRequest, context: grpc.ServicerContext) -> pb.RenewResponse:
        with self._changed:
            self.renewed.append(request)
            self._changed.notify_all()
        return pb.RenewResponse(lease_ms=self.lease_ms)

    def Plan(self, request: pb.PlanRequest, context: grpc.ServicerContext) -> pb.PlanResponse:
        with self._changed:
            self._admit(context)
            self.plans.append(request)
            known = self.positions.get(request.pipeline.name)
            if known is None:
                self._abort(context, grpc.StatusCode.NOT_FOUND, "attach first")
            known.update({p.stream: p.position.sequence for p in request.committed})
            ends = self._ends.setdefault(request.pipeline.name, set())
            ends -= {p.stream for p in request.committed}
            ends |= set(request.ended)
            for left_out in request.forgotten:
                assert known.pop(left_out.stream, -1) == left_out.position.sequence
                self.streams.pop(left_out.stream)
            self._changed.notify_all()
            deadline = time.monotonic() + request.wait_ms / 1000
            while not (ranges := self._ranges(request, known)) and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            if self.sinks_away:
                return pb.PlanResponse(sinks_away=self.sinks_away)
            over = request.tell_ends and bool(self.streams) and self.ended >= self.streams.keys()
            told = bool(ranges) or self.forgets_alone
            forgotten = sorted(self.gone & known.keys() - {r.stream for r in ranges}) if told else []
            away = self.streams_away if request.awaits_streams else []
            done = not ranges and not away and not request.bootstraps
            response = pb.PlanResponse(ranges=ranges, exhausted=done, all_ended=over, forgotten=forgotten, streams_away=away)
            response.bootstrapped.extend(self._bootstrapped(request, known, ranges))
            if request.tell_ends and ranges:
                there = known.keys() | {r.stream for r in ranges}
                response.opened.extend(sorted(self.streams.keys() - there - self.ended - set(request.awaited)))
                response.ended_unread.extend(sorted(self.ended & set(request.awaited)))
            return response

    def Heartbeat(self, request: pb.HeartbeatRequest, context: grpc.ServicerContext) -> pb.HeartbeatResponse:
        with self._changed:
            self.heartbeats.append(request)
            self._changed.notify_all()
            return pb.HeartbeatResponse()

    def ReportBatches(self, request: pb.ReportBatchesRequest, context: grpc.ServicerContext) -> pb.ReportBatchesResponse:
        with self._changed:
            self.reported.append(request)
            self._changed.notify_all()
            if self.refuses_batches is not None:
                self._abort(context, self.refuses_batches, "not noted")
            self.wants_history = self.wants_history and not request.history
            return pb.ReportBatchesResponse(wants_history=self.wants_history)

    def Fetch(self, request: pb.FetchRequest, context: grpc.ServicerContext) -> Iterator[pb.FetchResponse]:
        with self._changed:
            self._admit(context)
            self.fetches.append(request)
            failure = self.fetch_failures.pop(0) if self.fetch_failures else None
            self._changed.notify_all()
        sent = 0
        for index, wanted in enumerate(request.ranges):
            for part in self._frames(
                wanted.stream, wanted.start.sequence if wanted.HasField("start") else -1, wanted.end.sequence
            ):
                if failure is not None and sent == failure[0]:
                    self._abort(context, failure[1], failure[2])
                sent += 1
                yield pb.FetchResponse(frames=[pb.RangeFrame(range=index, frame=part)])
        if failure is not None:
            self._abort(context, failure[1], failure[2])

    def AwaitSinks(self, request: pb.AwaitSinksRequest, context: grpc.ServicerContext) -> pb.AwaitSinksResponse:
        with self._changed:
            self._changed.wait_for(lambda: not self.sinks_away, request.wait_ms / 1000)
            return pb.AwaitSinksResponse(away=self.sinks_away)

    def Detach(self, request: pb.DetachRequest, context: grpc.ServicerContext) -> pb.DetachResponse:
        with self._changed:
            self._admit(context)
            self.detached.append(request)
            known = self.positions.setdefault(request.pipeline.name, {})
            known.update({p.stream: p.position.sequence for p in request.committed})
            self._changed.notify_all()
        return pb.DetachResponse()

    def _admit(self, context: grpc.ServicerContext) -> None:
        self.metadata.append({str(k): str(v) for k, v in context.invocation_metadata()})
        if self.failure is not None:
            self._abort(context, *self.failure)

    def _abort(self, context: grpc.ServicerContext, code: grpc.StatusCode, details: str) -> NoReturn:
        if self.reason:
            context.set_trailing_metadata((("headrace-reason", self.reason),))
        context.abort(code, details)
        raise AssertionError("abort raises")

    def _ranges(self, request: pb.PlanRequest, known: dict[str, int]) -> list[pb.PlannedRange]:
        starts = {stream: start for stream, start in self.starts.items() if stream not in known}
        if starts:
            ends = {stream: frame_pb2.Position(sequence=start) for stream, start in sorted(starts.items())}
            return [pb.PlannedRange(stream=stream, end=end, start=True) for stream, end in ends.items()]
        left = request.max_messages if request.HasField("max_messages") else 1_000_000
        ranges = []
        for stream in sorted(self.streams):
            if not any(fnmatchcase(stream, pattern) for pattern in request.pipeline.streams):
                continue
            held = [pattern for table in request.bootstraps for pattern in table.held] if self.knows_tables else []
            if any(fnmatchcase(stream, pattern) for pattern in held):
                continue
            fresh = [m for m in self.streams[stream] if m.sequence > known.get(stream, -1)][:left]
            if request.HasField("max_bytes"):
                fresh = fresh[: max(1, request.max_bytes // 100)]
            if fresh:
                left -= len(fresh)
                size = sum(len(m.value or b"") + 20 for m in fresh)
                end = frame_pb2.Position(sequence=fresh[-1].sequence, cursor=str(fresh[-1].sequence).encode())
                over = request.tell_ends and stream in self.ended and fresh[-1] is self.streams[stream][-1]
                ranges.append(pb.PlannedRange(stream=stream, end=end, messages=len(fresh), bytes=size, ended=over))
            elif request.tell_ends and stream in known and stream in self.ended - self._ends[request.pipeline.name]:
                end = frame_pb2.Position(sequence=known[stream])
                ranges.append(pb.PlannedRange(stream=stream, end=end, ended=True))
        return ranges

    def _bootstrapped(self, request: pb.PlanRequest, known: dict[str, int], ranges: list[pb.PlannedRange]) -> Iterator[str]:
        """The tables whose streams are planned to their present end."""
        reached = known | {each.stream: each.end.sequence for each in ranges}
        for table in request.bootstraps:
            streams = [stream for stream in self.table_ends if any(fnmatchcase(stream, pattern) for pattern in table.streams)]
            if streams and all(reached.get(stream, 0) >= self.table_ends[stream] for stream in streams):
                yield table.table

    def _frames(self, stream: str, after: int, upto: int) -> Iterator[frame_pb2.Frame]:
        """Frames of ten messages, as a connector might have sent them: the first and the last reach beyond the range."""
        messages = self.streams[stream]
        for at in range(0, len(messages), FRAME_MESSAGES):
            part = messages[at : at + FRAME_MESSAGES]
            if part[-1].sequence > after and part[0].sequence <= upto:
                yield frame(part)
