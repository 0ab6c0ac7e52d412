"""A fault, what `/readyz` lists, and a site that is well, in which faults are injected."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pyspark.sql import SparkSession

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, as what it may be named, and how it is injected and repaired.

    Attributes:
        name: Its name in the figures.
        kinds: The kinds of problems that it may be named as.
        part: The beginning of the name of the degraded part.
        inject: Injects it.
        repair: Repairs it, and returns as soon as the cause is gone.
        cause: A part of the text of the cause.
        root: The beginning of the name of the part where the fault has begun; empty if that does not matter.
        begins: Whether it has begun, if it does some time after it was injected, such as with the start of a driver.
        is_remembered: Whether the gateway names it for a minute after it is over.
    """

    name: str
    kinds: frozenset[str]
    part: str
    inject: Callable[[], object]
    repair: Callable[[], object]
    cause: str = ""
    root: str = ""
    begins: Callable[[], bool] | None = None
    is_remembered: bool = False

    def is_in(self, problems: list[dict[str, str]]) -> bool:
        """Whether one of these problems names it."""
        return any(
            problem["kind"] in self.kinds
            and problem["part"].startswith(self.part)
            and self.cause in problem["cause"]
            and problem["root"].startswith(self.root)
            for problem in problems
        )


def problems(url: str) -> list[dict[str, str]] | None:
    """Returns the problems that the gateway at a URL lists, None if it does not answer."""
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=_TIMEOUT_S) as response:
            document = json.load(response)
    except urllib.error.HTTPError as degraded:
        document = json.load(degraded)
    except OSError:
        return None
    found: list[dict[str, str]] = document["problems"]
    return found


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
