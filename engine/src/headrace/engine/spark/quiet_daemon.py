"""Spark's Python daemon, whose workers end without a traceback if Spark has closed their connection.

`worker_python.sh` runs it instead of `pyspark.daemon`, whose name Spark does not let one set for the workers of data sources.
"""

import os
import socket

import pyspark.daemon

from headrace.engine.spark.daemon import report
from headrace.engine.spark.worker_ends import end_in_order, kill_who_stays
from headrace.logs.output import configure_from_environment
from headrace.machine.ends import call_all

_serve = pyspark.daemon.worker


def _serve_quietly(connection: socket.socket, authenticated: bool) -> int:
    end_in_order()
    try:
        code: int = _serve(connection, authenticated)
    except ConnectionError:
        os._exit(1)
    if code:
        # The worker ends.
        call_all()
    return code


if __name__ == "__main__":
    vars(pyspark.daemon).update(print=report, worker=_serve_quietly)
    configure_from_environment()
    kill_who_stays()
    pyspark.daemon.manager()
