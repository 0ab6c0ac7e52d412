"""The `nats-sink`: publishes to JetStream; a message counts as written once it is acknowledged."""

import asyncio
import logging

import nats.errors
from nats.js.errors import NotFoundError

from headrace.connectors._retry import Retry
from headrace.connectors.nats._client import Client
from headrace.connectors.nats._connection import connect, jetstream
from headrace.connectors.nats._errors import NatsAway, NatsError, explain, passes
from headrace.connectors.nats._outgoing import Encoder, Outgoing, same_ids
from headrace.connectors.nats._parameters import NatsSinkParameters
from headrace.connectors.nats._publisher import REPEATED, STORED, UNROUTED, Answer, Publisher
from headrace.sdk import WRITTEN, AsyncSink, Outcome, Outcomes, Refused, Rows

log = logging.getLogger(__name__)


class NatsSink(AsyncSink):
    """Publishes rows with a `Nats-Msg-Id`: JetStream drops duplicates within its duplicate window."""

    connector = "nats-sink"
    version = "0.1.0"

    def __init__(self, parameters: NatsSinkParameters) -> None:
        """Creates the sink, without connecting."""
        self.name = parameters.sink
        self._parameters = parameters
        self._encoder = Encoder(parameters)
        self._publisher: Publisher | None = None

    async def write(self, rows: Rows) -> Outcomes:
        """Publishes rows, with retries where they may help, until each has an outcome.

        Raises:
            NatsAway: Not all rows had an outcome within `retry_seconds`.
            NatsRefused: The server rejects this client.
        """
        encoded = [self._encoder.encode(message, rows.part) for message in rows.messages()]
        for place, refused in list(same_ids(encoded)):
            encoded[place] = refused
        outcomes: list[Outcome] = [one if isinstance(one, Refused) else WRITTEN for one in encoded]
        left = {place: one for place, one in enumerate(encoded) if isinstance(one, Outgoing)}
        retry, loop = Retry(f"sink {self.name}", self), asyncio.get_running_loop()
        give_up = loop.time() + self._parameters.retry_seconds
        while left:
            before = len(left)
            error = await self._publish(left, outcomes)
            if len(left) < before:
                give_up = loop.time() + self._parameters.retry_seconds
                retry.connected()
            if left and loop.time() >= give_up:
                raise NatsAway(f"{len(left)} messages are not written: {error}")
            if left:
                await retry.wait(error)
        return None if outcomes.count(WRITTEN) == len(outcomes) else outcomes

    async def _publish(self, left: dict[int, Outgoing], outcomes: list[Outcome]) -> NatsError:
        """Publishes once; removes written and refused messages from `left`. Returns why the rest is neither."""
        try:
            publisher = await self._connected()
        except NatsAway as away:
            return away
        client = publisher.client
        for place in [place for place, message in left.items() if message.size > client.max_payload]:
            size = left.pop(place).size
            outcomes[place] = Refused(f"{size} bytes with headers, and the server accepts at most {client.max_payload}")
        places = list(left)
        answers, broken = await publisher.publish([left[place] for place in places])
        if repeated := answers.count(REPEATED):
            log.info("sink %s: the stream already had %d of %d messages", self.name, repeated, len(answers))
        why: NatsError = NatsAway(f"{client.where} does not answer for some messages")
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
        """Returns the connection; opens it if there is none.

        Raises:
            NatsAway: It cannot be opened now.
            NatsRefused: The server rejects it.
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
    """Caches whether streams store subjects; each subject is requested once."""

    def __init__(self, client: Client, domain: str | None) -> None:
        """Creates an empty cache."""
        self._client, self._domain = client, domain
        self._known: dict[str, bool] = {}
        self._silent = False

    async def take(self, subject: str) -> bool:
        """Returns False if JetStream reports that no stream stores a subject; True also if this is unknown."""
        if subject not in self._known:
            self._known[subject] = await self._ask(subject)
        return self._known[subject]

    async def _ask(self, subject: str) -> bool:
        """Asks JetStream, unless it failed to answer before."""
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
    """Returns the outcome of a message; an error if it may still be written."""
    if answer is STORED or answer is REPEATED:
        return WRITTEN
    if answer is None or answer is UNROUTED:
        # While a server starts, no stream stores the subject either: only JetStream itself knows whether this is permanent.
        if await streams.take(message.subject):
            return NatsAway(f"subject {message.subject}: JetStream does not answer")
        return Refused(f"no stream stores the subject {message.subject}")
    said = f"JetStream reports: {answer.text} ({answer.error})"
    return NatsAway(said) if passes(answer.code, answer.error) else Refused(said)
