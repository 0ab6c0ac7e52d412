"""A login that began on a connection and was not finished: brokers accept no second one there, so another connection logs in."""

from collections.abc import Callable
from typing import Any

import pytest
from kafka import TopicPartition
from kafka import errors as kafka_errors
from tests.connectors.kafka.test_unheard import Consumer, Site

from headrace.connectors.kafka import KafkaAway, KafkaParameters, cluster
from headrace.connectors.kafka.cluster import Cluster

PARTITION = TopicPartition("t", 0)


class Client:
    """A client for administrators, whose connection has such a login."""

    def __init__(self) -> None:
        self.is_closed = False

    def describe_topics(self, _: Any) -> list[Any]:
        raise kafka_errors.IllegalSaslStateError

    def close(self) -> None:
        self.is_closed = True


def test_an_administrator_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Client] = []

    def connect(_: Callable[[], Any], __: object) -> Client:
        made.append(Client())
        return made[-1]

    monkeypatch.setattr(cluster, "connect", connect)
    asked = Cluster(KafkaParameters(source="s", topics="t", bootstrap_servers="127.0.0.1:1"))
    for calls in (1, 2):
        with pytest.raises(KafkaAway, match="login was left unfinished"):
            asked.topics()
        assert len(made) == calls
        assert made[-1].is_closed


def test_a_consumer_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch)
    site.fetch(PARTITION)

    def poll(*_: object, **__: object) -> None:
        raise kafka_errors.IllegalSaslStateError

    with monkeypatch.context() as patched:
        patched.setattr(Consumer, "poll", poll)
        with pytest.raises(kafka_errors.IllegalSaslStateError):
            site.fetch(PARTITION)
    assert site.made[0].closed
    assert site.fetch(PARTITION).silent == ()
    assert len(site.made) == 2
