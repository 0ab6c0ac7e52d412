"""What must be true of the gateway and the SDK at rest: everything is returned, and nothing is held."""

from collections.abc import Iterator, Sequence

from headrace.gateway.core import Gateway
from headrace.simulation.record import Violation
from headrace.simulation.systems import Storage


def violations(gateway: Gateway, storages: Sequence[Storage]) -> Iterator[Violation]:
    """Yields what is not at rest."""
    yield from _streams(gateway)
    yield from _credit(gateway)
    yield from _pipelines(gateway)
    yield from _sinks(gateway)
    for storage in storages:
        if storage.prepared:
            yield Violation("leftover", f"{storage.instance} has prepared {list(storage.prepared)}")
        if storage.staged:
            yield Violation("leftover", f"{storage.instance} has staged {list(storage.staged)}")


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
    used = sum(account.bytes_left + account.bytes_held for account in pool.accounts) + pool.held_back.bytes_held
    if pool.used_bytes != used:
        yield Violation("credit", f"the pool counts {pool.used_bytes} bytes, and the accounts {used}")
    if pool.held_back.bytes_held or pool.held_back.messages_held:
        yield Violation("credit", f"{pool.held_back.bytes_held} bytes are held back")
    if len(pool.accounts) != len(gateway.sessions):
        yield Violation("credit", f"{len(pool.accounts)} accounts, {len(gateway.sessions)} sessions")


def _pipelines(gateway: Gateway) -> Iterator[Violation]:
    for pipeline in gateway.pipelines.values():
        if +pipeline.reading or pipeline.calls > 1:
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
