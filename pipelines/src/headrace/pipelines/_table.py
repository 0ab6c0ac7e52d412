"""Tables: streams of changes, of which a join asks for the row of a key."""

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
