"""A schema registry in this process, which answers as Confluent's does, or as its test wants."""

import contextlib
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

_NO_SCHEMA = (404, {"error_code": 40403, "message": "Schema not found"})


@dataclass
class FakeRegistry:
    """Schemas by id, and the ids of each subject."""

    url: str
    schemas: list[dict[str, Any]] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    """What the next requests are answered with, before the registry works again."""
    authorization: str | None = None
    """What requests must have in the header of this name; None for anything."""
    unanswered: int = 0
    """How many of the next requests are answered only when the registry ends."""
    refuses: bool = False
    """Whether each new schema is incompatible."""

    def add(self, subject: str, document: Any, references: list[dict[str, Any]] | None = None, type: str = "AVRO") -> int:
        """Adds a schema to a subject; returns its id."""
        text = document if type == "PROTOBUF" else json.dumps(document)
        self.schemas.append({"schema": text, "schemaType": type, **({"references": references} if references else {})})
        self.subjects.setdefault(subject, []).append(len(self.schemas))
        return len(self.schemas)

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Returns the status and the document of a request."""
        parts = [unquote(part) for part in path.split("?")[0].strip("/").split("/")]
        match method, parts:
            case "GET", ["schemas", "ids", number]:
                return (200, self.schemas[int(number) - 1]) if int(number) <= len(self.schemas) else _NO_SCHEMA
            case "GET", ["schemas", "ids", number, "subjects"]:
                return 200, [name for name, ids in self.subjects.items() if int(number) in ids]
            case "GET", ["subjects", name, "versions", version] if name in self.subjects:
                ids = self.subjects[name]
                place = len(ids) if version == "latest" else int(version)
                return 200, {"subject": name, "version": place, "id": ids[place - 1], **self.schemas[ids[place - 1] - 1]}
            case "POST", ["subjects", name, *rest]:
                return self._post(name, body, register=bool(rest))
        return 404, {"error_code": 40401, "message": "Subject not found"}

    def _post(self, name: str, body: dict[str, Any], *, register: bool) -> tuple[int, Any]:
        type = body.get("schemaType", "AVRO")
        document = body["schema"] if type == "PROTOBUF" else json.loads(body["schema"])
        for version, one in enumerate(self.subjects.get(name, []), 1):
            known = self.schemas[one - 1]["schema"]
            if (known if type == "PROTOBUF" else json.loads(known)) == document:
                return 200, {"subject": name, "version": version, "id": one, "schema": body["schema"]}
        if not register:
            return _NO_SCHEMA
        if self.refuses:
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible with an earlier schema"}
        return 200, {"id": self.add(name, document, body.get("references"), type)}


@contextlib.contextmanager
def fake_registry(certificate: Path | None = None, key: Path | None = None) -> Iterator[FakeRegistry]:
    """A registry on a port of its own; with a certificate and its key, behind TLS."""

    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            registry.requests.append(f"{self.command} {self.path.split('?')[0]}")
            if registry.unanswered:
                registry.unanswered -= 1
                ended.wait()
            if registry.authorization not in (None, self.headers.get("Authorization")):
                status, answer = 401, b'{"error_code": 401, "message": "Unauthorized"}'
            elif registry.answers:
                status, answer = registry.answers.pop(0)
            else:
                status, document = registry.answer(self.command, self.path, json.loads(body) if body else None)
                answer = json.dumps(document).encode()
            with contextlib.suppress(ConnectionError):  # a caller that waits no longer
                self._reply(status, answer)

        def _reply(self, status: int, answer: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = _handle

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the test looks at the requests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry = FakeRegistry(f"http{'s' * (certificate is not None)}://127.0.0.1:{server.server_address[1]}")
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield registry
        finally:
            ended.set()
            server.shutdown()
            thread.join()
