"""`python -m headrace.log_writer`: writes what the processes of one supervisor print. Only a supervisor starts it.

A signal to the group of the supervisor does not end it: it writes the last words of all processes, and then ends.
"""

import argparse
import contextlib
import resource
import signal
import socket

from headrace.log_writer.lines import Lines
from headrace.log_writer.service import Service
from headrace.log_writer.writer import Writer


def main() -> None:
    """Reads the supervisor's messages on a descriptor."""
    parser = argparse.ArgumentParser(prog="log_writer", description="Write the logs of a deployment.")
    parser.add_argument("--control", type=int, required=True, help="the descriptor of the connection to the supervisor")
    parser.add_argument("--largest-bytes", type=int, required=True, help="when a log is renamed")
    parser.add_argument("--to-stderr", action="store_true", help="write all lines to standard error, too")
    given = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError, ValueError):
        # It holds two descriptors for each process.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    control = socket.socket(fileno=given.control)
    Service(control, Writer(given.largest_bytes, Lines(2) if given.to_stderr else None)).run()


if __name__ == "__main__":
    main()
