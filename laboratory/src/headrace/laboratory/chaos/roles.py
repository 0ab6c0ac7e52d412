"""The roles of the processes that can be killed."""

from enum import StrEnum


class Role(StrEnum):
    """The role of a process, or of several."""

    REPLAYABLE = "replayable"
    """The connector of the replayable source."""
    REDELIVERING = "redelivering"
    """The connector of the queue."""
    GATEWAY = "gateway"
    DRIVER = "driver"
    """Spark's driver, with all its descendants."""
    EXECUTOR = "executor"
    TWO_PHASE = "two-phase"
    """The sink that writes files."""
    IDEMPOTENT = "idempotent"
    """The sink that writes to a database."""
