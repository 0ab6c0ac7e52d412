"""Keeps gRPC from handling forks, in a process that has not imported it yet."""

import os
import sys

VARIABLE = "GRPC_ENABLE_FORK_SUPPORT"
"""What gRPC reads when it is imported."""


def leave_forks_alone() -> None:
    """Has gRPC do nothing when this process forks, unless the user has set its variable.

    While calls run, one fork in six dies of gRPC's own handlers, such as PySpark's for its JVM. A program that has imported
    gRPC before has decided for itself. Children that call gRPC themselves need the handlers: their user sets the variable to 1.
    """
    if "grpc" not in sys.modules:
        os.environ.setdefault(VARIABLE, "0")
