"""Publishing on one connection, with confirms that are not waited for one by one."""

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
from headrace.connectors.rabbitmq._link import Link
from headrace.connectors.rabbitmq._outgoing import Outgoing
from headrace.connectors.rabbitmq._parameters import RabbitMQSinkParameters
from headrace.sdk import WRITTEN, Refused

log = logging.getLogger(__name__)

# After how much of it others have their turn on the loop.
_TURN_BYTES = 64 << 10
_TURN_MESSAGES = 100
# A broker that lives, and confirms nothing for so long, is given it again on another connection.
_SILENT_SECONDS = 15.0


class Publisher:
    """A connection whose channel confirms what is published on it."""

    def __init__(self, parameters: RabbitMQSinkParameters, link: Link) -> None:
        """Takes a link."""
        self._parameters = parameters
        self._link = link
        self._tag = 0
        self._unconfirmed: dict[int, Outgoing] = {}
        self._returned_tag = 0
        self._progress = asyncio.Event()
        self._blocked = False

    @classmethod
    async def open(cls, parameters: RabbitMQSinkParameters) -> "Publisher":
        """Connects.

        Raises:
            RabbitMQError: The broker is away, or refuses.
        """
        link = await Link.open(parameters, parameters.sink)
        publisher = cls(parameters, link)
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
        """Whether it is of no more use."""
        return self._link.lost.done()

    async def close(self) -> None:
        """Closes the connection."""
        await self._link.close()

    async def publish(self, messages: Sequence[Outgoing]) -> None:
        """Publishes, and waits until the broker has said of each message what became of it.

        What it has taken or returned has an outcome then; what it does not take for now has none.

        Raises:
            RabbitMQError: The link is lost. What has no outcome may have been taken, or not.
        """
        window = self._parameters.window
        written = 0
        for count, message in enumerate(messages, 1):
            if len(self._unconfirmed) >= window:
                await self._confirmed_but(window // 2)
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
        """Waits until no more than so many are unconfirmed; without limit where the broker has said that it takes nothing."""
        while len(self._unconfirmed) > number:
            if self.lost:
                raise self._link.lost.result()
            self._progress.clear()
            try:
                async with asyncio.timeout(_SILENT_SECONDS):
                    await self._progress.wait()
            except TimeoutError:
                self._meet_silence()

    def _meet_silence(self) -> None:
        """The broker has confirmed nothing for a while."""
        said = f"{self._link.broker} does not confirm {len(self._unconfirmed)} messages"
        if self._blocked:
            log.warning("sink %s: %s: it blocks who publishes; waiting", self._parameters.sink, said)
        else:
            self._link.lose(Unavailable(f"{said}, for {_SILENT_SECONDS:.0f} s"))

    def _on_confirm(self, frame: Method[Basic.Ack] | Method[Basic.Nack]) -> None:
        """The broker has taken messages, or not."""
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
        """The broker has no queue for a message; it will confirm it, too. It does not say which one, but keeps to their order."""
        routing_key, message_id = _as_bytes(method.routing_key), _as_bytes(properties.message_id)
        for tag, message in self._unconfirmed.items():
            same = message.body == body and message.routing_key == routing_key and message.properties.message_id == message_id
            if same and tag > self._returned_tag:
                self._returned_tag = tag
                message.outcome = Refused(f"no queue takes it: {_where(self._parameters.exchange, routing_key)}")
                return
        self._link.lose(Unavailable(f"{self._link.broker} has returned a message that is not known here"))

    def _on_blocked(self, _: object, frame: Method[Any]) -> None:
        """The broker takes nothing from who publishes: it is short of memory, or disk."""
        self._blocked = True
        log.warning("sink %s: %s takes no messages: %s; waiting", self._parameters.sink, self._link.broker, frame.method.reason)

    def _on_unblocked(self, _: object, __: object) -> None:
        """It goes on."""
        self._blocked = False
        log.info("sink %s: %s takes messages again", self._parameters.sink, self._link.broker)


def _as_bytes(text: str | bytes | None) -> bytes | None:
    """A text as it was sent: pika decodes those that it can."""
    return text.encode() if isinstance(text, str) else text


def _where(exchange: str, routing_key: bytes | None) -> str:
    """Where a message was to go, for people."""
    key = (routing_key or b"").decode(errors="backslashreplace")
    return f"nothing is bound to exchange {exchange} for routing key {key!r}" if exchange else f"there is no queue {key!r}"
