"""Publishes on one connection, with asynchronous confirms."""

import asyncio
import logging
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from pika import BasicProperties
from pika.channel import Channel
from pika.frame import Method
from pika.spec import Basic

from headrace.connectors.rabbitmq._errors import Unavailable
from headrace.connectors.rabbitmq._parameters import RabbitMQSinkParameters
from headrace.connectors.rabbitmq.link import Link
from headrace.connectors.rabbitmq.outgoing import Outgoing
from headrace.connectors.waiting import Reporting, goes_on, waits
from headrace.contract.counts import counted
from headrace.sdk import WRITTEN, Refused

log = logging.getLogger(__name__)

# How many messages to publish before yielding to the event loop.
_TURN_BYTES = 64 << 10
_TURN_MESSAGES = 100
# If the broker confirms nothing for this long, in seconds, messages are published again on another connection.
_SILENT_S = 15.0
_BLOCKED = "publishing"


class Publisher:
    """A connection whose channel has publisher confirms."""

    def __init__(self, parameters: RabbitMQSinkParameters, link: Link, connector: Reporting) -> None:
        """Creates a publisher that is not open yet."""
        self._connector = connector
        self._parameters = parameters
        self._link = link
        self._tag = 0
        self._unconfirmed: dict[int, Outgoing] = {}
        self._returned_tag = 0
        self._progress = asyncio.Event()
        self._blocked = False

    @classmethod
    async def open(cls, parameters: RabbitMQSinkParameters, connector: Reporting) -> "Publisher":
        """Opens the connection; `connector` reports that it waits while the broker blocks publishers.

        Raises:
            RabbitMQError: The broker is unavailable, or rejects the connection.
        """
        link = await Link.open(parameters, parameters.sink)
        publisher = cls(parameters, link, connector)
        link.lost.add_done_callback(lambda _: publisher._progress.set())
        link.connection.add_on_connection_blocked_callback(publisher._on_blocked)
        link.connection.add_on_connection_unblocked_callback(publisher._on_unblocked)
        link.channel.add_on_return_callback(publisher._on_return)
        try:
            await link.ask(link.channel.confirm_delivery, publisher._on_confirm)
        except BaseException:
            await link.close()
            raise
        return publisher

    @property
    def lost(self) -> bool:
        """Whether the connection is lost."""
        return self._link.lost.done()

    async def close(self) -> None:
        """Closes the connection."""
        goes_on(self._connector, _BLOCKED)
        await self._link.close()

    async def publish(self, messages: Sequence[Outgoing]) -> None:
        """Publishes messages, and waits for the broker's answers.

        Messages that the broker confirmed or returned have an outcome afterwards; temporarily rejected ones have none.

        Raises:
            RabbitMQError: The connection is lost. Messages without an outcome may or may not be published.
        """
        window, frame_max = self._parameters.window, self._link.frame_max
        written = 0
        for count, message in enumerate(messages, 1):
            if len(self._unconfirmed) >= window:
                await self._confirmed_but(window // 2)
            if (size := message.excess(frame_max)) is not None:
                text = f"its headers and properties make a frame of {size} bytes, and the broker accepts at most {frame_max}"
                message.outcome = Refused(f"{text} (frame_max)")
                continue
            self._publish(message)
            written += len(message.body)
            if written >= _TURN_BYTES or not count % _TURN_MESSAGES:
                written = 0
                await asyncio.sleep(0)
                await self._link.wire.writable.wait()
        await self._confirmed_but(0)

    def _publish(self, message: Outgoing) -> None:
        """Publishes a message."""
        if self.lost:
            raise self._link.lost.result()
        self._tag += 1
        self._unconfirmed[self._tag] = message
        self._link.channel.basic_publish(
            self._parameters.exchange, message.routing_key, message.body, message.properties, mandatory=self._parameters.mandatory
        )

    async def _confirmed_but(self, number: int) -> None:
        """Waits until at most this number is unconfirmed; without limit while the broker blocks publishers."""
        while len(self._unconfirmed) > number:
            if self.lost:
                raise self._link.lost.result()
            self._progress.clear()
            try:
                async with asyncio.timeout(_SILENT_S):
                    await self._progress.wait()
            except TimeoutError:
                self._meet_silence()

    def _meet_silence(self) -> None:
        """Handles a broker that has confirmed nothing for a while."""
        said = f"{self._link.broker} does not confirm {counted(len(self._unconfirmed), 'message')}"
        if self._blocked:
            log.warning("sink %s: %s: it blocks publishers; waiting", self._parameters.sink, said)
        else:
            self._link.lose(Unavailable(f"{said}, for {_SILENT_S:.0f} s"))

    def _on_confirm(self, frame: Method[Basic.Ack] | Method[Basic.Nack]) -> None:
        """Handles confirms and rejections of the broker."""
        last = frame.method.delivery_tag
        tags = [last]
        if frame.method.multiple:
            tags = list(takewhile(lambda tag: tag <= last, self._unconfirmed))
        for tag in tags:
            message = self._unconfirmed.pop(tag, None)
            if message is not None and message.outcome is None and isinstance(frame.method, Basic.Ack):
                message.outcome = WRITTEN
        self._progress.set()

    def _on_return(self, _: Channel, method: Basic.Return, properties: BasicProperties, body: bytes) -> None:
        """Handles a returned message.

        The broker will also confirm it. It does not identify the message, but returns messages in order.
        """
        routing_key, message_id = _as_bytes(method.routing_key), _as_bytes(properties.message_id)
        for tag, message in self._unconfirmed.items():
            same = message.body == body and message.routing_key == routing_key and message.properties.message_id == message_id
            if same and tag > self._returned_tag:
                self._returned_tag = tag
                message.outcome = Refused(f"it reaches no queue: {_where(self._parameters.exchange, routing_key)}")
                return
        self._link.lose(Unavailable(f"{self._link.broker} has returned an unknown message"))

    def _on_blocked(self, _: object, frame: Method[Any]) -> None:
        """Called when the broker blocks publishers, because it is short of memory or disk space."""
        self._blocked = True
        problem = f"{self._link.broker} accepts no messages: {frame.method.reason}"
        waits(self._connector, _BLOCKED, problem)
        log.warning("sink %s: %s; waiting", self._parameters.sink, problem)

    def _on_unblocked(self, _: object, __: object) -> None:
        """Called when the broker no longer blocks publishers."""
        self._blocked = False
        goes_on(self._connector, _BLOCKED)
        log.info("sink %s: %s accepts messages again", self._parameters.sink, self._link.broker)


def _as_bytes(text: str | bytes | None) -> bytes | None:
    """Returns the raw bytes of a text: pika decodes valid UTF-8."""
    return text.encode() if isinstance(text, str) else text


def _where(exchange: str, routing_key: bytes | None) -> str:
    """Describes the destination of a message."""
    key = (routing_key or b"").decode(errors="backslashreplace")
    return f"nothing is bound to exchange {exchange} for routing key {key!r}" if exchange else f"there is no queue {key!r}"
