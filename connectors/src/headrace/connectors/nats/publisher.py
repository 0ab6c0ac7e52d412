"""Publishes to JetStream with many messages in flight."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass

from nats.aio.msg import Msg

from headrace.connectors.nats._errors import NatsAway
from headrace.connectors.nats._parameters import NatsSinkParameters
from headrace.connectors.nats.client import Client
from headrace.connectors.nats.outgoing import Outgoing
from headrace.connectors.nats.settings import is_full_subject

_ANSWER_S = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of JetStream to a message.

    Attributes:
        code: 0 if the message is stored, 503 if no stream stores the subject, or else the status of the error.
        error: The error code; 0 for none.
        text: The description of the error.
    """

    code: int = 0
    error: int = 0
    text: str = ""

    @property
    def is_of_full_subject(self) -> bool:
        """Whether the stream refuses messages of this subject only, because it has enough of them."""
        return is_full_subject(self.text, self.error)


STORED = Answer()
REPEATED = Answer(text="the stream already has a message with this id")
UNROUTED = Answer(503, text="no stream stores the subject")


class Publisher:
    """Publishes on one connection."""

    def __init__(self, client: Client, parameters: NatsSinkParameters) -> None:
        """Creates the publisher of a connection."""
        self.client = client
        self._max_messages, self._max_bytes = parameters.max_in_flight, parameters.max_in_flight_bytes
        self._inbox = client.new_inbox()
        self._round = 0
        self._outgoing: Sequence[Outgoing] = ()
        self._answers: list[Answer | None] = []
        self._messages = self._bytes = 0
        self._room_for = (0, 0)
        self._wake = asyncio.Event()

    async def start(self) -> None:
        """Subscribes to acknowledgements."""
        await self.client.subscribe(f"{self._inbox}.*.*", cb=self._answered, pending_msgs_limit=0, pending_bytes_limit=0)
        self.client.watchers.append(self._wake.set)

    async def publish(self, outgoing: Sequence[Outgoing]) -> tuple[list[Answer | None], Exception | None]:
        """Publishes messages in order; returns the answer to each, None for no answer, and the error, if any."""
        self._round += 1
        self._outgoing, self._answers = outgoing, [None] * len(outgoing)
        self._messages = self._bytes = 0
        inbox = f"{self._inbox}.{self._round}."
        try:
            for place, message in enumerate(outgoing):
                if self._messages >= self._max_messages or (self._messages and self._bytes + message.size > self._max_bytes):
                    await self._until(self._max_messages // 2, max(0, self._max_bytes - message.size) // 2)
                self._messages += 1
                self._bytes += message.size
                await self.client.publish(message.subject, message.payload, f"{inbox}{place}", message.headers)
            await self._until(0, 0)
        except Exception as error:
            return self._answers, error
        return self._answers, None

    async def _until(self, messages: int, bytes_: int) -> None:
        """Waits until no more than this number of messages is in flight.

        Raises:
            NatsAway: The connection is lost, or acknowledgements stop arriving.
        """
        self._room_for = (messages, bytes_)
        while self._messages > messages or self._bytes > bytes_:
            if self.client.lost:
                raise self.client.loss
            self._wake.clear()
            before = self._messages
            try:
                async with asyncio.timeout(_ANSWER_S):
                    await self._wake.wait()
            except TimeoutError:
                if self._messages == before:
                    raise NatsAway(f"{self.client.where} does not acknowledge what is published") from None

    async def _answered(self, message: Msg) -> None:
        """Handles an answer, unless it is too late, or comes from another subscriber of the subject."""
        *_, round_, place = message.subject.split(".")
        if int(round_) != self._round or self._answers[int(place)] is not None or (answer := _read(message)) is None:
            return
        self._answers[int(place)] = answer
        self._messages -= 1
        self._bytes -= self._outgoing[int(place)].size
        if self._messages <= self._room_for[0] and self._bytes <= self._room_for[1]:
            self._wake.set()


def _read(message: Msg) -> Answer | None:
    """Parses an answer; None if it is not from JetStream."""
    if message.headers and message.headers.get("Status") == "503":
        return UNROUTED
    try:
        said = json.loads(message.data)
        if "error" in said:
            error = said["error"]
            return Answer(error["code"], error.get("err_code", 0), error.get("description", ""))
        if "stream" not in said:
            return None
        return REPEATED if said.get("duplicate") else STORED
    except (ValueError, TypeError, KeyError):
        return None
