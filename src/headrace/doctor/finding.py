"""What a check is, what it is given, and what it finds."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from headrace.terminal import EXIT_ENVIRONMENT, Connection


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    SKIPPED = "skipped"
    """Not checked, or not there and not needed."""
    WARNING = "warning"
    """Headrace runs, perhaps not well."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check has found.

    Attributes:
        level: How much it matters.
        found: What is there, or what is wrong.
        fix: What to do; empty where there is nothing to do.
        exit_code: That of the command if this failed.
    """

    level: Level
    found: str
    fix: str = ""
    exit_code: int = EXIT_ENVIRONMENT


@dataclass(frozen=True, slots=True)
class Site:
    """What is to be checked, besides this machine.

    Attributes:
        connection: How to reach the gateway.
        gateway_named: Whether a gateway was named, so that it has to be there.
        start_spark: Whether to start Spark.
        connectors: Configuration files of connectors and deployments to check, as `FILE` or `FILE:NAME`.
    """

    connection: Connection
    gateway_named: bool = False
    start_spark: bool = False
    connectors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that is checked.

    Attributes:
        name: What the table and the JSON call it.
        run: Looks, and changes nothing.
    """

    name: str
    run: Callable[[Site], Finding]


def ok(found: str, fix: str = "") -> Finding:
    """All is well."""
    return Finding(Level.OK, found, fix)


def skipped(found: str, fix: str = "") -> Finding:
    """Nothing was checked."""
    return Finding(Level.SKIPPED, found, fix)


def warning(found: str, fix: str) -> Finding:
    """Something may go wrong."""
    return Finding(Level.WARNING, found, fix)


def failed(found: str, fix: str, exit_code: int = EXIT_ENVIRONMENT) -> Finding:
    """Something is wrong."""
    return Finding(Level.FAILED, found, fix, exit_code)
