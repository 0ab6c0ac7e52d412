"""The planted faults: what is changed, and in how many schedules of which profile the simulation must find it."""

from dataclasses import dataclass

from tests.simulation.planting import Change

from headrace.simulation.scale import LARGE, SMALL, Scale

CORE = "headrace.gateway.core"
SINKS = "headrace.gateway.core.sinks"
SERVICES = "headrace.gateway.services"
SDK = "headrace.sdk"
ENGINE = "headrace.engine"
MODEL = "headrace.simulation"


@dataclass(frozen=True)
class Fault:
    """A planted fault.

    Attributes:
        name: Its name.
        changes: The place of the change.
        profile: The profile whose schedules find it.
        within: How many schedules find it at the latest.
        scale: How large their worlds are: small, unless large ones find it in less time.
        first: The seed of the first of them: 1, unless too few schedules find the fault.
    """

    name: str
    changes: tuple[Change, ...]
    profile: str = "all"
    within: int = 30
    scale: Scale = SMALL
    first: int = 1

    @property
    def seeds(self) -> range:
        """The seeds of the schedules that find it."""
        return range(self.first, self.first + self.within)


def _fault(
    name: str,
    function: str,
    old: str,
    new: str,
    profile: str = "all",
    within: int = 30,
    scale: Scale = SMALL,
    first: int = 1,
) -> Fault:
    return Fault(name, (Change(function, old, new),), profile, within, scale, first)


GATEWAY = (
    _fault(
        "takes the first of several frames only",
        f"{SERVICES}.source:SourceService._take_several",
        "for frame, serialized in several:",
        "for frame, serialized in several[:1]:",
    ),
    _fault(
        "acknowledges what one of several readers has committed",
        f"{CORE}.streams.reconciling:committed_by_all",
        "return min(",
        "return max(",
        "pipelines",
    ),
    _fault(
        "acknowledges what is planned",
        f"{CORE}.streams.reconciling:committed_by_all",
        "p.position(stream.name).delivered) for",
        "max(p.position(stream.name), p.planned.get(stream.name, BEGINNING), key=lambda each: (each.epoch, each.sequence))) for",
    ),
    _fault(
        "drops a frame that is still needed",
        f"{CORE}.streams.stream:Stream.release",
        "done = bisect_right(self._ends, needed_after.sequence)",
        "done = min(len(self._ends), bisect_right(self._ends, needed_after.sequence) + 1)",
    ),
    _fault(
        "takes an epoch without messages for something to acknowledge",
        f"{CORE}.streams.stream:Stream.has_nothing_after",
        "return is_empty or position",
        "return position",
        "queue",
    ),
    _fault(
        "tells a source to resume one message too late",
        f"{CORE}.streams.reconciling:_open",
        "to_proto(stream.received)",
        "to_proto(Position(stream.received.epoch, stream.received.sequence + 1))",
        "cuts",
    ),
    _fault(
        "numbers epochs by the clock alone",
        f"{CORE}.streams.reconciling:_epoch_after",
        "now_us if now_us > newest else newest + 1 + int(uniform(0, _EPOCH_STEP))",
        "now_us",
        "queue",
        60,
    ),
    _fault(
        "never lets a source open a stream again",
        f"{CORE}.streams.reconciling:reconcile",
        "(_is_elsewhere(stream) or _is_loss_accepted(stream))",
        "False",
        "pipelines",
        60,
    ),
    _fault(
        "begins a stream where the farthest reader is",
        f"{CORE}.streams.reconciling:_floor",
        "max(min((",
        "max(max((",
        "pipelines",
        60,
    ),
    _fault(
        "keeps the credit of lost sessions",
        f"{CORE}.streams.credit:CreditPool.close",
        "self.used_bytes -= account.bytes_left",
        "pass",
        "cuts",
    ),
    _fault(
        "loses the credit of frames for a rejected stream",
        f"{CORE}.intake.intake:take_frame",
        "        _give_back(gateway, session, charge, count)\n        return",
        "        return",
        "pauses",
    ),
    _fault(
        "returns the size of a frame and not its charge",
        f"{CORE}.streams.stream:Stream.drop_frames",
        "frame.account.release(frame.charged,",
        "frame.account.release(frame.size,",
    ),
    _fault(
        "loses the credit of what is cut off a frame",
        f"{CORE}.intake.intake:_hold",
        "_give_back(gateway, session, charged - left, seen)",
        "pass",
        "cuts",
    ),
    _fault(
        "ends no pause",
        f"{CORE}.streams.pauses:Pauses.end",
        ".pop((kind, name), None) is not None",
        ".get((kind, name), None) is not None",
        "pauses",
    ),
    _fault(
        "charges no frame",
        f"{CORE}.intake.intake:take_frame",
        "session.account.charge(charge, count)\n    if not",
        "pass\n    if not",
    ),
    _fault(
        "takes what is planned for committed when a run attaches",
        f"{CORE}.batches.checkpoints:attach",
        "pipeline.take_checkpoint(committed, planned)",
        "pipeline.take_checkpoint({**committed, **planned}, {})",
        "cuts",
    ),
    _fault(
        "does not acknowledge what a run commits",
        f"{CORE}.batches.checkpoints:commit",
        "            pipeline.behind_since.pop(name, None)\n        reconcile(stream)",
        "            pipeline.behind_since.pop(name, None)",
    ),
    _fault(
        "plans one message too far",
        f"{CORE}.batches.planning:_take",
        "int(frame.sequences()[seen + part - 1])",
        "int(frame.sequences()[seen + part - 1]) + 1",
    ),
    _fault(
        "waits for a range of a past epoch",
        f"{CORE}.batches.reading:read",
        "gives_up or stream.is_over(end.epoch)",
        "gives_up",
        "queue",
    ),
    _fault(
        "serves a range from one frame too late",
        f"{CORE}.streams.stream:Stream.after",
        "self.frames[self._first_after(position) :]",
        "self.frames[self._first_after(position) + (len(self.frames) > 2) :]",
    ),
    _fault(
        "forgets that a call has ended",
        f"{SERVICES}.engine:EngineService.Plan",
        "pipeline.calls -= 1",
        "pass",
    ),
    _fault(
        "leaves a stream attached to a session that is over",
        f"{CORE}.state.gateway:Gateway.detach",
        "stream.leave()",
        "pass",
        "cuts",
    ),
)
SEVERAL_GATEWAYS = (
    _fault(
        "plans a run that returns from the positions that it remembers",
        f"{CORE}.batches.checkpoints:identify",
        "attachment > pipeline.attachment and pipeline.complete",
        "False",
        "gateways",
        20,
        first=416,
    ),
    _fault(
        "keeps an epoch below one that was read at another gateway",
        f"{CORE}.streams.reconciling:_is_elsewhere",
        "return any(at.epoch > stream.live_epoch for p in known for at in _positions(p, stream))",
        "return False",
        "gateways",
        100,
        scale=LARGE,
    ),
    _fault(
        "takes an epoch of another gateway for over",
        f"{CORE}.streams.epochs:Epochs.doubt",
        "_keep(self._doubts, epoch, Doubt())",
        "_keep(self._over, epoch, None)",
        "gateways",
        30,
    ),
    _fault(
        "ends no stream again for a query that comes after it was forgotten",
        f"{CORE}.intake.forgetting:end_again",
        "if name in gateway.was_gone and",
        "if False and",
        "gateways",
        first=200_021_320,
    ),
)
SINK_SIDE = (
    _fault(
        "counts an abort twice",
        f"{SINKS}.session:SinkSession.abort",
        'self.outcomes["aborted"] += 1',
        'self.outcomes["aborted"] += 2',
        "all",
        60,
    ),
    _fault(
        "counts a commit twice",
        f"{SINKS}.session:SinkSession.committed",
        'self.outcomes["committed"] += 1',
        'self.outcomes["committed"] += 2',
    ),
    _fault(
        "does not count sessions whose token is revoked",
        "headrace.gateway.core.state.gateway:Gateway.note_rejected",
        "self.rejected_sessions.get(error.status.name, 0) + 1",
        'self.rejected_sessions.get(error.status.name, 0) + (error.status.name != "UNAUTHENTICATED")',
    ),
    _fault(
        "commits at the vote",
        f"{SINKS}.commit_log:CommitLog.decision",
        "return Decision.ABORT if self.closed or (left_over and not is_kept) else Decision.OPEN",
        "return Decision.COMMIT if prepared else Decision.OPEN",
    ),
    _fault(
        "lets a sink vote though parts are missing",
        f"{CORE}.batches.delivering:_shares",
        "if not missing or sink.writes_at_once:",
        "if shares or sink.writes_at_once:",
        "sinks",
    ),
    _fault(
        "does not repeat a commit that has failed",
        f"{SINKS}.session:SinkSession.transaction_failed",
        "    self._told_to_commit.pop(transaction, None)\n    vote",
        "    vote",
        "sinks",
        60,
    ),
    _fault(
        "lets a commit log shrink",
        f"{CORE}.batches.runs:merged",
        "committed=max(reported.committed, earlier.committed)",
        "committed=reported.committed - (reported.committed > 0)",
        "all",
        60,
    ),
    _fault(
        "asks for no vote",
        f"{CORE}.batches.delivering:vote",
        "shares = await _shares(gateway, sink, transaction, parts, run_number)",
        "shares = {}",
    ),
    _fault(
        "prepares other parts than those that count",
        f"{SINKS}.session:SinkSession.vote",
        "for part in parts])",
        "for part in parts[1:] or parts])",
    ),
    _fault(
        "does not note what an instance has prepared",
        f"{SINKS}.session:SinkSession.prepared",
        "self.holdings.prepared.add(transaction)",
        "pass",
    ),
    _fault(
        "counts a vote twice",
        f"{SINKS}.votes:Votes.record",
        "self._open[key] = transaction.batch",
        "self._open[key] = transaction.batch + 1",
        "sinks",
    ),
    _fault(
        "attaches a run with an Attach that has arrived before",
        f"{CORE}.batches.checkpoints:check_not_late",
        "attachment == pipeline.attached_with",
        "False",
        "gateways",
        10,
        first=227,
    ),
    _fault(
        "knows a run from an Attach that another gateway has answered before",
        f"{CORE}.batches.checkpoints:check_follows",
        "follows > pipeline.plan_number",
        "False",
        "gateways",
        1,
        first=500_009_190,
    ),
    _fault(
        "judges by the late Hello of a killed sink what its successor holds",
        f"{SINKS}.votes:Votes._newly_lost",
        "if not session.heartbeat.proves_life:",
        "if False:",
        "queue",
        1,
        first=300_003_139,
    ),
)
SDKS = (
    _fault(
        "forgets what follows small frames in one message",
        f"{SDK}.sources.sender:Sender._next_joined",
        "self._following = following",
        "pass",
        "all",
        60,
    ),
    _fault(
        "sends more than its credit",
        f"{SDK}.sources.stream:Stream.frame",
        " + window.frame_overhead, stop - start)",
        ", stop - start)",
        "all",
        scale=LARGE,
    ),
    _fault(
        "settles all but the last message",
        f"{SDK}.sources.stream:Stream.acknowledge",
        "self._tokens[0][0] <= sequence",
        "self._tokens[0][0] < sequence",
        "queue",
    ),
    _fault(
        "settles more than is acknowledged",
        f"{SDK}.sources.stream:Stream.acknowledge",
        "while self._tokens and self._tokens[0][0] <= sequence:",
        "while self._tokens:",
        "queue",
    ),
    _fault(
        "reads from the beginning after a reconnect",
        f"{SDK}.sources.stream:Stream.opened",
        "return resume, acknowledged",
        "return None, acknowledged",
        "cuts",
        60,
    ),
    _fault(
        "forgets what it has sent",
        f"{SDK}.sources.stream:Stream._sent",
        "self._last_sent = sequences[stop - 1] if sequences else columns.last",
        "self._last_sent = None",
    ),
    _fault(
        "sends the last message of a frame twice",
        f"{SDK}.sources.stream:Stream._move_on",
        "self._at = stop",
        "self._at = stop - (stop > 2)",
    ),
    _fault(
        "votes before its parts are staged",
        f"{SDK}.sinks.two_phase:TwoPhaseHandler._completes",
        "return False",
        "return True",
        "sinks",
    ),
    _fault(
        "says that a transaction is committed before it is",
        f"{SDK}.sinks.two_phase:TwoPhaseHandler._carry_out",
        'if await self._completes(decision.transaction, "committing", self._sink.commit, decision.transaction):',
        "if True:",
    ),
    _fault(
        "stages a part that has not arrived whole",
        f"{SDK}.sinks.two_phase:_rows_on_loop",
        "yield rows",
        "yield rows\n        break",
    ),
    _fault(
        "writes what it has of an idempotent transaction",
        f"{SDK}.sinks.idempotent:IdempotentHandler._write",
        "held = [whole[part] for part in parts]",
        "held = [whole[part] for part in parts[:1]]",
        "sinks",
    ),
    _fault(
        "takes a failed write for a good one",
        f"{SDK}.sinks.in_order:AtLeastOnceHandler.rows",
        "await self._answers.part_failed(id_, writing.part, error)",
        "self._parts[id_] = writing\n        writing.messages += len(rows)",
        "sinks",
        first=81,
    ),
)
ENGINES = (
    _fault(
        "writes a commit entry without a vote",
        f"{MODEL}.driver:Driver._vote",
        "if not results or self._run is None:",
        "if True:",
    ),
    _fault(
        "reports a batch before its commit entry",
        f"{MODEL}.driver:Driver._report_commits",
        "committed=self._committed,",
        "committed=max(self._engine.checkpoint.offsets, default=None),",
    ),
    _fault(
        "attaches with the batch that is not committed",
        f"{MODEL}.planner:Planner.announce_replay",
        "await self._attach(begins, moved(end.taken_as_unread().streams, begins))",
        "await self._attach(end.streams, {})",
        "cuts",
    ),
    _fault(
        "takes messages of a frame that are before its range",
        f"{MODEL}.tasks:_Reading.take",
        "if wanted.low < message.sequence <= wanted.end.sequence:",
        "if message.sequence <= wanted.end.sequence:",
        "cuts",
    ),
    _fault(
        "reads again what it has read before a call broke",
        f"{MODEL}.tasks:_Reading.take",
        "if last is not None:",
        "if False:",
    ),
    _fault(
        "counts an attempt that has failed",
        f"{MODEL}.tasks:Tasks._attempt",
        "return Result(task.partition, tuple(rows), delivered)",
        "return Result(task.partition, (*rows, rows[0]), delivered)",
    ),
    _fault(
        "gives each attempt the same name",
        f"{MODEL}.tasks:Tasks._deliver",
        '{next(self._attempts)}"',
        '0"',
        first=61,
    ),
    _fault(
        "loses the end of a range",
        f"{ENGINE}.source.ranges:split",
        "lists[-1].append(whole.part(at, high))",
        "lists[-1].append(whole.part(at, max(at, high - 1)))",
    ),
    _fault(
        "does not send positions that have moved",
        f"{ENGINE}.checkpoint.position:moved",
        "if not _is_same(position, earlier.get(name))}",
        "if name not in earlier}",
    ),
)
TABLES = (
    _fault(
        "ignores that tables are read first",
        f"{ENGINE}.source.bootstraps:Bootstraps.pending",
        "if not table.parts <= done]",
        "if False]",
        "tables",
    ),
    _fault(
        "plans what waits for tables",
        f"{CORE}.pipelines.bootstrap:held",
        "name for name in waiting if",
        "name for name in () if",
        "tables",
    ),
    _fault(
        "takes a table that is there for one that was read",
        f"{CORE}.batches.bootstrapping:missing",
        "if not has_read(pipeline, stream):",
        "if False:",
        "tables",
    ),
    _fault(
        "takes what has arrived of a table for all of it",
        f"{CORE}.batches.available_now:_target",
        "return max(stream.received, Position(stream.live_epoch, latest))",
        "return stream.received",
        "tables",
        60,
    ),
    _fault(
        "never keeps that a table was read",
        f"{ENGINE}.source.bootstraps:Bootstraps.done",
        " | self._ready",
        "",
        "tables",
        2,
    ),
)
FEEDS = (
    _fault(
        "keeps the cursor of a range that was given up",
        f"{ENGINE}.checkpoint.position:Position.taken_as_unread",
        "begin = self.begin\n",
        "begin = replace(self, begin=None)\n",
        "feeds",
        5,
    ),
    _fault(
        "acknowledges what is not confirmed as read",
        "headrace.contract.position:Position.delivered",
        "if self.begin is None",
        "if self.epoch >= 0",
        "feeds",
        5,
        first=240,
    ),
    _fault(
        "takes any place of a feed for one that was read",
        f"{CORE}.streams.stream:Stream.covers",
        'return self.start.sequence == 0 and self.base <= (position.cursor or b"")',
        "return True",
        "feeds",
        40,
    ),
    _fault(
        "opens a feed after the latest cursor",
        f"{CORE}.streams.reconciling:_resume",
        "min(places",
        "max(places",
        "feeds",
        5,
    ),
    _fault(
        "never records that a batch was read",
        f"{ENGINE}.source.confirmation:Confirmation.is_due",
        "return self._monotonic() - self._since >= CONFIRM_AFTER_S",
        "return False",
        "feeds",
        5,
    ),
)
FAULTS = (*GATEWAY, *SEVERAL_GATEWAYS, *SINK_SIDE, *SDKS, *ENGINES, *TABLES, *FEEDS)
