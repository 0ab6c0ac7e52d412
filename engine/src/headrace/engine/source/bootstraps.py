"""The tables that a query reads to their present end before the streams that meet them."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.contract.names import covers
from headrace.engine._errors import GatewayError
from headrace.engine.checkpoint.position import Offset
from headrace.protocol.v1 import engine_pb2 as pb

log = logging.getLogger("headrace.engine")


@dataclass(frozen=True)
class Table:
    """A table that is read first: its name, the patterns of its streams and of the waiting ones, how many it must have."""

    name: str
    streams: tuple[str, ...]
    held: tuple[str, ...]
    least_streams: int

    @property
    def parts(self) -> frozenset[tuple[str, str]]:
        """Its name with each of its patterns, for offsets."""
        return frozenset((self.name, pattern) for pattern in self.streams)

    def to_proto(self) -> pb.Bootstrap:
        """The wire form."""
        return pb.Bootstrap(table=self.name, streams=self.streams, held=self.held, least_streams=self.least_streams)


class Bootstraps:
    """Which tables a run has yet to read.

    An offset names the tables that were read to their end before it, so a batch that is repeated decides nothing. What this run
    has found is in the next offset that it returns: until then, nothing of the streams that waited is read. A table that reads a
    further pattern since is read to its end again. Offsets keep nothing of tables that the application no longer reads first.

    Args:
        text: The tables, as JSON of the option `bootstraps`; None for none.
        fields: The fields of log lines about the query.
    """

    def __init__(self, text: str | None, fields: Mapping[str, object]) -> None:
        self._tables = () if text is None else tuple(_table(each) for each in json.loads(text))
        self._fields = fields
        self._parts = frozenset[tuple[str, str]]().union(*(table.parts for table in self._tables))
        self._ready: frozenset[tuple[str, str]] = frozenset()
        self._logged_tables: frozenset[str] = frozenset()

    def pending(self, offset: Offset) -> list[Table]:
        """The tables that are read before the streams that meet them."""
        done = self.done(offset)
        pending = [table for table in self._tables if not table.parts <= done]
        for table in pending:
            if table.name not in self._logged_tables:
                self._logged_tables |= {table.name}
                text = "table %s is read to its present end before %s"
                log.info(text, table.name, ", ".join(table.held), extra=dict(self._fields))
        return pending

    def done(self, offset: Offset) -> frozenset[tuple[str, str]]:
        """The tables that were read, by a checkpoint and by this run, each with the patterns of its streams."""
        return (offset.bootstrapped & self._parts) | self._ready

    def holds(self, stream: str, offset: Offset) -> bool:
        """Whether a stream waits for a table."""
        pending = self.pending(offset)
        waits = any(covers(pattern, stream) for table in pending for pattern in table.held)
        return waits and not any(covers(pattern, stream) for table in pending for pattern in table.streams)

    def note(self, response: pb.PlanResponse, offset: Offset) -> None:
        """Takes what the gateway has found.

        Raises:
            GatewayError: The gateway knows nothing of tables that are read first.
        """
        for planned in response.ranges:
            if not planned.start and planned.messages and self.holds(planned.stream, offset):
                raise GatewayError(
                    f"stream {planned.stream} waits for a table with bootstrap=True, which this gateway does not know: start a "
                    "gateway of the same release as headrace-engine, or a later one"
                )
        for table in self._tables:
            if table.name in response.bootstrapped and not table.parts <= self._ready:
                log.info("table %s is read to its present end", table.name, extra=dict(self._fields))
                self._ready |= table.parts


def _table(document: Mapping[str, object]) -> Table:
    def texts(name: str) -> tuple[str, ...]:
        found = document[name]
        assert isinstance(found, list), "the option is made of a graph"
        return tuple(map(str, found))

    return Table(str(document["table"]), texts("streams"), texts("held"), int(str(document["least_streams"])))
