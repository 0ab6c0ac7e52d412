"""An at-least-once sink that produces to a Kafka topic, with kafka-python or with librdkafka.

`python -m headrace.laboratory.bench.connectors.produced GATEWAY CLIENT SERVERS TOPIC` runs it. CLIENT is the name of a system.
"""

import sys
from importlib import import_module
from typing import Any

from headrace.sdk import Rows, Sink, run

_CLOSE_S = 10.0


class Produced(Sink):
    """Produces the value of each message, and waits for the brokers at the end of each part."""

    name = "bench"

    def __init__(self, servers: str, topic: str) -> None:
        self._producer = import_module("kafka").KafkaProducer(bootstrap_servers=servers.split(","), linger_ms=0)
        self._topic = topic

    def write(self, rows: Rows) -> None:
        """Sends the rows."""
        for message in rows.messages():
            self._producer.send(self._topic, message.value)

    def flush(self) -> None:
        """Waits until the brokers confirm all messages."""
        self._producer.flush()

    def close(self) -> None:
        """Closes the producer."""
        self._producer.close()


class ProducedByLibrdkafka(Sink):
    """The same with librdkafka."""

    name = "bench"

    def __init__(self, servers: str, topic: str) -> None:
        self._producer = import_module("confluent_kafka").Producer({"bootstrap.servers": servers, "linger.ms": 0})
        self._topic = topic
        self._error: Any = None

    def write(self, rows: Rows) -> None:
        """Sends the rows."""
        for message in rows.messages():
            self._producer.produce(self._topic, message.value, on_delivery=self._note)

    def flush(self) -> None:
        """Waits until the brokers confirm all messages.

        Raises:
            RuntimeError: A message is not stored.
        """
        self._producer.flush()
        if self._error is not None:
            raise RuntimeError(str(self._error))

    def close(self) -> None:
        """Closes the producer."""
        self._producer.flush(_CLOSE_S)

    def _note(self, error: Any, _: Any) -> None:
        self._error = self._error or error


if __name__ == "__main__":
    gateway, client, servers, topic = sys.argv[1:]
    sink = ProducedByLibrdkafka if client == "kafka_librdkafka" else Produced
    sys.exit(run(sink(servers, topic), gateway=gateway))
