"""The connectors for HTTP pass the conformance kit."""

import contextlib
import http.client
import threading
from collections import defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.conformance.systems import Command, judge, values
from tests.connectors.programs import free_port

pytestmark = [pytest.mark.timeout(600), pytest.mark.in_turn(1)]
ANSWER_S = 120
BETWEEN_ATTEMPTS_S = 0.05


class Clients:
    """Clients that post a message each, and again until it is accepted."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._done = threading.Event()
        self._threads: list[threading.Thread] = []

    def begin(self, check: str) -> None:
        """Gives up what is left of the check before, and posts 30 messages."""
        self._done.set()
        self._done = threading.Event()
        for number in range(30):
            self._post(b"m%d" % number)

    def produce(self, check: str, count: str, size: str) -> None:
        for _ in range(int(count)):
            self._post(b"x" * int(size))

    def close(self) -> None:
        """Ends; the connector has ended before, and with it every request."""
        self._done.set()
        for thread in self._threads:
            thread.join()

    def _post(self, body: bytes) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(threading.Thread(target=self._until_accepted, args=(body, self._done)))
        self._threads[-1].start()

    def _until_accepted(self, body: bytes, done: threading.Event) -> None:
        while not done.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_S)
                with contextlib.closing(connection):
                    connection.request("POST", "/", body)
                    if connection.getresponse().status < 300:
                        return
            done.wait(BETWEEN_ATTEMPTS_S)


def test_the_source_passes() -> None:
    port = free_port()
    command = ["http", "--source=s", f"--listen=127.0.0.1:{port}", f"--answer-seconds={ANSWER_S}"]
    clients = Clients(port)
    commands: dict[str, Command] = {"setup": clients.begin, "produce": clients.produce}
    try:
        declared = {"kind": "redelivering", "messages": 30}
        verdict = judge("source", command, declared, commands, jobs=1)
    finally:
        clients.close()

    assert verdict.failed == set(), verdict.explained()
    assert {"redelivery", "epochs", "crash", "gateway-restart", "largest-message"} <= verdict.named("passed")


@contextlib.contextmanager
def receiver() -> Iterator[tuple[str, dict[str, list[bytes | None]]]]:
    """A web server; yields its address, and the bodies that it has received, by path."""
    received: dict[str, list[bytes | None]] = defaultdict(list)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            received[self.path].append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", received
        finally:
            server.shutdown()
            thread.join()


def test_the_sink_passes() -> None:
    with receiver() as (url, received):
        commands: dict[str, Command] = {"read": lambda check: values(received[f"/{check}"])}
        command = ["http-sink", "--sink=s", f"--url={url}/{{check}}"]
        verdict = judge("sink", command, {"mode": "at-least-once"}, commands)

    assert verdict.failed == set(), verdict.explained()
    assert {"staged-survives", "visible", "large-part"} <= verdict.named("passed")
