"""`python -m headrace.cli.spark_program`: a Spark program of the user, which ends in order with its supervisor.

SIGTERM stops its queries, so that the micro-batch in flight ends and the program runs to its end. Standard input is a pipe whose
other end only the supervisor holds. SIGHUP ends nothing, unless the program handles it.
"""

import argparse
import os
import runpy
import signal
import sys
import threading
from pathlib import Path

from headrace.machine.traces import JVM_ENDED, JVM_EXITED
from headrace.processes import end_with_supervisor, ignore_hangups


def stop_queries() -> bool:
    """Stops the active queries of this process. Returns whether there was a Spark session."""
    spark = sys.modules.get("pyspark.sql")
    session = spark.SparkSession.getActiveSession() if spark is not None else None
    if session is None and spark is not None:
        # The active session belongs to a thread; the default one belongs to the process.
        session = spark.SparkSession._instantiatedSession
    if session is None:
        return False
    for query in session.streams.active:
        query.stop()
    return True


def _stop() -> None:
    if not stop_queries():
        os._exit(128 + signal.SIGTERM)


def _ask_to_stop(*_: object) -> None:
    # On a thread: a handler runs in the middle of a call to the JVM, whose connection the stop needs.
    threading.Thread(target=_stop, name="stop of queries", daemon=True).start()


def main() -> None:
    """Runs the program as Python would, with the gateway's address in HEADRACE_GATEWAY."""
    ignore_hangups()
    parser = argparse.ArgumentParser(prog="spark_program", description="Run a Spark program for a deployment.")
    parser.add_argument("--gateway", required=True, help="the address of the gateway")
    parser.add_argument("program", help="the program, a Python file")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    given = parser.parse_args()
    os.environ["HEADRACE_GATEWAY"] = given.gateway
    signal.signal(signal.SIGTERM, _ask_to_stop)
    end_with_supervisor()
    sys.argv = [given.program, *given.args]
    sys.path[0] = str(Path(given.program).absolute().parent)
    try:
        runpy.run_path(given.program, run_name="__main__")
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
        # The last line is what the supervisor shows.
        print(_cause(error), end="", file=sys.stderr)
        sys.exit(1)


def _cause(error: Exception) -> str:
    """Returns a line that tells why the JVM has not started, if PySpark's error and the JVM tell nothing; empty otherwise."""
    if JVM_EXITED not in str(error):
        return ""
    from headrace.engine.spark.session import jvm_lacks

    lacks = jvm_lacks()
    return f"{JVM_ENDED}: {lacks}\n" if lacks else ""


if __name__ == "__main__":
    main()
