"""What can be killed."""

from enum import StrEnum


class Role(StrEnum):
    """What a process, or one of several, is there for."""

    REPLAYABLE = "replayable"
    """The connector of the ten logs."""
    REDELIVERING = "redelivering"
    """The connector of the queue."""
    GATEWAY = "gateway"
    DRIVER = "driver"
    """Spark's driver, with all that it has started."""
    EXECUTOR = "executor"
    TWO_PHASE = "two-phase"
    """The sink that writes files."""
    IDEMPOTENT = "idempotent"
    """The sink that writes to a database."""
