"""An API server of Kubernetes that accepts whatever is created, and starts nothing."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class ApiServer:
    """A server, and the resources that were created there.

    Attributes:
        url: The address of the server.
    """

    def __init__(self, url: str) -> None:
        """Knows nothing that was created yet."""
        self.url = url
        self._created: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def create(self, resource: dict[str, Any]) -> dict[str, Any]:
        """Keeps a resource; returns it as a server does, with an id of its own."""
        with self._lock:
            self._created.append(resource)
            number = len(self._created)
        metadata = {**resource["metadata"], "uid": f"uid-{number}", "resourceVersion": str(number), "namespace": "default"}
        return {**resource, "metadata": metadata}

    def created(self, kind: str) -> list[dict[str, Any]]:
        """The resources of a kind, as they came."""
        with self._lock:
            return [resource for resource in self._created if resource["kind"] == kind]


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """A server for the length of the block."""
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(201, server_state.create(json.loads(body)))

        def do_GET(self) -> None:
            if "watch" in parse_qs(urlsplit(self.path).query):
                self._watch()
            else:
                self._answer(200, {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []})

        def do_DELETE(self) -> None:
            self._answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def _watch(self) -> None:
            """Nothing happens to what is watched."""
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.flush()
            ended.wait()
            self.close_connection = True

        def _answer(self, code: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server_state = ApiServer(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server_state
        finally:
            ended.set()
            server.shutdown()
            thread.join()
