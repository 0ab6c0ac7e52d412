"""A query that writes to an HTTP receiver: faults of the receiver, which are named rather than the query."""

import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.laboratory.bench.faults.fault import Fault, Site
from headrace.laboratory.bench.faults.gateway import running
from headrace.laboratory.bench.queries import headrace, sink_query, stop
from headrace.laboratory.bench.rig import Restartable, source_command, wait_for

_RATE = 2
_SECONDS = 3_600
_DEADLINE_S = 120.0


@contextmanager
def _run(spark: SparkSession, names: frozenset[str]) -> Iterator[tuple[str, list[Fault]]]:
    """Yields the URL of the gateway, and the faults; the receiver has received a message."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        gateway = stack.enter_context(running(folder))
        stack.enter_context(Restartable(source_command("stamped", gateway.address, rate=_RATE, seconds=_SECONDS)))
        receiver = _Receiver()
        stack.callback(receiver.stop)
        receiver.start()
        url = f"http://127.0.0.1:{receiver.port}/"
        options = ["--url", url, "--sink", "bench", "--max-backoff-seconds", "1", "--gateway", gateway.address]
        stack.enter_context(Restartable(["-m", "headrace.cli", "connector", "run", "http-sink", *options, "--proxy", "none"]))
        queries = ExitStack()
        stack.callback(queries.close)

        def start_query() -> None:
            queries.close()
            frame = headrace(spark, gateway.address)
            queries.callback(stop, sink_query(frame, gateway.address, folder))

        def accept() -> None:
            receiver.answer = HTTPStatus.OK
            start_query()

        start_query()
        wait_for("the receiver to receive a message", lambda: receiver.received > 0, _DEADLINE_S)
        faults = [
            Fault(
                "receiver_refuses",
                frozenset({"connector-reports"}),
                "sink bench",
                receiver.stop,
                receiver.start,
                f":{receiver.port}",
            ),
            # The part is the query, which the sink has ended.
            Fault(
                "receiver_rejects",
                frozenset({"sink-fails", "connector-reports"}),
                "pipeline ",
                partial(setattr, receiver, "answer", HTTPStatus.UNAUTHORIZED),
                accept,
                "401",
            ),
        ]
        yield gateway.url, [fault for fault in faults if fault.name in names]


class _Receiver:
    """An HTTP server on a port that it keeps."""

    def __init__(self) -> None:
        self.answer = HTTPStatus.OK
        self.received = 0
        self.port = 0
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        """Listens, in a thread."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                receiver.received += 1
                self.send_response(receiver.answer)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Its requests are not progress."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        """Listens no longer, so that connections are refused."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


RECEIVER = Site(("receiver_refuses", "receiver_rejects"), _run)
