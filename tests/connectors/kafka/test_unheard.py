"""A consumer of kafka-python that learns nothing of a partition is replaced."""

from collections.abc import Sequence
from typing import Any

import pytest
from kafka import TopicPartition
from tests.connectors.kafka.rig import numbered, numbers, reading

from headrace.connectors.kafka import KafkaParameters, python_fetcher, unheard
from headrace.connectors.kafka.fetcher import Ends, Fetched, Wanted
from headrace.connectors.kafka.python_fetcher import PythonFetcher
from headrace.connectors.kafka.stretches import StretchConsumer
from headrace.connectors.kafka.unheard import MAX_PATIENCE_S, PATIENCE_S, Unheard

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class Site:
    """Brokers that answer nothing about some partitions, the consumers that ask them, and the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.mute: Sequence[TopicPartition] = ()
        self.made = list["Consumer"]()
        monkeypatch.setattr(python_fetcher, "StretchConsumer", self._consumer)
        parameters = KafkaParameters(source="s", topics="t", bootstrap_servers="127.0.0.1:1")
        self.fetcher = PythonFetcher(parameters, now=lambda: self.now)

    def _consumer(self, **_: Any) -> "Consumer":
        self.made.append(Consumer(self))
        return self.made[-1]

    def fetch(self, *partitions: TopicPartition) -> Fetched:
        return self.fetcher.fetch([Wanted(partition, "reader", None) for partition in partitions], hurry=False)

    def wait(self, seconds: float, *partitions: TopicPartition) -> Fetched:
        """Fetches once a second."""
        for _ in range(int(seconds)):
            self.now += 1.0
            fetched = self.fetch(*partitions)
        return fetched


class Consumer:
    """A consumer."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._assigned = set[TopicPartition]()
        self.closed = False

    def assignment(self) -> set[TopicPartition]:
        return self._assigned

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self._assigned = set(partitions)

    def seek_to_beginning(self, partition: TopicPartition) -> None:
        assert partition in self._assigned

    def poll(self, timeout_ms: int) -> dict[TopicPartition, Any]:
        assert not self.closed
        return {}

    def highwater(self, partition: TopicPartition) -> int | None:
        return None if partition in self._site.mute else 7

    def position(self, partition: TopicPartition, timeout_ms: int) -> int:
        return 3

    def close(self, autocommit: bool, timeout_ms: int) -> None:
        self.closed = True


def test_a_consumer_that_learns_nothing_of_a_partition_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch)
    site.mute = [SECOND]
    assert site.fetch(FIRST, SECOND).ends == {FIRST: Ends(7, 7)}
    assert site.wait(PATIENCE_S - 1, FIRST, SECOND).silent == ()
    assert len(site.made) == 1
    assert site.wait(1, FIRST, SECOND).silent == (SECOND,)
    assert site.made[0].closed, "another one asks again"
    site.mute = ()
    fetched = site.fetch(FIRST, SECOND)
    assert (fetched.silent, fetched.positions) == ((), {FIRST: 3, SECOND: 3})
    assert len(site.made) == 2


def test_consumers_are_replaced_ever_more_rarely_while_a_broker_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch)
    site.mute = [SECOND]
    assert site.wait(PATIENCE_S * (1 + 2 + 4 + 8) + 10, FIRST, SECOND).silent == (SECOND,), "it is named all the time"
    assert len(site.made) == 5
    site.mute = ()
    assert site.wait(10 * PATIENCE_S, FIRST, SECOND).silent == ()
    assert len(site.made) == 5, "idle partitions are known"


def test_nobody_waits_for_a_partition_that_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch)
    site.mute = [SECOND]
    site.wait(PATIENCE_S - 1, FIRST, SECOND)
    assert site.wait(2 * PATIENCE_S, FIRST).silent == ()
    assert len(site.made) == 1


def test_the_patience_has_a_limit_and_is_short_again_once_something_is_known() -> None:
    now = 0.0
    partitions = Unheard(lambda: now)
    partitions.begin()
    partitions.expect(FIRST)
    waits = []
    for _ in range(8):
        began = now
        while not partitions.ends_patience():
            now += 1.0
        partitions.begin()
        waits.append(now - began)
    assert waits == [20, 40, 80, 160, 320, 320, 320, MAX_PATIENCE_S]
    partitions.hear([FIRST, SECOND])
    assert not partitions.ends_patience()
    partitions.expect(FIRST)
    now += PATIENCE_S
    assert partitions.ends_patience()


async def test_records_are_read_although_the_lookup_of_where_they_begin_was_lost(log, topic, address, query, monkeypatch, caplog):
    made = []

    class Unlucky(StretchConsumer):
        def __init__(self, **configs):
            super().__init__(**configs)
            made.append(self)
            if len(made) == 1:
                self._fetcher._send_list_offsets_request = self._never_answered

        async def _never_answered(self, *_):
            await self._fetcher._net.sleep(1e6)

    monkeypatch.setattr(python_fetcher, "StretchConsumer", Unlucky)
    monkeypatch.setattr(unheard, "PATIENCE_S", 0.5)
    log.append(topic, numbered(0, 3))
    one = query()
    async with reading(address, bootstrap_servers=log.servers, topics=topic):
        await one.attach()
        assert numbers(await one.read(3)) == [0, 1, 2]
    assert len(made) > 1
    assert f"where partition 0 of topic {topic} begins and ends" in caplog.text
