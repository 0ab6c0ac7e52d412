"""A trial holds messages back until its tables are read to their present end."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from headrace.pipelines._errors import TrialError
from headrace.pipelines.elements.message import Message
from headrace.pipelines.graph.bootstrap import Bootstrap, is_held
from headrace.pipelines.graph.graph import Graph


@dataclass
class Bootstrapping:
    """The tables that were read to their present end, and what follows once the others are."""

    _done: frozenset[tuple[str, str]] = frozenset()
    _waiting: list[Callable[[], None]] = field(default_factory=list)

    def unread(self, graph: Graph) -> list[Bootstrap]:
        """The tables whose present end other streams wait for."""
        return [table for table in graph.bootstraps if not table.parts <= self._done]

    def held(self, graph: Graph, streams: Iterable[str]) -> frozenset[str]:
        """The streams that wait for tables."""
        tables = self.unread(graph)
        return frozenset(stream for stream in set(streams) if is_held(tables, stream)) if tables else frozenset()

    def then(self, follows: Callable[[], None]) -> None:
        """Notes what follows once the tables are read."""
        self._waiting.append(follows)

    def take(self, graph: Graph, messages: Sequence[Message]) -> tuple[Collection[str], Sequence[Callable[[], None]]]:
        """Notes that messages make up the present end of the tables; returns their names, and what follows.

        Raises:
            TrialError: No table waits for its present end, or a message is of another stream.
        """
        tables = self.unread(graph)
        if not tables:
            raise TrialError(f"bootstrap(...): pipeline {graph.name} has no table with bootstrap=True that is yet to be read")
        for message in messages:
            if not any(table.has(message.stream) for table in tables):
                raise TrialError(f"bootstrap(...): {message.stream} is no stream of a table with bootstrap=True; pass it to send")
        self._done = self._done.union(*(table.parts for table in tables))
        waiting, self._waiting = self._waiting, []
        return [table.table for table in tables], waiting

    def restart(self, graph: Graph) -> Sequence[Callable[[], None]]:
        """Forgets what a changed pipeline no longer reads first; returns what follows, if no table is left to be read."""
        self._done &= frozenset[tuple[str, str]]().union(*(table.parts for table in graph.bootstraps))
        if self.unread(graph):
            return ()
        waiting, self._waiting = self._waiting, []
        return waiting
