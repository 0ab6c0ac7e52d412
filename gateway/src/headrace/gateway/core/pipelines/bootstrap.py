"""A table that a query reads to its present end before the streams that meet it."""

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.contract.names import covers
from headrace.gateway.core.base.bounds import MAX_PATTERNS, check_count, check_length
from headrace.gateway.core.base.position import check_pattern
from headrace.protocol.v1 import engine_pb2 as pb


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """A table, and what waits for it."""

    table: str
    """Its name."""
    streams: tuple[str, ...]
    """The patterns of its streams."""
    held: tuple[str, ...]
    """The patterns of the streams that wait for it."""
    least_streams: int
    """How many of its streams must be there; 0 for one of each pattern."""

    @classmethod
    def from_proto(cls, wire: pb.Bootstrap) -> "Bootstrap":
        """Returns what a request says.

        Raises:
            MalformedMessage: a pattern is invalid, or the name is too long.
            LimitExceeded: there are too many patterns.
        """
        check_length("table", wire.table)
        check_count("streams of a table", wire.streams, MAX_PATTERNS)
        check_count("streams that wait for a table", wire.held, MAX_PATTERNS)
        return cls(wire.table, tuple(map(check_pattern, wire.streams)), tuple(map(check_pattern, wire.held)), wire.least_streams)

    def has(self, stream: str) -> bool:
        """Returns whether a stream is one of the table."""
        return any(covers(pattern, stream) for pattern in self.streams)

    def holds(self, stream: str) -> bool:
        """Returns whether a stream waits for the table, unless it is one of a table."""
        return any(covers(pattern, stream) for pattern in self.held)


def held(bootstraps: Iterable[Bootstrap], streams: Iterable[str]) -> frozenset[str]:
    """Returns the streams that wait for tables."""
    tables = tuple(bootstraps)
    waiting = (name for name in streams if any(table.holds(name) for table in tables))
    return frozenset(name for name in waiting if not any(table.has(name) for table in tables))
