"""The `rabbitmq-sink`: publishes with confirms, at least once."""

import re
import time
from collections.abc import Sequence
from typing import cast

from headrace.connectors._connector import VERSION
from headrace.connectors.rabbitmq._errors import RabbitMQError, Rejected, Unavailable
from headrace.connectors.rabbitmq._parameters import RabbitMQSinkParameters
from headrace.connectors.rabbitmq.outgoing import Outgoing, RoutingKey, Unfit, outgoing
from headrace.connectors.rabbitmq.publisher import Publisher
from headrace.connectors.retry import Retry, gave_up
from headrace.sdk import WRITTEN, AsyncSink, Message, Outcome, Outcomes, Part, Refused, Rows

_TOO_LARGE = re.compile(r"message size \d+ is larger than .*max size (\d+)")


class RabbitMQSink(AsyncSink):
    """Publishes messages. Messages that are unconfirmed when a connection is lost are published again on the next one."""

    connector = "rabbitmq-sink"
    version = VERSION

    def __init__(self, parameters: RabbitMQSinkParameters) -> None:
        """Creates the sink, without connecting."""
        self.name = parameters.sink
        self._parameters = parameters
        self._routing_key = RoutingKey(parameters.routing_key)
        self._publisher: Publisher | None = None

    async def write(self, rows: Rows) -> Outcomes:
        """Publishes rows; returns once the broker has confirmed or returned each.

        Raises:
            RabbitMQError: The broker was unavailable for too long, or rejects the connection.
        """
        made = [self._outgoing(message, rows.part) for message in rows.messages()]
        await self._publish([message for message in made if isinstance(message, Outgoing)])
        outcomes = [message if isinstance(message, Refused) else message.outcome for message in made]
        if outcomes.count(WRITTEN) == len(outcomes):
            return None
        # For the SDK, a message without an outcome is an error.
        return cast("Sequence[Outcome]", outcomes)

    async def close(self) -> None:
        """Closes the connection, if there is one. The next write opens another."""
        if self._publisher is not None:
            await self._publisher.close()
            self._publisher = None

    def _outgoing(self, message: Message, part: Part | None) -> Outgoing | Refused:
        """Converts a row to a message, or its refusal."""
        try:
            return outgoing(message, part, self._routing_key, persistent=self._parameters.persistent)
        except Unfit as unfit:
            return Refused(str(unfit))

    async def _publish(self, messages: Sequence[Outgoing]) -> None:
        """Publishes messages, with retries, until each has an outcome."""
        with Retry(f"sink {self.name}", self) as retry:
            await self._keep_publishing(messages, retry)

    async def _keep_publishing(self, messages: Sequence[Outgoing], retry: Retry) -> None:
        began = time.monotonic()
        left = messages
        while left:
            error = await self._attempt(left, retry)
            still = [message for message in left if message.outcome is None]
            if len(still) < len(left):
                began = time.monotonic()
            elif time.monotonic() - began >= self._parameters.wait_seconds:
                raise Unavailable(gave_up(error, self._parameters.wait_seconds, "wait_seconds")) from error
            left = still
            if left:
                await retry.wait(error)

    async def _attempt(self, messages: Sequence[Outgoing], retry: Retry) -> RabbitMQError:
        """Publishes messages once; returns why some have no outcome, if so.

        Raises:
            RabbitMQError: The broker rejects the request permanently.
        """
        try:
            publisher = await self._connected(retry)
            await publisher.publish(messages)
            return Unavailable("the broker temporarily rejects messages: is a queue at its limit?")
        except Rejected as error:
            if too_large := _TOO_LARGE.search(str(error)):
                _refuse_above(int(too_large[1]), messages)
            elif len(messages) > 1:
                await self._one_by_one(messages, retry)
            else:
                messages[0].outcome = Refused(f"the broker does not allow it: {error}")
            return error
        except Unavailable as error:
            return error

    async def _one_by_one(self, messages: Sequence[Outgoing], retry: Retry) -> None:
        """Publishes each message by itself while the broker is available, to find messages that are not allowed.

        Raises:
            RabbitMQError: The broker rejects the request permanently.
        """
        for message in messages:
            if message.outcome is None and type(await self._attempt([message], retry)) is Unavailable and message.outcome is None:
                return

    async def _connected(self, retry: Retry) -> Publisher:
        """Returns the open publisher, or a new one."""
        if self._publisher is not None and self._publisher.lost:
            await self.close()
        if self._publisher is None:
            self._publisher = await Publisher.open(self._parameters, self)
            retry.connected()
        return self._publisher


def _refuse_above(limit: int, messages: Sequence[Outgoing]) -> None:
    """Refuses messages above the broker's limit: the broker closes the channel because of them, and reports only the limit."""
    for message in messages:
        if message.outcome is None and len(message.body) > limit:
            message.outcome = Refused(
                f"it has {len(message.body)} bytes, and the broker accepts at most {limit} (max_message_size)"
            )
