"""What must be true of the gateway and the SDK at rest: everything is returned, and nothing is held."""

from collections.abc import Iterator, Mapping, Sequence

from headrace.gateway.core import Gateway, Kind, Problem, problems
from headrace.protocol.v1.admin_pb2 import GetStatusResponse
from headrace.simulation.checkpoint import Checkpoint
from headrace.simulation.record import Record, Violation
from headrace.simulation.systems import Feed, Log, Storage

THRESHOLD_MS = 60_000
"""After how long the status takes something for stuck or slow."""
OFTEN, LATELY_S = 5, 60.0
"""A connector that starts this often within this time, in seconds, connects again and again."""


def violations(gateway: Gateway, storages: Sequence[Storage], *, repeats: bool) -> Iterator[Violation]:
    """Yields what is not at rest; with `repeats`, calls may arrive again at any time."""
    yield from _streams(gateway)
    yield from _credit(gateway)
    yield from _pipelines(gateway, repeats=repeats)
    yield from _sinks(gateway)
    for storage in storages:
        if storage.prepared:
            yield Violation("leftover", f"{storage.instance} has prepared {list(storage.prepared)}")
        if storage.staged:
            yield Violation("leftover", f"{storage.instance} has staged {list(storage.staged)}")


def passive_violations(gateways: Sequence[Gateway]) -> Iterator[Violation]:
    """Yields what is not at rest at gateways to which nothing is connected. They may hold what a run that was there needs."""
    for gateway in gateways:
        if gateway.sessions or gateway.sink_sessions:
            yield Violation("rest", f"sessions at a gateway that nobody reaches: {[*gateway.sessions, *gateway.sink_sessions]}")
        yield from _pool(gateway)


def _streams(gateway: Gateway) -> Iterator[Violation]:
    for stream in gateway.streams.values():
        if stream.frames or stream.held_bytes or stream.held_messages:
            yield Violation("held", f"{stream.name}: {len(stream.frames)} frames, {stream.held_bytes} bytes")


def _credit(gateway: Gateway) -> Iterator[Violation]:
    pool = gateway.credit
    for session in gateway.sessions.values():
        account = session.account
        if account.bytes_held or account.messages_held:
            yield Violation("credit", f"{session.instance} holds {account.bytes_held} bytes, {account.messages_held} messages")
    yield from _pool(gateway)
    if pool.held_back.bytes_held or pool.held_back.messages_held:
        yield Violation("credit", f"{pool.held_back.bytes_held} bytes are held back")


def _pool(gateway: Gateway) -> Iterator[Violation]:
    pool = gateway.credit
    accounts = [*pool.accounts, pool.held_back]
    used = sum(account.bytes_left + account.bytes_held for account in accounts)
    for stream in gateway.streams.values():
        # A gateway that was left keeps what its sources have sent, of sessions that are over, for queries that may return.
        used += sum(frame.charged for frame in stream.frames if frame.account is not None and frame.account not in accounts)
    if pool.used_bytes != used:
        yield Violation("credit", f"the pool counts {pool.used_bytes} bytes, and the accounts {used}")
    if len(pool.accounts) != len(gateway.sessions):
        yield Violation("credit", f"{len(pool.accounts)} accounts, {len(gateway.sessions)} sessions")


def _pipelines(gateway: Gateway, *, repeats: bool) -> Iterator[Violation]:
    for pipeline in gateway.pipelines.values():
        if +pipeline.reading or (pipeline.calls > 1 and not repeats):
            yield Violation("rest", f"{pipeline.name} reads {+pipeline.reading} in {pipeline.calls} calls")
        if pipeline.planned:
            yield Violation("rest", f"{pipeline.name} has planned {pipeline.planned}")


def _sinks(gateway: Gateway) -> Iterator[Violation]:
    for sink in gateway.sinks.values():
        if sink.voting:
            yield Violation("rest", f"{sink.name} votes for {sink.voting}")
        for session in sink.sessions.values():
            if session.open or session.votes:
                yield Violation("rest", f"{session.instance} has open {session.open}, and votes for {session.votes}")


def _is_true(problem: Problem, logs: Mapping[str, Log | Feed], record: Record) -> bool:
    """Returns whether a problem that the status names at rest is what has happened.

    A report that was under way for longer than a reconnect takes makes an error look younger than its session: the connector must
    have met this error, or another one has the stream. A partition that ends while its gateway restarts and its connector is
    paused is offered no more, and the gateway has not learned of its end: it must have ended. Nor does a gateway learn of
    ends that a source sends just before it exits, if it takes longer to read them than the source waits. A source that has ended
    is started again, and ends at once, as long as another stream is not done.
    """
    if problem.kind == Kind.CONNECTOR_REPORTS:
        return any(said in problem.cause for said in (*record.said, "is owned by instance", "was closed by instance"))
    kind, _, name = problem.part.partition(" ")
    if problem.kind == Kind.CONNECTOR_RECONNECTS:
        return max(record.started_lately(role, LATELY_S) for role in (name, name.rpartition("-")[0])) >= OFTEN
    if problem.kind in (Kind.NOT_SENT, Kind.CONNECTOR_AWAY) and kind == "stream":
        source, _, partition = name.partition("/")
        return source in logs and partition in logs[source].ended
    if problem.kind == Kind.CONNECTOR_AWAY and kind == "connector":
        log = logs.get(name.rpartition("-")[0])
        return log is not None and log.ended >= log.messages.keys()
    return False


def status_violations(
    status: GetStatusResponse,
    checkpoints: Sequence[Checkpoint],
    logs: Mapping[str, Log | Feed],
    record: Record,
    *,
    has_jumped: bool,
) -> Iterator[Violation]:
    """Yields where the status of a gateway at rest differs from what has happened."""
    for problem in problems(status, THRESHOLD_MS, THRESHOLD_MS):
        if (problem.kind == Kind.CLOCK_JUMPED and has_jumped) or _is_true(problem, logs, record):
            continue
        yield Violation("status", f"{problem.part} is said to be degraded: {problem.kind}: {problem.cause}")
    if status.gateway.buffered_messages or status.gateway.buffered_bytes:
        yield Violation("status", f"{status.gateway.buffered_messages} messages are said to be buffered")
    for stream in status.streams:
        if stream.lag_messages:
            yield Violation("status", f"{stream.stream} is said to have {stream.lag_messages} messages that are not committed")
        if stream.holders:
            names = [holder.pipeline for holder in stream.holders]
            yield Violation("status", f"{stream.stream}: {names} are said to hold back acknowledgements")
    known = {pipeline.pipeline: pipeline for pipeline in status.pipelines}
    for checkpoint in checkpoints:
        told = known.get(checkpoint.pipeline)
        if told is None or not told.attached:
            yield Violation("status", f"{checkpoint.pipeline} is said to be away")
        elif checkpoint.last is not None:
            committed = {each.stream: (each.position.epoch, each.position.sequence) for each in told.committed}
            stored = {name: (at.epoch, at.sequence) for name, at in checkpoint.offsets[checkpoint.last].streams.items()}
            if committed != stored:
                yield Violation("status", f"{checkpoint.pipeline} is said to have committed {committed}, and has {stored}")
    for sink in status.sinks:
        if sink.open_parts or sink.pending_transactions or sink.away or sink.lost:
            yield Violation("status", f"{sink.sink}: {sink.open_parts} open, {sink.pending_transactions} pending, {sink.lost}")
