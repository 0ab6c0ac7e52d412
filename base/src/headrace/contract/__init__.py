"""Constants, types and rules that all parts of Headrace share besides the protocol's messages. Standard library only.

Every part imports this package before gRPC, so its import decides what gRPC does at a fork.
"""

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


leave_forks_alone()
