"""The tables of a graph that are read to their present end before the streams that meet them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.contract.names import covers
from headrace.pipelines.steps.stateless import Source


@dataclass(frozen=True)
class Bootstrap:
    """A table, and what waits for it.

    Attributes:
        table: The name of its source.
        streams: The patterns of its streams.
        held: The patterns of the streams that wait for it: of all that reach a step that it reaches, but for other such tables.
        least_streams: How many of its streams must be there; 0 for one of each pattern.
    """

    table: str
    streams: tuple[str, ...]
    held: tuple[str, ...]
    least_streams: int

    @property
    def parts(self) -> frozenset[tuple[str, str]]:
        """Its name with each of its patterns. It is read again to its present end once a version adds a pattern."""
        return frozenset((self.table, pattern) for pattern in self.streams)

    def has(self, stream: str) -> bool:
        """Whether a stream is one of the table."""
        return any(covers(pattern, stream) for pattern in self.streams)

    def holds(self, stream: str) -> bool:
        """Whether a stream waits for the table, unless it is one of a table."""
        return any(covers(pattern, stream) for pattern in self.held)


def bootstraps(inputs: Sequence[Sequence[int]], sources: Mapping[int, Source]) -> dict[str, tuple[Bootstrap, tuple[str, ...]]]:
    """The tables by name, each with the names of the sources that wait for it.

    Args:
        inputs: The numbers of the steps that each step of the graph follows.
        sources: The sources by number.
    """
    origins: list[frozenset[int]] = []
    for number, before in enumerate(inputs):
        own = frozenset({number} & sources.keys())
        origins.append(own.union(*(origins[each] for each in before)))
    found = {}
    for number, table in sources.items():
        if table.bootstrap:
            meeting = frozenset[int]().union(*(some for some in origins if number in some))
            waiting = [sources[each] for each in sorted(meeting) if not sources[each].bootstrap]
            held = tuple(dict.fromkeys(pattern for source in waiting for pattern in source.streams))
            bootstrap = Bootstrap(table.name, table.streams, held, table.await_streams or 0)
            found[table.name] = bootstrap, tuple(source.name for source in waiting)
    return found


def is_held(tables: Iterable[Bootstrap], stream: str) -> bool:
    """Whether a stream waits for one of some tables."""
    some = tuple(tables)
    return any(table.holds(stream) for table in some) and not any(table.has(stream) for table in some)
