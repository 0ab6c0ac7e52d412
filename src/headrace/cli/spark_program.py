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
import time
from pathlib import Path

from headrace.cli.stopping import stop_queries
from headrace.machine.ends import call_all
from headrace.machine.traces import JVM_ENDED, JVM_EXITED, first_cause
from headrace.processes import end_with_supervisor, ignore_hangups

_STOPS_EVERY_S = 0.5


def _stop() -> None:
    if not stop_queries():
        call_all()
        os._exit(128 + signal.SIGTERM)
    while True:
        # The program may be about to start one. It runs to its end, also once it has stopped its session.
        time.sleep(_STOPS_EVERY_S)
        stop_queries()


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
    """Returns a line that tells the first cause of an error, if the last line of its trace does not."""
    text = str(error)
    if JVM_EXITED not in text:
        # The error of a query ends with the query's plan.
        return f"{first_cause(text)}\n" if "\n" in text.strip() else ""
    from headrace.engine.spark.session import jvm_lacks

    lacks = jvm_lacks()
    return f"{JVM_ENDED}: {lacks}\n" if lacks else ""


if __name__ == "__main__":
    main()
