"""Checks for a Java that a demo can run Spark on."""

from headrace import processes
from headrace.laboratory.errors import EnvironmentLacks


def require_java() -> None:
    """Checks that Spark can start.

    Raises:
        EnvironmentLacks: There is no Java, or it is too old.
    """
    try:
        processes.require_java()
    except processes.JavaMissing as error:
        raise EnvironmentLacks(str(error)) from None
