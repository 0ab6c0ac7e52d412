"""A program that answers as its arguments say: the first argument answers the first request, and so on.

An argument is a word of what to do: bytes in hex are written to standard output, `exit:CODE`, `kill` and `hang` are done, and
`say:TEXT` is written to standard error. Several words are joined by `+`. It does not import the stubs, to start in no time.
"""

import os
import signal
import sys
import threading


def read_request() -> None:
    """Reads one request, or ends with standard input."""
    size = shift = 0
    while True:
        byte = os.read(0, 1)
        if not byte:
            sys.exit(0)
        size |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            break
    while size:
        size -= len(os.read(0, size))


def do(word: str) -> None:
    """Does what a word says."""
    what, _, rest = word.partition(":")
    if what == "exit":
        sys.exit(int(rest))
    elif what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "hang":
        threading.Event().wait()
    elif what == "say":
        print(rest, file=sys.stderr, flush=True)
    else:
        os.write(1, bytes.fromhex(word))


for answer in sys.argv[1:]:
    read_request()
    for word in answer.split("+"):
        do(word)
read_request()
