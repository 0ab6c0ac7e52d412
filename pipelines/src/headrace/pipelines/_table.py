"""Tables: streams of changes, of which a join asks for the row of a key, or a function for all rows."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.pipelines.graph.builder import GraphBuilder

K = TypeVar("K")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True)
class Table(Generic[K, R_co]):
    """The rows of a table by key, from `Pipeline.table`. Pass it to `join`. Each join keeps rows of its own."""

    _builder: GraphBuilder
    _number: int


@dataclass(frozen=True)
class Broadcast(Generic[K, R_co]):
    """The rows of a small table by key, from `Pipeline.broadcast`. Pass it to `map_with`. Every bucket has a copy of all rows."""

    _builder: GraphBuilder
    _number: int
    _max_rows: int
