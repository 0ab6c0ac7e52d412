"""A broker that wants each kind of login, and an endpoint that gives tokens, or fails to, as a test decides."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scripts.brokers import Kafka
from tests.gateway.certificates import Authority

SECRET = "the.client's/secret"
_LOGINS = "org.apache.kafka.common.security"


class SecuredKafka(Kafka):
    """Its listeners want each mechanism but PLAIN, or a client's certificate."""

    name = "kafka"
    default_ports = {**Kafka.default_ports, "tls": None}  # noqa: RUF012
    authority: Authority

    def _prepare(self) -> None:
        super()._prepare()
        pair = self.authority.issue("server")
        store = self.folder / "server.pem"
        store.write_text(pair.key.read_text() + pair.cert.read_text())
        listeners = "PLAIN://{host}:{client},SASL://{host}:{sasl},TLS://{host}:{tls}".format(host=self.host, **self.ports)
        lines = {
            "listeners": f"{listeners},CONTROLLER://{self.host}:{self.ports['controller']}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAIN:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{_LOGINS}.scram.ScramLoginModule required;",
            "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{_LOGINS}.scram.ScramLoginModule required;",
            "listener.name.sasl.oauthbearer.sasl.jaas.config": f"{_LOGINS}.oauthbearer.OAuthBearerLoginModule required;",
            "connections.max.reauth.ms": "3600000",
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.cert),
        }
        with (self.folder / "server.properties").open("a") as settings:
            settings.writelines(f"{name}={value}\n" for name, value in lines.items())


class Endpoint:
    """A token endpoint whose tokens are unsecured, which Kafka accepts where nothing else is configured.

    Attributes:
        life_s: How long a token is valid, in seconds.
        fault: The endpoint's fault; one of `FAULTS`, or empty.
        answers: For each request, whether a token was the answer.
    """

    FAULTS = ("closes", "hangs", "is ill", "talks nonsense", "gives expired tokens")

    def __init__(self) -> None:
        self.life_s = 3600.0
        self.fault = ""
        self.answers: list[bool] = []
        self._repaired = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"endpoint": self}))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/token"

    def login(self, secret: str = SECRET) -> dict[str, Any]:
        """Parameters of a client."""
        return {
            "sasl_mechanism": "OAUTHBEARER",
            "oauth_token_url": self.url,
            "oauth_client_id": "me",
            "oauth_client_secret": secret,
            "oauth_scope": "kafka",
        }

    def repair(self) -> None:
        """Ends a fault."""
        with self._repaired:
            self.fault = ""
            self._repaired.notify_all()

    def answer(self, body: str, login: str) -> tuple[int, bytes] | None:
        """Returns the status and the body of an answer; None if the connection is to be closed."""
        match self.fault:
            case "closes":
                return None
            case "hangs":
                with self._repaired:
                    self._repaired.wait_for(lambda: self.fault != "hangs")
                return None
            case "is ill":
                return 503, b""
            case "talks nonsense":
                return 200, b"<html>down for maintenance</html>"
            case "gives expired tokens":
                return 200, json.dumps({"access_token": token(-60), "expires_in": self.life_s}).encode()
        ok = login == "me:the.client%27s%2Fsecret" and body == "grant_type=client_credentials&scope=kafka"
        self.answers.append(ok)
        answer = {"access_token": token(self.life_s), "expires_in": self.life_s} if ok else {"error": "invalid_client"}
        return 200 if ok else 401, json.dumps(answer).encode()

    @contextmanager
    def serving(self) -> Iterator["Endpoint"]:
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self.repair()
            self._server.shutdown()
            thread.join()
            self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    endpoint: Endpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        login = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        answer = self.endpoint.answer(body, login)
        if answer is not None:
            self.send_response(answer[0])
            self.end_headers()
            self.wfile.write(answer[1])

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def token(life_s: float = 3600) -> str:
    """A token that expires after a time, in seconds."""
    now = time.time()
    claims = {"sub": "me", "iat": now - 120, "exp": now + life_s}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "none"}, claims)]
    return ".".join([*parts, ""])
