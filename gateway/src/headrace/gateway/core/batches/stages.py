"""Notes in the timelines of a query's readers which stage its transactions have reached."""

from collections.abc import Iterator

from headrace.gateway.core.pipelines import Timeline
from headrace.gateway.core.sinks import CommitLog, Sink, Transaction
from headrace.gateway.core.state import Gateway


def note_delivered(gateway: Gateway, transaction: Transaction, sink: Sink) -> None:
    """Notes that all rows of a part have arrived."""
    for timeline in _timelines(gateway, transaction):
        timeline.delivered(transaction.batch, sink.name)


def note_staged(gateway: Gateway, transaction: Transaction) -> None:
    """Notes that a sink has staged a part."""
    for timeline in _timelines(gateway, transaction):
        timeline.staged(transaction.batch)


def note_vote_begun(gateway: Gateway, transaction: Transaction) -> None:
    """Notes that a vote is requested, for which all tasks must be complete."""
    for timeline in _timelines(gateway, transaction):
        timeline.begin_vote(transaction.batch)


def note_vote(gateway: Gateway, transaction: Transaction, sink: Sink) -> None:
    """Notes that a sink has voted."""
    for timeline in _timelines(gateway, transaction):
        timeline.vote(transaction.batch, sink.name, durable=sink.durable)


def note_committed(gateway: Gateway, commit_log: CommitLog) -> None:
    """Notes which batches are in a commit log."""
    for timeline in _of_readers(gateway, commit_log):
        timeline.commit_number(commit_log.committed)


def note_visible(gateway: Gateway, transaction: Transaction) -> None:
    """Notes that an instance of a sink has committed a transaction."""

    def is_visible(name: str) -> bool:
        sink = gateway.sinks.get(name)
        return sink is not None and all(transaction not in holdings.prepared for holdings in sink.holders())

    for timeline in _timelines(gateway, transaction):
        timeline.visible(transaction.batch, is_visible)


def _timelines(gateway: Gateway, transaction: Transaction) -> Iterator[Timeline]:
    commit_log = gateway.commit_logs.get(transaction.pipeline)
    return iter(()) if commit_log is None else _of_readers(gateway, commit_log)


def _of_readers(gateway: Gateway, commit_log: CommitLog) -> Iterator[Timeline]:
    for name in commit_log.readers:
        if (pipeline := gateway.pipelines.get(name)) is not None:
            yield pipeline.timeline
