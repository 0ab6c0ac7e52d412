"""A site that is well, in which faults are injected."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from headrace.laboratory.bench.faults.fault import Fault

Running = Callable[[SparkSession, frozenset[str]], AbstractContextManager[tuple[str, Sequence[Fault]]]]
"""Runs a site for the faults of these names: yields the URL of its gateway's HTTP server, and these faults."""


def nothing() -> Mapping[str, str]:
    """Returns that this machine lacks nothing."""
    return {}


@dataclass(frozen=True, slots=True)
class Site:
    """A site.

    Attributes:
        faults: The names of the faults that it can have, in order.
        run: Runs it.
        lacks: What this machine lacks for each fault that cannot be made on it.
    """

    faults: tuple[str, ...]
    run: Running
    lacks: Callable[[], Mapping[str, str]] = nothing
