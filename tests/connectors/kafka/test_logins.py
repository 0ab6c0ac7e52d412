"""Logins with each mechanism, and mutual TLS, on a broker of its own."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import UserScramCredentialUpsertion
from scripts.brokers import Kafka
from tests.brokers.plugin import start_for_tests
from tests.connectors.kafka.rig import DEADLINE, Log, numbered, numbers, reading, sink_of, write
from tests.gateway.certificates import Authority

from headrace.connectors.kafka import KAFKA, KafkaAway, KafkaFailed, KafkaParameters, KafkaSinkParameters
from headrace.connectors.kafka.fetcher import Wanted
from headrace.connectors.kafka.librdkafka_fetcher import LibrdkafkaFetcher
from headrace.connectors.kafka.librdkafka_transactions import LibrdkafkaTransactions

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
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.cert),
        }
        with (self.folder / "server.properties").open("a") as settings:
            settings.writelines(f"{name}={value}\n" for name, value in lines.items())


class _Endpoint(BaseHTTPRequestHandler):
    """A token endpoint whose tokens are unsecured, which Kafka accepts where nothing else is configured."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        login = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        ok = login == "me:the.client%27s%2Fsecret" and body == "grant_type=client_credentials&scope=kafka"
        answer = {"access_token": _token(), "expires_in": 3600} if ok else {"error": "invalid_client"}
        self.send_response(200 if ok else 401)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())
        self.server.answers.append(ok)  # type: ignore[attr-defined]

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def _token() -> str:
    now = time.time()
    claims = {"sub": "me", "iat": now - 60, "exp": now + 3600}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "none"}, claims)]
    return ".".join([*parts, ""])


@pytest.fixture
def endpoint() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Endpoint)
    server.answers = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def secured(brokers_folder: Path, pytestconfig: pytest.Config) -> Iterator[SecuredKafka]:
    folder = brokers_folder / "secured"
    folder.mkdir()
    SecuredKafka.authority = Authority(folder, "authority")
    broker = start_for_tests(SecuredKafka, folder, pytestconfig)
    yield broker
    broker.kill()


@pytest.fixture(scope="module")
def admin(secured: SecuredKafka) -> Iterator[Log]:
    log = Log(secured.url)
    yield log
    log.close()


def _oauth(endpoint: ThreadingHTTPServer, secret: str = SECRET) -> dict[str, Any]:
    url = f"http://127.0.0.1:{endpoint.server_port}/token"
    return {
        "sasl_mechanism": "OAUTHBEARER",
        "oauth_token_url": url,
        "oauth_client_id": "me",
        "oauth_client_secret": secret,
        "oauth_scope": "kafka",
    }


@pytest.mark.each_value
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "a token in a file", "mutual TLS"])
async def test_source_and_sink_log_in(secured, admin, address, query, endpoint, tmp_path, mechanism, each_client):
    topic = admin.create()
    parameters: dict[str, Any] = {"bootstrap_servers": f"{secured.host}:{secured.sasl_port}"}
    match mechanism:
        case "OAUTHBEARER":
            parameters |= _oauth(endpoint)
        case "a token in a file":
            (tmp_path / "token").write_text(f"{_token()}\n")
            parameters |= {"sasl_mechanism": "OAUTHBEARER", "oauth_token_file": tmp_path / "token"}
        case "mutual TLS":
            pair = secured.authority.issue("client")
            parameters = {"bootstrap_servers": f"{secured.host}:{secured.ports['tls']}", "tls": True}
            parameters |= {"tls_ca": secured.authority.cert, "tls_certificate": pair.cert, "tls_key": pair.key}
        case scram:
            admin.ask(lambda client: client.alter_user_scram_credentials([UserScramCredentialUpsertion("me", scram, SECRET)]))
            parameters |= {"sasl_mechanism": scram, "username": "me", "password": SECRET}
    sink = sink_of(topic=topic, sink=topic, **parameters)
    try:
        write(sink, 0, numbered(0, 10))
    finally:
        sink.close()
    one = query()
    more = {"metadata_max_age_ms": "60000"} if each_client == "kafka-python" else {"topic.metadata.refresh.interval.ms": "60000"}
    async with reading(address, topics=topic, client_properties=more, **parameters):
        await one.attach()
        assert numbers(await one.read(10)) == list(range(10))
    if mechanism == "OAUTHBEARER":
        assert endpoint.answers == [True]  # one token for all of their connections


def test_a_login_that_fails_is_told_with_the_reason(secured, admin, endpoint, tmp_path, caplog, each_client):
    topic = admin.create()
    server = f"{secured.host}:{secured.sasl_port}"
    here = {"source": "s", "topics": topic, "bootstrap_servers": server, "client": each_client}

    def check(**parameters: Any) -> str:
        assert KAFKA.check is not None
        return KAFKA.check(KafkaParameters(**here, **parameters))

    with pytest.raises(KafkaFailed, match=r"/token answers 401 Unauthorized: invalid_client; check oauth_client_id") as refused:
        check(**_oauth(endpoint, "not.the.secret"))
    with pytest.raises(KafkaFailed, match=r"oauth_token_file .*/nowhere: .*No such file"):
        check(sasl_mechanism="OAUTHBEARER", oauth_token_file=tmp_path / "nowhere")
    (tmp_path / "token").write_text("no.such.token")
    with pytest.raises(KafkaFailed, match="rejects the login with OAUTHBEARER"):
        check(sasl_mechanism="OAUTHBEARER", oauth_token_file=tmp_path / "token")
    with pytest.raises(KafkaFailed, match="rejects user 'me' with SCRAM-SHA-512: check username, password"):
        check(sasl_mechanism="SCRAM-SHA-512", username="me", password="not.the.secret")
    assert "not.the.secret" not in f"{refused.value}{caplog.text}"


def test_a_login_that_librdkafka_fails_at_is_told_with_the_reason(secured, admin, endpoint, tmp_path, caplog):
    """Most failures are found before, by kafka-python: these are of credentials that were replaced since."""
    pytest.importorskip("confluent_kafka")
    topic = admin.create()
    (tmp_path / "token").write_text("no.such.token")
    stranger = Authority(tmp_path, "stranger")
    scram = {"sasl_mechanism": "SCRAM-SHA-512", "username": "me", "password": "not.the.secret"}
    faults: list[tuple[str, dict[str, Any]]] = [
        ("rejects user me with SCRAM-SHA-512: check its credentials", scram),
        ("/token answers 401 Unauthorized: invalid_client; check oauth_client_id", _oauth(endpoint, "not.the.secret")),
        ("oauth_token_file .*/nowhere: .*No such file", _file(tmp_path / "nowhere")),
        ("rejects this client with OAUTHBEARER", _file(tmp_path / "token")),
        ("TLS fails: .*check tls_ca, tls_certificate and tls_key", {"tls": True, "tls_ca": stranger.cert}),
    ]
    for told, login in faults:
        port = secured.ports["tls"] if "tls" in login else secured.sasl_port
        here = {"client": "librdkafka", "bootstrap_servers": f"{secured.host}:{port}", **login}
        with pytest.raises(KafkaFailed, match=told) as refused:
            LibrdkafkaTransactions(KafkaSinkParameters(topic=topic, sink=topic, **here), 65536)
        assert "not.the.secret" not in f"{refused.value}{caplog.text}"
        with closing(LibrdkafkaFetcher(KafkaParameters(source="s", topics=topic, **here))) as fetcher:
            with pytest.raises(KafkaFailed, match=told) as refused:
                _fetch_until_it_fails(fetcher, topic)
            assert "not.the.secret" not in f"{refused.value}{caplog.text}"


def _file(path: Path) -> dict[str, Any]:
    return {"sasl_mechanism": "OAUTHBEARER", "oauth_token_file": path}


def _fetch_until_it_fails(fetcher: LibrdkafkaFetcher, topic: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        with suppress(KafkaAway):
            fetcher.fetch([Wanted(TopicPartition(topic, 0), topic, 0)], hurry=False)
