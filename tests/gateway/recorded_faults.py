"""Faults that are made at a gateway which is recorded, and repaired: one or more of each kind that health names."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.gateway.recorder import RUNNING, WAITING, Recorded
from tests.gateway.sink_wire import TWO_PHASE, Writer, stage_and_vote
from tests.gateway.test_supervising import Supervisor
from tests.gateway.wire import Connector, Engine, numbered

from headrace.gateway.config import StreamRule
from headrace.gateway.core import Kind
from headrace.gateway.core.batches import declare
from headrace.gateway.own_faults import OwnFaultKind
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1 import connector_pb2, sink_pb2, source_pb2
from headrace.protocol.v1.metrics_pb2 import RUN_FAULT_KIND_BATCH_FAILED, RUN_FAULT_KIND_EXECUTORS_LOST, RunFault


@dataclass
class Made:
    """A gateway that is recorded, and who else calls it because of a fault."""

    recorded: Recorded
    supervisors: list[Supervisor] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)
    """Clients to close."""

    async def close(self) -> None:
        for one in (*self.supervisors, *self.others):
            await one.close()

    async def supervisor(self, **hello: Any) -> Supervisor:
        made = Supervisor(self.recorded.address)
        self.supervisors.append(made)
        await made.send(hello=pb.SuperviseHello(deployment="deploy.toml", run="r1", **hello))
        assert (await made.read()).HasField("welcome")
        return made

    async def process(
        self, log_fault: str = "", state: pb.ProcessStateKind.ValueType = pb.PROCESS_STATE_KIND_RUNS, reason: str = ""
    ) -> None:
        """Has a supervisor tell of the process of the query, and waits until the gateway knows."""
        process = pb.ProcessState(name="app", kind=pb.PROCESS_KIND_APPLICATION, pipelines=["p"], reads=["orders/*"])
        process.MergeFrom(pb.ProcessState(state=state, log_fault=log_fault, reason=reason))
        told = pb.SupervisedProcesses(processes=[process])
        if self.supervisors:
            await self.supervisors[0].send(processes=told)
        else:
            # It reports once, and so is not missed if it reports no more.
            await self.supervisor(processes=told)
        await self.once(
            lambda status: (
                [(one.log_fault, one.state) for of in status.deployments for one in of.processes] == [(log_fault, state)]
            )
        )

    async def once(self, holds: Callable[[pb.GetStatusResponse], bool]) -> None:
        await self.recorded.query.status_once(holds)

    async def source_is(self, state: connector_pb2.ConnectorState.ValueType) -> None:
        await self.recorded.source.send(report=connector_pb2.Report(state=state, reason="no broker"))
        await self.once(lambda status: [one.reported.state for one in status.sessions] == [state])

    async def stream_is(self, state: pb.StreamState.ValueType) -> None:
        await self.once(lambda status: [one.state for one in status.streams] == [state])

    async def receive_more(self) -> None:
        """Has the source send three more messages, which the query plans and has yet to commit."""
        await self.recorded.source.send(frame=numbered(1, 4, 3))
        await self.recorded.query.plan_until("orders/0", 6)

    async def commit_more(self) -> None:
        await self.recorded.query.plan({"orders/0": 6}, wait_ms=0)

    def limits(self, **changed: Any) -> None:
        gateway = self.recorded.gateway
        gateway.limits = gateway.limits.model_copy(update=changed)


# The gateway


async def own_faults(made: Made) -> None:
    for kind in OwnFaultKind:
        made.recorded.gateway.own_faults.note(f"file {kind}", kind, "it is wrong", "correct it")


async def no_own_faults(made: Made) -> None:
    for kind in OwnFaultKind:
        made.recorded.gateway.own_faults.end(f"file {kind}", kind)


async def gateway_drains(made: Made) -> None:
    made.recorded.gateway.begin_to_drain(3_600_000)
    await made.once(lambda status: status.gateway.draining)


async def gateway_ends(made: Made) -> None:
    made.recorded.is_stopped = True


async def clock_jumps(made: Made) -> None:
    """Somebody sets the clock again and again: of one jump, nothing is left after a minute."""
    ahead_s = 0.0

    async def jump() -> None:
        nonlocal ahead_s
        ahead_s += 10.0
        made.recorded.clock.set(ahead_s=ahead_s)
        made.recorded.gateway.clock_jumps.check()

    made.recorded.each = jump


async def clock_is_right(made: Made) -> None:
    made.recorded.each = None
    made.recorded.clock.set(ahead_s=0.0)


async def nothing_is_connected(made: Made) -> None:
    await made.recorded.lose_source()


async def something_is_connected(made: Made) -> None:
    made.recorded.source = Connector(made.recorded.address)
    await made.recorded.source.hello()


# Sources and their streams


async def source_leaves(made: Made) -> None:
    await made.recorded.lose_source()


async def source_is_back(made: Made) -> None:
    await made.recorded.open_source()


async def source_finds_no_room(made: Made) -> None:
    made.limits(max_sessions=2)
    await made.recorded.lose_source()
    other = Connector(made.recorded.address)
    made.others.append(other)
    await other.hello("other-0")

    async def try_again() -> None:
        refused = Connector(made.recorded.address)
        await refused.send(hello=source_pb2.Hello(protocol_version=1, connector="test", instance="test-0"))
        await refused.ended()
        await refused.close()

    made.recorded.each = try_again


async def source_finds_room(made: Made) -> None:
    made.recorded.each = None
    made.limits(max_sessions=3)
    await made.recorded.open_source()


async def source_reconnects(made: Made) -> None:
    async def again() -> None:
        for _ in range(3):
            await made.recorded.lose_source()
            await made.recorded.open_source()

    await again()
    made.recorded.each = again


async def source_stands(made: Made) -> None:
    made.recorded.each = None


async def source_falls_silent(made: Made) -> None:
    await made.recorded.lose_source()
    await made.recorded.open_source(capabilities=[source_pb2.CAPABILITY_HEARTBEAT])


async def source_is_heard(made: Made) -> None:
    made.recorded.each = partial(_beat, made)


async def _beat(made: Made) -> None:
    await made.recorded.source.send(report=connector_pb2.Report(state=RUNNING))
    await made.once(lambda status: not any(one.HasField("silent_ms") for one in status.sessions))


async def broker_stopped(made: Made) -> None:
    await made.source_is(WAITING)


async def broker_back(made: Made) -> None:
    await made.source_is(RUNNING)


async def connector_fails(made: Made) -> None:
    listed = pb.SupervisedConnector(name="orders", instance="test-0", source="orders", failure="exit code 1: no such topic")
    await made.supervisor(connectors=pb.SupervisedConnectors(connectors=[listed]))
    await made.recorded.lose_source()


async def connector_runs(made: Made) -> None:
    await made.recorded.open_source()
    listed = pb.SupervisedConnector(name="orders", instance="test-0", source="orders")
    await made.supervisors[0].send(connectors=pb.SupervisedConnectors(connectors=[listed]))
    await made.once(lambda status: not status.deployments[0].connectors[0].failure)


async def stream_closed(made: Made) -> None:
    await made.recorded.source.send(close_stream=source_pb2.CloseStream(stream_id=1))
    await made.stream_is(pb.STREAM_STATE_DETACHED)


async def stream_open(made: Made) -> None:
    await made.recorded.source.open(stream_id=2)
    await made.stream_is(pb.STREAM_STATE_LIVE)


async def stream_stalls(made: Made) -> None:
    await made.recorded.source.send(backlog=source_pb2.Backlog(stream_id=1, latest_sequence=6, messages=3))
    await made.once(lambda status: status.streams[0].lag_messages > 0)


async def stream_goes_on(made: Made) -> None:
    await made.receive_more()
    await made.recorded.source.send(backlog=source_pb2.Backlog(stream_id=1, latest_sequence=6, messages=0))
    await made.commit_more()
    await made.once(lambda status: status.streams[0].lag_messages == 0)


async def position_lost(made: Made) -> None:
    lost = source_pb2.PositionLost(stream_id=1, earliest_sequence=9, reason="pruned")
    await made.recorded.source.send(position_lost=lost)
    await made.recorded.source.open(stream_id=2)
    await made.stream_is(pb.STREAM_STATE_LOST)


async def position_skipped(made: Made) -> None:
    await made.recorded.new_run(2, committed=8)
    await made.stream_is(pb.STREAM_STATE_LIVE)


async def stream_unread(made: Made) -> None:
    other = Connector(made.recorded.address)
    made.others.insert(0, other)
    await other.hello("other-0")
    await other.open("payments/0")
    await made.once(lambda status: len(status.streams) == 2)


async def stream_withdrawn(made: Made) -> None:
    await made.others[0].close()
    await made.once(lambda status: len(status.streams) == 1)


async def source_never_started(made: Made) -> None:
    await _read_also(made, "payments/*")


async def source_started(made: Made) -> None:
    await stream_unread(made)


async def pattern_wrong(made: Made) -> None:
    await _read_also(made, "orders/eu")


async def stream_of_the_pattern(made: Made) -> None:
    await made.recorded.source.open("orders/eu", stream_id=2)
    await made.once(lambda status: len(status.streams) == 2)


async def _read_also(made: Made, streams: str) -> None:
    query = Engine(made.recorded.address, "q", streams=streams)
    made.others.append(query)
    await query.attach()


# Sinks


async def two_phase(made: Made) -> None:
    """Before the fault: the sink takes part in a two-phase commit, and has committed batch 0."""
    await made.recorded.lose_sink()
    await made.recorded.open_sink(TWO_PHASE)
    await stage_and_vote(made.recorded.sink, made.recorded.writer, 0)
    made.recorded.committed = await _committed(made, 0)


async def _committed(made: Made, batch: int) -> int:
    await made.recorded.writer.report_commits(batch)
    await made.recorded.sink.commit()
    await made.once(lambda status: [one.batch for one in status.sinks[0].committed] == [batch])
    return batch


async def sink_leaves(made: Made) -> None:
    await made.recorded.lose_sink()


async def sink_is_back(made: Made) -> None:
    await made.recorded.open_sink()


async def receiver_refuses(made: Made) -> None:
    await made.recorded.sink_is(WAITING, "Cannot connect to host 192.0.2.1:80")


async def receiver_answers(made: Made) -> None:
    await made.recorded.sink_is(RUNNING)


async def sink_fails(made: Made) -> None:
    delivery = made.recorded.writer.deliver(0)
    part_id = await _part(made)
    await made.recorded.sink.send(failed=sink_pb2.Failed(part_id=part_id, reason="no space left on device"))
    failure = await _failure_of(delivery)
    assert "no space left on device" in str(failure)


async def _failure_of(delivery: Awaitable[object]) -> Exception | None:
    try:
        await delivery
    except Exception as error:
        return error
    return None


async def _part(made: Made) -> int:
    """Receives a part up to its end; returns its id."""
    while (message := await made.recorded.sink.receive()).WhichOneof("message") != "end_part":
        pass
    found: int = message.end_part.id
    return found


async def sink_writes(made: Made) -> None:
    delivery = made.recorded.writer.deliver(0, attempt="b")
    await made.recorded.sink.send(staged=sink_pb2.Staged(id=await _part(made)))
    await delivery


async def sink_hangs(made: Made) -> None:
    delivery = made.recorded.writer.deliver(0)
    part_id = await _part(made)

    async def answer() -> None:
        await made.recorded.sink.send(staged=sink_pb2.Staged(id=part_id))
        await delivery

    made.others.append(_Closing(answer))


@dataclass
class _Closing:
    """An answer that a sink owes until somebody closes this."""

    answer: Callable[[], Awaitable[None]]
    is_closed: bool = False

    async def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            await self.answer()


async def sink_answers(made: Made) -> None:
    await made.others[0].close()


async def vote_lost(made: Made) -> None:
    await made.recorded.lose_sink()
    await made.recorded.open_sink(TWO_PHASE)
    await made.once(lambda status: bool(status.sinks[0].lost))


async def loss_accepted(made: Made) -> None:
    await made.recorded.writer.report_commits(0, accept_lost=True)


# Queries


async def batch_fails(made: Made) -> None:
    fault = RunFault(kind=RUN_FAULT_KIND_BATCH_FAILED, batch=0, message="step sum: ValueError: no price")
    await made.recorded.writer.report_commits(fault=fault)


async def batch_commits(made: Made) -> None:
    await made.recorded.writer.report_commits(0)


async def executors_lost(made: Made) -> None:
    made.recorded.told = RunFault(kind=RUN_FAULT_KIND_EXECUTORS_LOST, message="executor 1 was lost: it was killed")


async def executors_back(made: Made) -> None:
    made.recorded.told = None


async def driver_freezes(made: Made) -> None:
    """Its planner renews the lease by itself."""
    made.recorded.driver_reports = False
    made.recorded.each = made.recorded.query.renew


async def driver_thaws(made: Made) -> None:
    made.recorded.driver_reports, made.recorded.each = True, None


async def second_driver(made: Made) -> None:
    older = Writer(made.recorded.address, "r0", readers=["p"], number=1, pipeline="p")
    made.others.append(older)
    made.recorded.each = partial(older.report_commits, replaced=True)


async def one_driver(made: Made) -> None:
    made.recorded.each = None


async def commit_log_hangs(made: Made) -> None:
    await made.receive_more()
    await stage_and_vote(made.recorded.sink, made.recorded.writer, 1)


async def commit_log_writes(made: Made) -> None:
    made.recorded.committed = await _committed(made, 1)
    await made.commit_more()


async def batch_stuck(made: Made) -> None:
    await made.receive_more()


async def batch_goes_on(made: Made) -> None:
    await made.commit_more()


async def another_query_awaited(made: Made) -> None:
    declare(made.recorded.gateway, [StreamRule(pattern="orders/*", pipelines=("q",))])
    await made.receive_more()
    await made.commit_more()
    await made.once(lambda status: any(one.pipeline == "q" for one in status.streams[0].holders))


async def another_query_attached(made: Made) -> None:
    another = Engine(made.recorded.address, "q")
    made.others.append(another)
    await another.attach({"orders/0": 6})


async def query_stops(made: Made) -> None:
    await made.receive_more()
    made.recorded.driver_reports = False
    await made.recorded.writer.report_commits(stopped=True)
    await made.recorded.query.detach()


async def query_starts(made: Made) -> None:
    await made.recorded.new_run(2, committed=6)
    made.recorded.driver_reports = True


async def application_ends(made: Made) -> None:
    await made.process(state=pb.PROCESS_STATE_KIND_ENDED)
    await query_stops(made)


async def application_starts(made: Made) -> None:
    await made.process()
    await query_starts(made)


async def query_is_killed(made: Made) -> None:
    await made.receive_more()
    made.recorded.driver_reports = False
    made.limits(query_lease_seconds=5)


async def query_is_started_again(made: Made) -> None:
    made.limits(query_lease_seconds=86400)
    await query_starts(made)


# Deployments


async def full_log(made: Made) -> None:
    await made.process("run/app.log: No space left on device")


async def log_with_room(made: Made) -> None:
    await made.process()


async def file_invalid(made: Made) -> None:
    told = pb.SupervisedProcesses(file_fault="deploy.toml:3: nonsense: unknown key", file_fault_age_ms=0)
    await made.supervisor(processes=told)
    await made.once(lambda status: [bool(one.file_fault) for one in status.deployments] == [True])


async def file_valid(made: Made) -> None:
    await made.supervisors[0].send(processes=pb.SupervisedProcesses())
    await made.once(lambda status: [bool(one.file_fault) for one in status.deployments] == [False])


@dataclass(frozen=True)
class Fault:
    """A fault, and what health names.

    Attributes:
        begin: Makes it.
        end: Repairs it.
        root: The part where it begins.
        kinds: The kinds of its problems.
        is_of_the_flow: Whether it delays data.
        prepare: What must be so before, if all is not as usual.
        recording: How the recording differs from the usual one.
        expected: How what fires differs from the usual, as `recorder.expected` takes it.
    """

    begin: Callable[[Made], Awaitable[None]]
    end: Callable[[Made], Awaitable[None]]
    root: str
    kinds: frozenset[str]
    is_of_the_flow: bool = True
    prepare: Callable[[Made], Awaitable[None]] | None = None
    recording: Mapping[str, Any] = field(default_factory=dict)
    expected: Mapping[str, Any] = field(default_factory=dict)


def of(
    kind: Kind, root: str, begin: Callable[[Made], Awaitable[None]], end: Callable[[Made], Awaitable[None]], **more: Any
) -> Fault:
    return Fault(begin, end, root, frozenset({kind}), **more)


CONNECTOR, STREAM, SINK, PIPELINE = "connector test-0", "stream orders/0", "sink out", "pipeline p"
LOG = "log of process app of deploy.toml"
LOSS = ("HeadraceMessagesLost",)
RESTARTS = ("HeadraceConnectorRestarts",)
OWN = Fault(
    own_faults,
    no_own_faults,
    f"file {OwnFaultKind.GATEWAY_FAILS}",
    frozenset(str(kind) for kind in OwnFaultKind),
    is_of_the_flow=False,
)
FAULTS = (
    OWN,
    of(Kind.STOPPING, "gateway", gateway_drains, gateway_ends, is_of_the_flow=False),
    of(Kind.CLOCK_JUMPED, "gateway", clock_jumps, clock_is_right, is_of_the_flow=False),
    of(
        Kind.NOT_CONNECTED,
        "gateway",
        nothing_is_connected,
        something_is_connected,
        is_of_the_flow=False,
        recording={"is_empty": True},
    ),
    of(Kind.CONNECTOR_AWAY, CONNECTOR, source_leaves, source_is_back),
    of(Kind.REFUSED, CONNECTOR, source_finds_no_room, source_finds_room),
    of(Kind.CONNECTOR_RECONNECTS, CONNECTOR, source_reconnects, source_stands, expected={"during": RESTARTS, "after": RESTARTS}),
    of(Kind.CONNECTOR_SILENT, CONNECTOR, source_falls_silent, source_is_heard),
    of(Kind.CONNECTOR_REPORTS, CONNECTOR, broker_stopped, broker_back),
    of(Kind.CONNECTOR_FAILS, CONNECTOR, connector_fails, connector_runs),
    of(Kind.NOT_SENT, STREAM, stream_closed, stream_open),
    of(Kind.CONNECTOR_AWAY, "source payments", source_never_started, source_started, expected={"late_s": 15}),
    of(Kind.NOT_SENT, "pipeline q", pattern_wrong, stream_of_the_pattern, expected={"late_s": 15}),
    of(Kind.SOURCE_STALLED, STREAM, stream_stalls, stream_goes_on),
    of(Kind.POSITION_LOST, STREAM, position_lost, position_skipped),
    of(Kind.NOT_READ, "stream payments/0", stream_unread, stream_withdrawn),
    of(Kind.SINK_AWAY, SINK, sink_leaves, sink_is_back),
    of(Kind.CONNECTOR_REPORTS, "connector i of sink out", receiver_refuses, receiver_answers),
    of(Kind.SINK_FAILS, SINK, sink_fails, sink_writes),
    of(Kind.SINK_SLOW, SINK, sink_hangs, sink_answers),
    of(Kind.SINK_LOST, SINK, vote_lost, loss_accepted, prepare=two_phase, expected={"during": LOSS, "after": LOSS}),
    of(Kind.PIPELINE_FAILS, PIPELINE, batch_fails, batch_commits),
    of(Kind.EXECUTOR_LOST, PIPELINE, executors_lost, executors_back),
    of(Kind.PIPELINE_SILENT, PIPELINE, driver_freezes, driver_thaws),
    of(Kind.SECOND_DRIVER, PIPELINE, second_driver, one_driver, expected={"clears_s": 60}),
    of(Kind.COMMIT_SLOW, PIPELINE, commit_log_hangs, commit_log_writes, prepare=two_phase),
    of(Kind.BATCH_STUCK, PIPELINE, batch_stuck, batch_goes_on, recording={"stuck_after_seconds": 10}),
    of(Kind.PIPELINE_AWAITED, "pipeline q", another_query_awaited, another_query_attached),
    of(Kind.PIPELINE_DETACHED, PIPELINE, query_stops, query_starts),
    of(Kind.PIPELINE_ENDED, PIPELINE, application_ends, application_starts),
    of(Kind.PIPELINE_AWAY, PIPELINE, query_is_killed, query_is_started_again, expected={"late_s": 15}),
    of(Kind.LOG_FAILS, LOG, full_log, log_with_room, is_of_the_flow=False),
    of(Kind.CONFIGURATION_INVALID, "deployment deploy.toml", file_invalid, file_valid, is_of_the_flow=False),
)
