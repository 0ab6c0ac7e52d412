"""What must hold while a schedule runs, and what must be true in the end.

A row is the value of a message with its epoch and its sequence: `stream|text|epoch|sequence`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from headrace.engine.checkpoint.position import Offset
from headrace.sdk import Transaction
from headrace.simulation.checkpoint import Checkpoint, Commit
from headrace.simulation.record import Record
from headrace.simulation.schedule import AT_LEAST_ONCE, IDEMPOTENT, TWO_PHASE, QueryPlan, Schedule
from headrace.simulation.systems import Feed, Log, Queue, Storage


class Oracle:
    """Judges a schedule."""

    def __init__(
        self,
        schedule: Schedule,
        record: Record,
        logs: Mapping[str, Log],
        queues: Mapping[str, Queue],
        feeds: Mapping[str, Feed],
        storages: Sequence[Storage],
        checkpoints: Mapping[str, Checkpoint],
    ) -> None:
        self._schedule = schedule
        self._record = record
        self._logs = logs
        self._queues = queues
        self._feeds = feeds
        self._storages = storages
        self._checkpoints = checkpoints
        self._modes = {plan.name: plan.mode for plan in schedule.sinks}
        self._reached: dict[tuple[str, str], int] = {}
        """The last committed sequence of each query and stream of a log."""
        self._places: dict[tuple[str, str], tuple[int, int]] = {}
        """The last committed epoch and sequence of each query and stream of a queue."""
        self._changes: dict[tuple[str, str], int] = {}
        """Up to which change each query has committed each stream of a feed without a gap."""
        self._last_changes: dict[tuple[str, str], tuple[str, int]] = {}
        """The last committed change of each query and stream of a feed: by which run, of which reading, and its number."""
        self._covered: dict[str, set[str]] = {query.name: set() for query in schedule.queries}
        """The messages of queues that each query has committed."""
        self._present = {log.name: {partition: log.last(partition) for partition in log.messages} for log in logs.values()}
        """The last sequence that each partition of a log has before anything runs."""
        self.is_done = False
        """Whether everything is as it must be in the end."""

    # While it runs.

    def acknowledged(self, log: Log, partition: str, sequence: int) -> None:
        """A source has received an acknowledgement: each query that reads it must have committed that."""
        stream = f"{log.name}/{partition}"
        self._record.counts["progress"] += 1
        self._record.log(f"{log.name} learns that {stream} is acknowledged up to {sequence}")
        for query in self._schedule.readers(log.name):
            reached = self._reached.get((query, stream), -1)
            if any(reached < entry.sequence <= sequence for entry in log.messages[partition]):
                self._record.violation("early-ack", f"{stream} up to {sequence}, but {query} has committed {reached}")

    def settled(self, queue: Queue, id_: str) -> None:
        """A message is acknowledged to its broker."""
        self._record.counts["progress"] += 1
        for query in self._schedule.readers(queue.name):
            if id_ not in self._covered[query]:
                self._record.violation("early-ack", f"{id_} is settled, but {query} has not committed it")

    def released(self, feed: Feed, partition: str, cursor: int) -> None:
        """A feed has received an acknowledgement: each query that reads it must have committed that."""
        stream = f"{feed.name}/{partition}"
        self._record.counts["progress"] += 1
        self._record.log(f"{feed.name} learns that {stream} is acknowledged up to change {cursor}")
        for query in self._schedule.readers(feed.name):
            reached = self._changes.get((query, stream), 0)
            if reached < cursor:
                self._record.violation("early-ack", f"{stream} up to change {cursor}, but {query} has committed {reached}")

    def planned(self, query: QueryPlan, start: Offset, end: Offset) -> None:
        """A micro-batch is planned: it has messages of what waits for tables only if they were read to their present end."""
        reached = {name: (position.epoch, position.sequence) for name, position in start.streams.items()}
        unread = [
            f"{table}/{partition} is not read up to {last}"
            for table in query.tables
            for partition, last in self._present[table].items()
            if reached.get(f"{table}/{partition}", (0, -1)) < (0, last)
        ]
        for stream, position in end.streams.items() if unread else ():
            has_messages = not position.start and (position.epoch, position.sequence) > reached.get(stream, (0, -1))
            if has_messages and stream.partition("/")[0] in query.waiting:
                self._record.violation("early-plan", f"{query.name} reads {stream}, and {', '.join(unread)}")

    def committed(self, checkpoint: Checkpoint, batch: int, commit: Commit) -> None:
        """A commit entry is written: each stream must continue where the last batch has ended."""
        checkpoint.commits[batch] = commit
        self._record.counts["commits"] += 1
        self._record.counts["progress"] += 1
        self._record.counts["rows"] += len(commit.rows)
        for row in commit.rows:
            stream, _, rest = row.decode().partition("|")
            epoch, sequence = map(int, rest.split("|")[-2:])
            where = f"{checkpoint.query}, batch {batch}: {stream}"
            if stream.partition("/")[0] in self._queues:
                self._covered[checkpoint.query].add(row.decode().rsplit("|", 2)[0])
                self._check_order(checkpoint.query, stream, (epoch, sequence), where)
            elif stream.partition("/")[0] in self._feeds:
                self._check_change(checkpoint.query, commit.run, stream, epoch, rest, where)
            else:
                if int(rest.partition("|")[0]) != sequence:
                    self._record.violation("sequence", f"{where}: {row!r}")
                self._check_next(checkpoint.query, stream, sequence, where)

    def _check_order(self, query: str, stream: str, place: tuple[int, int], where: str) -> None:
        before = self._places.get((query, stream), (0, -1))
        if place <= before:
            self._record.violation("order", f"{where}: {place} after {before}")
        self._places[query, stream] = place

    def _check_change(self, query: str, run: str, stream: str, epoch: int, rest: str, where: str) -> None:
        """A change follows the one before it; after a reopening, or in another run, some may come again, and none is left out."""
        change, reading, *_ = rest.split("|")
        if change == "mark":
            return
        number, reached, which = int(change), self._changes.get((query, stream), 0), f"{run}, {epoch}, {reading}"
        last_which, last = self._last_changes.get((query, stream), ("", 0))
        if number > reached + 1:
            self._record.violation("gap", f"{where}: change {number} after {reached}")
        if last_which == which and number != last + 1:
            self._record.violation("duplicate", f"{where}: change {number} after {last} in the same reading")
        self._changes[query, stream] = max(reached, number)
        self._last_changes[query, stream] = (which, number)

    def _check_next(self, query: str, stream: str, sequence: int, where: str) -> None:
        before = self._reached.get((query, stream), -1)
        source, _, partition = stream.partition("/")
        expected = next((e.sequence for e in self._logs[source].messages[partition] if e.sequence > before), None)
        if sequence <= before:
            self._record.violation("duplicate", f"{where}: {sequence} after {before}")
        elif sequence != expected:
            self._record.violation("gap", f"{where}: {sequence} after {before}, {expected} is missing")
        self._reached[query, stream] = max(before, sequence)

    def shown(self, storage: Storage, transaction: Transaction) -> None:
        """A two-phase sink shows a transaction: its commit entry must be there."""
        self._record.counts["progress"] += 1
        self._record.log(f"{storage.instance} shows batch {transaction.batch} of {transaction.pipeline}")
        if transaction.batch not in self._checkpoints[transaction.pipeline].commits:
            self._record.violation("early-commit", f"{storage.instance} shows {transaction} before its commit entry")

    def aborts(self, storage: Storage, transaction: Transaction) -> None:
        """A two-phase sink aborts a transaction."""
        self._record.counts[f"aborts of {storage.instance}"] += 1
        self._record.log(f"{storage.instance} aborts batch {transaction.batch} of {transaction.pipeline}")
        commit = self._checkpoints[transaction.pipeline].commits.get(transaction.batch)
        if commit is not None and transaction in storage.prepared:
            rows = [row for part in storage.prepared[transaction] for row in storage.staged[part]]
            if set(rows) & set(commit.rows):
                self._record.note("abort-of-voted", f"{storage.instance}: {transaction} is in the commit log, and is aborted")

    def sink_lost(self, text: str) -> None:
        """The gateway says that a sink has lost rows, which no sink has."""
        if self._schedule.gateways == 1:
            self._record.violation("sink-lost", text)
        else:
            # A gateway may not have noticed yet that the sink is connected to another one, where it has committed.
            self._record.note("sink-lost", text)

    # In the end.

    def missing(self) -> list[str]:
        """Returns what is not yet as it must be in the end."""
        found = [*self._unacknowledged(), *self._uncommitted()]
        for query in self._schedule.queries:
            for sink in query.sinks:
                found += self._not_shown(self._checkpoints[query.name], sink)
        return found

    def _unacknowledged(self) -> Iterator[str]:
        for log in self._logs.values():
            for partition in log.messages:
                if log.acknowledged[partition] < log.last(partition):
                    yield f"{log.name}/{partition} is acknowledged up to {log.acknowledged[partition]} of {log.last(partition)}"
        for feed in self._feeds.values():
            for partition, changes in feed.changes.items():
                reached = feed.acknowledged[partition]
                if reached < len(changes):
                    yield f"{feed.name}/{partition} is acknowledged up to {reached} of {len(changes)} changes"
        for queue in self._queues.values():
            if unsettled := queue.unsettled():
                yield f"{len(unsettled)} messages of {queue.name} are not settled: {unsettled[:3]}"

    def _uncommitted(self) -> Iterator[str]:
        for query in self._schedule.queries:
            for source in query.sources:
                if source in self._logs:
                    log = self._logs[source]
                    for partition in log.messages:
                        reached = self._reached.get((query.name, f"{source}/{partition}"), -1)
                        if reached < log.last(partition):
                            yield f"{query.name} has committed {source}/{partition} up to {reached} of {log.last(partition)}"
                elif source in self._feeds:
                    for partition, changes in self._feeds[source].changes.items():
                        reached = self._changes.get((query.name, f"{source}/{partition}"), 0)
                        if reached < len(changes):
                            yield f"{query.name} has committed {source}/{partition} up to change {reached} of {len(changes)}"
                else:
                    absent = [id_ for id_ in self._queues[source].ids() if id_ not in self._covered[query.name]]
                    if absent:
                        yield f"{query.name} has not committed {len(absent)} messages of {source}: {absent[:3]}"

    def _not_shown(self, checkpoint: Checkpoint, sink: str) -> Iterator[str]:
        shown: dict[int, list[bytes]] = {}
        for storage in self._storages:
            if storage.sink == sink:
                for each in storage.shown:
                    if each.transaction.pipeline == checkpoint.query:
                        shown.setdefault(each.transaction.batch, []).extend(each.rows)
        mode = self._modes[sink]
        for batch, commit in checkpoint.commits.items():
            where = f"{checkpoint.query}, batch {batch}, sink {sink}"
            expected, found = self._counted(mode, commit.rows), self._counted(mode, shown.get(batch, ()))
            if absent := expected - found:
                yield f"{where} does not show {list(absent)}"
            more = found - expected
            if more and mode != AT_LEAST_ONCE:
                self._record.violation("wrong-rows", f"{where} shows also {list(more)}")
        if mode == TWO_PHASE:
            for batch in shown.keys() - checkpoint.commits.keys():
                self._record.violation("early-commit", f"{checkpoint.query}: {sink} shows batch {batch}, which is not committed")

    def _counted(self, mode: str, rows: Iterable[bytes]) -> Counter[bytes]:
        """Counts rows. An idempotent sink keeps what an attempt has written that failed: a queue gives the next one others."""
        if mode != IDEMPOTENT:
            return Counter(rows)
        return Counter(row for row in rows if row.partition(b"/")[0].decode() in self._logs)
