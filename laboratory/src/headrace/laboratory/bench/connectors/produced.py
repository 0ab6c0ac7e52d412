"""An at-least-once sink that produces to a Kafka topic.

`python -m headrace.laboratory.bench.connectors.produced GATEWAY SERVERS TOPIC` runs it.
"""

import sys
from collections.abc import Sequence

from kafka import KafkaProducer

from headrace.sdk import Rows, Sink, run


class Produced(Sink):
    """Produces the value of each message, and waits for the brokers at the end of each part."""

    name = "bench"

    def __init__(self, servers: Sequence[str], topic: str) -> None:
        self._producer = KafkaProducer(bootstrap_servers=list(servers), linger_ms=0)
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


if __name__ == "__main__":
    gateway, servers, topic = sys.argv[1:]
    sys.exit(run(Produced(servers.split(","), topic), gateway=gateway))
