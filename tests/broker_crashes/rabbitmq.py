"""A quorum queue, and a stream queue, each with a quorum queue for what comes of it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import pika
from pika.adapters.blocking_connection import BlockingChannel
from scripts.brokers import RabbitMQ
from tests.broker_crashes.pairs import Pair, again_while
from tests.broker_crashes.workload import Row, id_of, key_of, not_all_counted_once, not_at_least_once, value_of


class QueuePair(Pair):
    """`rabbitmq`, from a quorum queue, and `rabbitmq-sink`."""

    name = "rabbitmq"
    system = "rabbitmq"
    sink = "rabbitmq-sink"
    deduplicates = True
    kind: ClassVar[str] = "quorum"
    findings = staticmethod(not_all_counted_once)

    def __init__(self, broker: RabbitMQ) -> None:
        self._broker = broker
        self._queue, self._results = f"crashes.{self.name}", f"crashes.{self.name}.results"
        self._rows: list[Row] = []

    @property
    def source_parameters(self) -> Mapping[str, Any]:
        return {"url": self._broker.url, "queue": [self._queue], "key": "header:key"}

    @property
    def sink_parameters(self) -> Mapping[str, Any]:
        return {"url": self._broker.url, "routing_key": self._results}

    def make(self) -> None:
        with self._channel() as channel:
            for queue, kind in ((self._queue, self.kind), (self._results, "quorum")):
                channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})

    def publish(self, numbers: range) -> None:
        with self._channel(self._queue) as channel:
            channel.confirm_delivery()
            for number in numbers:
                properties = pika.BasicProperties(delivery_mode=2, message_id=id_of(number), headers={"key": key_of(number)})
                channel.basic_publish("", self._queue, value_of(number), properties, mandatory=True)

    def rows(self) -> list[Row]:
        """What is there is taken away: it is what was there before, and what is there now."""
        with self._channel(self._results) as channel:
            while (found := channel.basic_get(self._results))[0] is not None:
                self._rows.append(Row.decode(found[2]))
                channel.basic_ack(found[0].delivery_tag)
        return list(self._rows)

    def left(self) -> str | None:
        # What is delivered and not acknowledged counts, too: that only an operator can see.
        held = dict(line.split("\t") for line in self._broker.ctl("list_queues", "name", "messages").splitlines())
        return None if held[self._queue] == "0" else f"{held[self._queue]} messages in {self._queue}"

    @contextmanager
    def _channel(self, queue: str | None = None) -> Iterator[BlockingChannel]:
        """A channel, once the queue is there: it comes up later than the broker."""
        connection = again_while(pika.exceptions.AMQPError, lambda: self._connected(queue))
        try:
            yield connection.channel()
        finally:
            connection.close()

    def _connected(self, queue: str | None) -> pika.BlockingConnection:
        connection = pika.BlockingConnection(pika.URLParameters(self._broker.url))
        if queue is not None:
            try:
                connection.channel().queue_declare(queue, passive=True)
            except pika.exceptions.AMQPError:
                connection.close()
                raise
        return connection


class StreamPair(QueuePair):
    """`rabbitmq-stream` and `rabbitmq-sink`."""

    name = "rabbitmq-stream"
    deduplicates = False
    kind = "stream"
    findings = staticmethod(not_at_least_once)

    def left(self) -> str | None:
        return None
