"""The `nats-sink`: publishes to JetStream, and has each message acknowledged before it counts as written."""

import asyncio
import logging

import nats.errors
from nats.js.errors import NotFoundError

from headrace.connectors.nats._client import Client
from headrace.connectors.nats._connection import connect, jetstream
from headrace.connectors.nats._errors import NatsAway, NatsError, explain, passes
from headrace.connectors.nats._outgoing import Encoder, Outgoing, same_ids
from headrace.connectors.nats._parameters import NatsSinkParameters
from headrace.connectors.nats._publisher import REPEATED, STORED, UNROUTED, Answer, Publisher
from headrace.connectors.nats._retry import Retry
from headrace.sdk import WRITTEN, AsyncSink, Outcome, Outcomes, Refused, Rows

log = logging.getLogger(__name__)


class NatsSink(AsyncSink):
    """Publishes rows with a `Nats-Msg-Id`: JetStream drops those that it has had within its duplicate window."""

    connector = "nats-sink"
    version = "0.1.0"

    def __init__(self, parameters: NatsSinkParameters) -> None:
        """Connects to nothing yet."""
        self.name = parameters.sink
        self._parameters = parameters
        self._encoder = Encoder(parameters)
        self._publisher: Publisher | None = None

    async def write(self, rows: Rows) -> Outcomes:
        """Publishes rows, again where that may help, until JetStream has said of each what became of it.

        Raises:
            NatsAway: It has not, for longer than the sink shall wait.
            NatsRefused: It does not let this client in.
        """
        encoded = [self._encoder.encode(message, rows.part) for message in rows.messages()]
        for place, refused in list(same_ids(encoded)):
            encoded[place] = refused
        outcomes: list[Outcome] = [one if isinstance(one, Refused) else WRITTEN for one in encoded]
        left = {place: one for place, one in enumerate(encoded) if isinstance(one, Outgoing)}
        retry, loop = Retry(f"sink {self.name}"), asyncio.get_running_loop()
        give_up = loop.time() + self._parameters.retry_seconds
        while left:
            before = len(left)
            error = await self._publish(left, outcomes)
            if len(left) < before:
                give_up = loop.time() + self._parameters.retry_seconds
                retry.succeeded()
            if left and loop.time() >= give_up:
                raise NatsAway(f"{len(left)} messages are not written: {error}")
            if left:
                await retry.wait(error)
        return None if outcomes.count(WRITTEN) == len(outcomes) else outcomes

    async def _publish(self, left: dict[int, Outgoing], outcomes: list[Outcome]) -> NatsError:
        """Publishes once; takes out of `left` what is written or refused. Returns why the rest is neither."""
        try:
            publisher = await self._connected()
        except NatsAway as away:
            return away
        client = publisher.client
        for place in [place for place, message in left.items() if message.size > client.max_payload]:
            size = left.pop(place).size
            outcomes[place] = Refused(f"{size} bytes with headers, and the server takes at most {client.max_payload}")
        places = list(left)
        answers, broken = await publisher.publish([left[place] for place in places])
        if repeated := answers.count(REPEATED):
            log.info("sink %s: the stream has had %d of %d messages before", self.name, repeated, len(answers))
        why: NatsError = NatsAway(f"{client.where} says nothing of some messages")
        streams = _Streams(client, self._parameters.domain)
        for place, answer in zip(places, answers, strict=True):
            outcome = await _outcome(left[place], answer, streams)
            if isinstance(outcome, NatsError):
                why = outcome
            else:
                outcomes[place] = outcome
                del left[place]
        if broken is None:
            return why
        await self.close()
        client.check_allowed()
        return explain(broken, client.where)

    async def _connected(self) -> Publisher:
        """The connection; makes it where there is none.

        Raises:
            NatsAway: It cannot be made now.
            NatsRefused: The server refuses it.
        """
        if self._publisher is None or self._publisher.client.is_closed:
            publisher = Publisher(await connect(self._parameters), self._parameters)
            await publisher.start()
            self._publisher = publisher
        return self._publisher

    async def close(self) -> None:
        """Closes the connection."""
        if self._publisher is not None:
            await self._publisher.client.leave()
            self._publisher = None


class _Streams:
    """Whether there are streams for subjects; each is asked for once."""

    def __init__(self, client: Client, domain: str | None) -> None:
        """Asks for nothing yet."""
        self._client, self._domain = client, domain
        self._known: dict[str, bool] = {}
        self._silent = False

    async def take(self, subject: str) -> bool:
        """False where JetStream says that no stream takes a subject; True where it does not know either."""
        if subject not in self._known:
            self._known[subject] = await self._ask(subject)
        return self._known[subject]

    async def _ask(self, subject: str) -> bool:
        """Asks JetStream, unless it has not answered before."""
        if self._silent:
            return True
        try:
            await jetstream(self._client, self._domain).find_stream_name_by_subject(subject)
        except NotFoundError:
            return False
        except (nats.errors.Error, OSError, TimeoutError):
            self._silent = True
        return True


async def _outcome(message: Outgoing, answer: Answer | None, streams: _Streams) -> Outcome | NatsError:
    """What became of a message; an error where it may yet be written."""
    if answer is STORED or answer is REPEATED:
        return WRITTEN
    if answer is None or answer is UNROUTED:
        # While a server starts, too, nobody takes a subject: only JetStream itself can say that it is for good.
        if await streams.take(message.subject):
            return NatsAway(f"subject {message.subject}: JetStream does not answer")
        return Refused(f"no stream takes the subject {message.subject}")
    said = f"JetStream says: {answer.text} ({answer.error})"
    return NatsAway(said) if passes(answer.code, answer.error) else Refused(said)
