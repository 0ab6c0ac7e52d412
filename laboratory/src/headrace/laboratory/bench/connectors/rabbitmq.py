"""RabbitMQ, with pika: durable classic queues, persistent messages."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import pika

from headrace.laboratory.bench.connectors.system import BODY, System, stamped

_PERSISTENT = pika.BasicProperties(delivery_mode=2)
_UNCONFIRMED = 2_000
_PREFETCH = 20_000
_ACKNOWLEDGED_AT_ONCE = 2_500


class RabbitMQ(System):
    """A node, given its AMQP URL."""

    name = "rabbitmq"
    keeps = False
    client = f"pika: SelectConnection, prefetch {_PREFETCH:,}, acknowledged {_ACKNOWLEDGED_AT_ONCE:,} at once; a classic queue"

    def fill(self, place: str, messages: int) -> None:
        """Publishes ahead of confirms, up to a limit."""
        sent = confirmed = 0

        def publish(channel: Any) -> None:
            nonlocal sent
            while sent < messages and sent - confirmed < _UNCONFIRMED:
                channel.basic_publish("", place, BODY, _PERSISTENT)
                sent += 1
            if confirmed >= messages and channel.is_open:
                channel.connection.close()

        def note(channel: Any, frame: Any) -> None:
            nonlocal confirmed
            # Confirms arrive in any order. The highest proves that the broker has read all messages before it.
            confirmed = max(confirmed, frame.method.delivery_tag)
            publish(channel)

        def begin(channel: Any) -> None:
            channel.confirm_delivery(lambda frame: note(channel, frame), callback=lambda _: publish(channel))

        self._run(lambda channel: channel.queue_declare(place, durable=True, callback=lambda _: begin(channel)))

    def drain(self, place: str, messages: int) -> float:
        """Consumes, and acknowledges in bulk."""
        begun, ended, taken = time.perf_counter(), 0.0, 0

        def take(channel: Any, delivery: Any, _properties: Any, _body: bytes) -> None:
            nonlocal taken, ended
            taken += 1
            if taken == messages:
                ended = time.perf_counter()
                channel.basic_ack(delivery.delivery_tag, multiple=True)
                channel.connection.close()
            elif not taken % _ACKNOWLEDGED_AT_ONCE:
                channel.basic_ack(delivery.delivery_tag, multiple=True)

        def begin(channel: Any) -> None:
            channel.basic_qos(prefetch_count=_PREFETCH, callback=lambda _: channel.basic_consume(place, take))

        self._run(begin)
        return ended - begun

    def publish(self, place: str, per_second: float, seconds: float) -> None:
        """Publishes without confirms, which would limit the rate."""
        connection = pika.BlockingConnection(pika.URLParameters(self.url))
        channel = connection.channel()
        channel.queue_declare(place, durable=True)
        for messages in stamped(per_second, seconds):
            for message in messages:
                channel.basic_publish("", place, message, _PERSISTENT)
            connection.process_data_events(0)
        connection.close()

    def remove(self, place: str) -> None:
        """Deletes the queue."""
        connection = pika.BlockingConnection(pika.URLParameters(self.url))
        connection.channel().queue_delete(place)
        connection.close()

    def source(self, place: str, name: str) -> Sequence[str]:
        """The connector `rabbitmq`."""
        return ["rabbitmq", "--queue", place, "--source", name]

    def secrets(self) -> dict[str, str]:
        """Returns the URL, which contains the password."""
        return {"HEADRACE_RABBITMQ_URL": self.url}

    def _run(self, begin: Callable[[Any], None]) -> None:
        """Opens a connection with a channel, and runs until it is closed.

        Raises:
            RuntimeError: The connection was closed by something other than this program.
        """
        why: list[BaseException] = []

        def closed(connection: Any, error: BaseException) -> None:
            why.append(error)
            connection.ioloop.stop()

        connection = pika.SelectConnection(
            pika.URLParameters(self.url),
            on_open_callback=lambda opened: opened.channel(on_open_callback=begin),
            on_open_error_callback=closed,
            on_close_callback=closed,
        )
        connection.ioloop.start()
        if not isinstance(why[0], pika.exceptions.ConnectionClosedByClient):
            raise RuntimeError(f"RabbitMQ: {why[0]!r}")
