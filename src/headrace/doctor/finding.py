"""A check, its input and its finding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from headrace.terminal import EXIT_ENVIRONMENT, Connection


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    SKIPPED = "skipped"
    """Not checked, or absent and not needed."""
    WARNING = "warning"
    """Headrace runs, but may run into trouble."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check.

    Attributes:
        level: How much it matters.
        text: The observation of the check, or the error.
        fix: What to do; empty if there is nothing to do.
        exit_code: The exit code of the command if the check failed.
    """

    level: Level
    text: str
    fix: str = ""
    exit_code: int = EXIT_ENVIRONMENT


@dataclass(frozen=True, slots=True)
class Site:
    """What to check besides this machine.

    Attributes:
        connection: How to reach the gateway.
        gateway_named: Whether the user named a gateway, so that it must be reachable.
        start_spark: Whether to start Spark.
        connectors: Configuration files of connectors and deployments to check, as `FILE` or `FILE:NAME`.
        supervisor: How the supervisors of these deployments call their gateways; None if the user named a gateway.
    """

    connection: Connection
    gateway_named: bool = False
    start_spark: bool = False
    connectors: tuple[str, ...] = ()
    supervisor: Connection | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A named check.

    Attributes:
        name: Its name in the table and in the JSON.
        run: Performs the check. It changes nothing. A check of several parts returns a finding for each.
    """

    name: str
    run: Callable[[Site], Finding | Sequence[Finding]]


def ok(text: str, fix: str = "") -> Finding:
    """Returns a finding without a problem."""
    return Finding(Level.OK, text, fix)


def skipped(text: str, fix: str = "") -> Finding:
    """Returns the finding of a check that did not apply."""
    return Finding(Level.SKIPPED, text, fix)


def warning(text: str, fix: str) -> Finding:
    """Returns a finding of something that may go wrong."""
    return Finding(Level.WARNING, text, fix)


def failed(text: str, fix: str, exit_code: int = EXIT_ENVIRONMENT) -> Finding:
    """Returns a finding of something that must be fixed."""
    return Finding(Level.FAILED, text, fix, exit_code)
