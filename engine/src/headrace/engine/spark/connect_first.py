"""Runs a module like `python -m`, after connecting to Spark.

Spark gives a Python process 10 s to connect, which is not configurable, and then fails the query. Spark's modules connect after
their imports, which may take longer on a busy machine. This module imports only the standard library before it connects.

`python connect_first.py -m MODULE ARGUMENT...`, with the socket's path in PYTHON_WORKER_FACTORY_SOCK_PATH.
"""

import os
import runpy
import socket
import sys
from io import IOBase
from typing import Any


def main() -> None:
    """Connects, and runs the module."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(os.environ["PYTHON_WORKER_FACTORY_SOCK_PATH"])
    module, *arguments = sys.argv[2:]
    # As with `-m`, instead of the script's folder.
    sys.path[0] = os.getcwd()

    import pyspark.util

    def connected(*_: Any) -> tuple[IOBase, socket.socket]:
        size = int(os.environ.get("SPARK_BUFFER_SIZE", 65536))
        return connection.makefile("rwb", size), connection

    vars(pyspark.util).update(local_connect_and_auth=connected)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
