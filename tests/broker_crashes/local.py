"""Pairs without a broker: files, HTTP, and TCP with standard output."""

import json
import socket
import struct
import threading
import urllib.request
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.broker_crashes.pairs import Pair, again_while
from tests.broker_crashes.workload import (
    Row,
    id_of,
    key_of,
    not_all_counted_once,
    not_all_there,
    other_than_once,
    value_of,
)

from headrace.machine.ports import free_address

_AT_ONCE = 64
_ANSWERS_WITHIN_S = 60.0


class FilePair(Pair):
    """`file` and `file-sink`: a file that grows, and one for what comes of it."""

    name = "file"
    system = "file"
    sink = "file-sink"
    has_key = False
    findings = staticmethod(other_than_once)

    def __init__(self, folder: Path) -> None:
        self._read, self._results = folder / "read", folder / "results"

    @property
    def source_parameters(self) -> Mapping[str, Any]:
        return {"path": [str(self._read / "*.txt")]}

    @property
    def sink_parameters(self) -> Mapping[str, Any]:
        return {"path": str(self._results), "format": "lines"}

    def make(self) -> None:
        self._read.mkdir()

    def publish(self, numbers: range) -> None:
        with (self._read / "messages.txt").open("ab") as file:
            file.write(b"".join(value_of(number) + b"\n" for number in numbers))

    def rows(self) -> list[Row]:
        files = sorted(self._results.glob("*.lines"))
        # The last line may be half written.
        lines = [line for path in files for line in path.read_bytes().splitlines(keepends=True)]
        return [Row.decode(line) for line in lines if line.endswith(b"\n")]


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: connections are meant to break."""


class Receiver:
    """A web server of this machine that keeps the bodies of all requests; to pairs it is the broker."""

    host = "127.0.0.1"

    def __init__(self) -> None:
        """Listens, and serves in threads of its own."""
        self.bodies: list[bytes] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            bodies = self.bodies

            def do_POST(self) -> None:
                self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = _Server((self.host, 0), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="receiver")
        self._thread.start()

    @property
    def proxied(self) -> tuple[int, int | None]:
        """As a broker does."""
        return self.port, None

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.url_at(self.port)

    def url_at(self, port: int) -> str:
        """As a broker does."""
        return f"http://{self.host}:{port}/"

    def close(self) -> None:
        """Ends its threads."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class HttpPair(Pair):
    """`http` and `http-sink`: clients that send again what was not answered with 204, and a server."""

    name = "http"
    system = "http"
    sink = "http-sink"
    deduplicates = True
    findings = staticmethod(not_all_counted_once)

    def __init__(self, receiver: Receiver, listen: str) -> None:
        """Starts nothing.

        Args:
            receiver: The receiver of the sink.
            listen: Where the source listens, HOST:PORT.
        """
        self._receiver, self._listen = receiver, listen
        self._clients: ThreadPoolExecutor | None = None
        self._sent: list[Future[None]] = []
        self._closing = threading.Event()

    @property
    def source_parameters(self) -> Mapping[str, Any]:
        return {"listen": self._listen, "id_header": "Message-Id", "key_header": "Key"}

    @property
    def sink_parameters(self) -> Mapping[str, Any]:
        return {"url": self._receiver.url}

    def make(self) -> None:
        self._clients = ThreadPoolExecutor(_AT_ONCE)

    def publish(self, numbers: range) -> None:
        assert self._clients is not None
        self._sent += [self._clients.submit(self._send, number) for number in numbers]

    def rows(self) -> list[Row]:
        return [Row.decode(body) for body in list(self._receiver.bodies)]

    def left(self) -> str | None:
        waiting = sum(not future.done() for future in self._sent)
        return f"{waiting} requests are not answered with 204" if waiting else None

    def close(self) -> None:
        self._closing.set()
        if self._clients is not None:
            self._clients.shutdown(cancel_futures=True)

    def _send(self, number: int) -> None:
        headers = {"Message-Id": id_of(number), "Key": key_of(number)}
        while not self._closing.is_set():
            request = urllib.request.Request(f"http://{self._listen}/", value_of(number), headers)
            with suppress(OSError), urllib.request.urlopen(request, timeout=_ANSWERS_WITHIN_S) as response:
                assert response.status == 204
                return
            self._closing.wait(0.2)


class TcpPair(Pair):
    """`tcp` and `stdout-sink`: none is lost, as the connector is not killed, and some come again."""

    name = "tcp"
    system = "tcp"
    sink = "stdout-sink"
    has_key = False
    findings = staticmethod(not_all_there)

    def __init__(self, folder: Path) -> None:
        """Starts nothing. The folder has the logs of the connectors."""
        self._listen = free_address()
        self._log = folder / "tcp-sink.log"

    @property
    def source_parameters(self) -> Mapping[str, Any]:
        return {"listen": self._listen}

    @property
    def sink_parameters(self) -> Mapping[str, Any]:
        return {}

    def make(self) -> None:
        pass

    def publish(self, numbers: range) -> None:
        framed = b"".join(struct.pack(">I", len(value)) + value for value in map(value_of, numbers))
        host, _, port = self._listen.rpartition(":")
        connection = again_while(OSError, lambda: socket.create_connection((host, int(port))))
        with connection:
            connection.sendall(framed)

    def rows(self) -> list[Row]:
        lines = self._log.read_bytes().splitlines() if self._log.exists() else []
        return [Row(**json.loads(line)) for line in lines if line.startswith(b'{"key"') and line.endswith(b"}")]
