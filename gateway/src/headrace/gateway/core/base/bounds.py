"""Limits that bound the gateway's memory: the length of names, and their number in a request and in the gateway."""

from collections.abc import Sized

from headrace.contract.limits import MAX_NAME_BYTES
from headrace.gateway.core.base.errors import ListTooLong, MalformedMessage, TooManyNames
from headrace.protocol.v1 import source_pb2

MAX_PATTERNS = 100
"""Stream patterns of a pipeline: each is matched against every new stream."""
MAX_POSITIONS = 200_000
"""Positions and ranges in one request, and streams that the gateway keeps."""
MAX_PARTS = 100_000
"""Parts in one vote: one for each Spark task."""
MAX_LISTED = 20_000
"""Entries in each list of a SinkHello."""
MAX_CAPABILITIES = 100
"""Capabilities in a Hello."""
MAX_AWAY = 100
"""Disconnected instances of a sink that the gateway remembers."""
MAX_SEGMENTS = 256
"""Run segments in one request."""
MAX_WRITTEN = 256
"""Sinks, and readers, that a pipeline may name."""
MAX_VOTES = 20_000
"""Votes of sink instances that the gateway remembers."""
MAX_PIPELINES = 1_000
"""Pipelines, and commit logs, that the gateway keeps."""
MAX_SINKS = 1_000
"""Sinks that the gateway keeps."""
MAX_STEPS = 200
"""Steps of an application that are measured."""
MAX_STAGES = 20
"""Stages of micro-batches that are measured."""
MAX_SERIES = 1_000
"""Numbers of the counters and histograms of an application."""
MAX_HELLO_BYTES = 4096


def check_length(what: str, name: str) -> str:
    """Checks the length of a name, and returns it.

    Raises:
        MalformedMessage: it is too long.
    """
    if len(name) > MAX_NAME_BYTES or len(name.encode()) > MAX_NAME_BYTES:
        raise MalformedMessage(f"{what}, {name[:80]!r}...: a name has at most {MAX_NAME_BYTES} bytes")
    return name


def check_count(what: str, items: Sized, most: int) -> None:
    """Checks the length of a list in a request.

    Raises:
        ListTooLong: it is too long.
    """
    if len(items) > most:
        text = f"{what}: {len(items)} in one request; at most {most} are allowed"
        raise ListTooLong(text, limit=what, maximum=most, actual=len(items))


def check_room(what: str, items: Sized, most: int) -> None:
    """Checks that the gateway may keep one more item.

    Raises:
        TooManyNames: the limit is reached.
    """
    if len(items) >= most:
        text = f"{what}: this gateway already keeps the maximum of {most}; it forgets unused ones after a while"
        raise TooManyNames(text, limit=what, maximum=most)


def check_hello(hello: source_pb2.Hello) -> None:
    """Checks the size of a Hello, which is kept for the duration of its session.

    Raises:
        MalformedMessage: it is too large.
    """
    if hello.ByteSize() > MAX_HELLO_BYTES:
        raise MalformedMessage(f"Hello of {hello.ByteSize()} bytes: at most {MAX_HELLO_BYTES} are allowed")
