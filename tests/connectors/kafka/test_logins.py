"""Logins with each mechanism, and mutual TLS, on a broker of its own."""

import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import UserScramCredentialUpsertion
from tests.connectors.kafka.rig import DEADLINE, numbered, numbers, reading, sink_of, write
from tests.connectors.kafka.secured import SECRET, token
from tests.gateway.certificates import Authority

from headrace.connectors.kafka import KAFKA, KafkaAway, KafkaFailed, KafkaParameters, KafkaSinkParameters
from headrace.connectors.kafka.fetcher import Wanted
from headrace.connectors.kafka.librdkafka_fetcher import LibrdkafkaFetcher
from headrace.connectors.kafka.librdkafka_transactions import LibrdkafkaTransactions


@pytest.mark.each_value
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "a token in a file", "mutual TLS"])
async def test_source_and_sink_log_in(secured, admin, address, query, endpoint, tmp_path, mechanism, each_client):
    topic = admin.create()
    parameters: dict[str, Any] = {"bootstrap_servers": f"{secured.host}:{secured.sasl_port}"}
    match mechanism:
        case "OAUTHBEARER":
            parameters |= endpoint.login()
        case "a token in a file":
            (tmp_path / "token").write_text(f"{token()}\n")
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
        check(**endpoint.login("not.the.secret"))
    with pytest.raises(KafkaFailed, match=r"oauth_token_file .*/nowhere: .*No such file"):
        check(sasl_mechanism="OAUTHBEARER", oauth_token_file=tmp_path / "nowhere")
    (tmp_path / "token").write_text("no.such.token")
    with pytest.raises(KafkaFailed, match="rejects the token of OAUTHBEARER"):
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
        ("rejects user 'me' with SCRAM-SHA-512: check username, password", scram),
        ("/token answers 401 Unauthorized: invalid_client; check oauth_client_id", endpoint.login("not.the.secret")),
        ("oauth_token_file .*/nowhere: .*No such file", _file(tmp_path / "nowhere")),
        ("rejects the token of OAUTHBEARER", _file(tmp_path / "token")),
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
