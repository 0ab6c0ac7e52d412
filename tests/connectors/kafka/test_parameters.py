"""The parameters of the Kafka connectors, and the settings of kafka-python that follow from them."""

import logging
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.errors import KafkaTimeoutError
from pydantic import ValidationError

from headrace.connectors.kafka import KAFKA, KafkaAway, KafkaFailed, KafkaParameters, KafkaSinkParameters, _connection
from headrace.connectors.kafka.librdkafka_fetcher import LibrdkafkaFetcher
from headrace.connectors.kafka.librdkafka_transactions import LibrdkafkaTransactions
from headrace.connectors.kafka.producer import Producer
from headrace.connectors.kafka.stretches import StretchConsumer

HERE = {"bootstrap_servers": "127.0.0.1:9092"}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"topics": "t", "bootstrap_servers": "127.0.0.1"}, "'127.0.0.1' is not HOST:PORT"),
        ({"topics": "t", "tls_ca": "ca.pem"}, "require tls = true"),
        ({"topics": "t", "tls": True, "tls_key": "key.pem"}, "tls_key needs tls_certificate"),
        ({"topics": "t", "username": "me"}, "give all of them, or none"),
        ({"topics": "t", "sasl_mechanism": "PLAIN", "username": "me"}, "give all of them, or none"),
        ({"topics": "t", "sasl_mechanism": "OAUTHBEARER"}, "OAUTHBEARER needs either oauth_token_file, or oauth_token_url"),
        ({"topics": "t", "sasl_mechanism": "OAUTHBEARER", "oauth_token_url": "http://h"}, "OAUTHBEARER needs either"),
        (
            {"topics": "t", "sasl_mechanism": "OAUTHBEARER", "oauth_token_file": "f", "oauth_scope": "s"},
            "OAUTHBEARER needs either",
        ),
        ({"topics": "t", "sasl_mechanism": "OAUTHBEARER", "oauth_token_file": "f", "username": "me"}, "uses neither username"),
        ({"topics": "t", "oauth_token_file": "f"}, "require sasl_mechanism = OAUTHBEARER"),
        ({"topics": "t", "sasl_mechanism": "AWS_MSK_IAM"}, "AWS_MSK_IAM requires tls = true"),
        ({"topics": "t", "client_properties": {"acks": "0"}}, "the connector sets acks itself"),
        ({"topics": "t", "client": "librdkafka", "client_properties": {"group.id": "g"}}, "the connector sets group.id itself"),
        (
            {"topics": "t", "client": "librdkafka", "client_properties": {"batch.size": "9"}},
            "the connector sets batch.size itself",
        ),
        ({"topics": "t", "client": "librdkafka", "tls": True, "sasl_mechanism": "AWS_MSK_IAM"}, "needs client = kafka-python"),
        ({"topics": "t", "client_properties": {"no_such": "0"}}, "kafka-python has no setting no_such"),
        ({"topics": "t", "client_properties": {"metadata_max_age_ms": "soon"}}, "metadata_max_age_ms: 'soon' is not a number"),
        ({"topics": "t", "client_properties": {"ssl_check_hostname": "no"}}, "'no' is not true or false"),
        ({}, "give either topics or topic_pattern"),
        ({"topics": "t", "topic_pattern": "t.*"}, "give either topics or topic_pattern"),
        ({"topics": "a b"}, "'a b' is not a valid topic name"),
        ({"topics": ".."}, "'..' is not a valid topic name"),
        ({"topic_pattern": "("}, "topic_pattern is not a valid regular expression"),
    ],
)
def test_parameters_that_do_not_add_up_are_refused(parameters, message):
    with pytest.raises(ValidationError, match=message):
        KafkaParameters(**{**HERE, "source": "s", **parameters})


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("a b", "write a name of letters"),
        ("", "write a name of letters"),
        ("{value}", "{value} is not a placeholder"),
        ("{header:}", "{header:} is not a placeholder"),
        ("x" * 250, "write a name of letters"),
    ],
)
def test_a_topic_that_cannot_be_is_refused(topic, message):
    with pytest.raises(ValidationError, match=message):
        KafkaSinkParameters(**HERE, sink="s", topic=topic)


def test_clients_are_told_how_to_connect():
    plain = KafkaParameters(**HERE, source="s", topics="t").client_configs(KafkaConsumer)
    assert plain["security_protocol"] == "PLAINTEXT"
    secured = KafkaParameters(
        **HERE,
        source="s",
        topics="t",
        tls=True,
        tls_ca=Path("ca.pem"),
        tls_certificate=Path("cert.pem"),
        tls_key=Path("key.pem"),
        tls_key_password="k",
        sasl_mechanism="SCRAM-SHA-512",
        username="me",
        password="p",
    ).client_configs(KafkaConsumer)
    assert {name: value for name, value in secured.items() if name.startswith("s")} == {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": "ca.pem",
        "ssl_certfile": "cert.pem",
        "ssl_keyfile": "key.pem",
        "ssl_password": "k",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "me",
        "sasl_plain_password": "p",
    }


def test_properties_of_librdkafka_are_set_or_refused_never_ignored():
    """Whatever the connector sets for librdkafka, another value of it is refused, or it takes effect."""
    library = pytest.importorskip("confluent_kafka")
    made: list[dict[str, object]] = []

    def sets(**more: object) -> dict[str, object]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(library, "Producer", lambda settings: made.append(settings) or SimpleNamespace(init_transactions=len))
            patch.setattr(library, "Consumer", made.append)
            patch.setattr(LibrdkafkaTransactions, "_complete", lambda *_: None)
            own = {**HERE, "client": "librdkafka", **more}
            LibrdkafkaTransactions(KafkaSinkParameters(**own, sink="s", topic="t"), 1)
            LibrdkafkaFetcher(KafkaParameters(**own, source="s", topics="t"))._connect()
        return {**made[-2], **made[-1]}

    names = [name for name, value in sets().items() if not callable(value) and name != "logger"]
    assert len(names) > 20
    for name in names:
        with suppress(ValidationError):
            assert sets(client_properties={name: "77"})[name] == "77"


def test_a_client_that_cannot_be_made_leaves_no_thread_behind(monkeypatch):
    monkeypatch.setattr(_connection, "BOOTSTRAP_S", 0.1)
    parameters = KafkaParameters(bootstrap_servers="127.0.0.1:1", source="s", topics="t", client_id="failing")
    for client in (KafkaAdminClient, StretchConsumer, Producer):
        with pytest.raises(KafkaTimeoutError):
            client(**parameters.client_configs(client))
    assert not [thread.name for thread in threading.enumerate() if "failing" in thread.name]


def test_what_kafka_python_says_over_and_over_is_logged_once(caplog):
    logger = logging.getLogger("kafka.net.manager")
    for number in range(3):
        logger.error("test: no connection, attempt %d", number)
    assert [message for message in caplog.messages if "test:" in message] == ["test: no connection, attempt 0"]


def test_check_tells_what_there_is(log, topic, kafka, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)

    def check(**parameters: object) -> str:
        assert KAFKA.check is not None
        return KAFKA.check(KafkaParameters(**{"bootstrap_servers": log.servers, "source": "s", **parameters}))

    other = log.create(2)
    assert check(topics=[topic, other]) == "2 topics with 3 partitions"
    assert check(topic_pattern=topic) == "1 topic with 1 partition"
    with pytest.raises(KafkaFailed, match=f"no topic nowhere at {log.servers}: create it, or correct topics"):
        check(topics=["nowhere", topic])
    with monkeypatch.context() as patch:
        patch.setattr(_connection, "BOOTSTRAP_S", 0.5)
        with pytest.raises(KafkaAway, match=r"no broker can be reached: 127.0.0.1:1: Connection refused"):
            check(topics=topic, bootstrap_servers="127.0.0.1:1")
    login = f"{kafka.host}:{kafka.sasl_port}"
    with pytest.raises(KafkaFailed, match=f"{login} requires authentication: set sasl_mechanism, username and password"):
        check(topics=topic, bootstrap_servers=login)
    with pytest.raises(KafkaFailed, match="rejects user 'me' with PLAIN: check username, password and sasl_mechanism"):
        check(topics=topic, bootstrap_servers=login, sasl_mechanism="PLAIN", username="me", password="secret-of-mine")
    assert "secret-of-mine" not in caplog.text
