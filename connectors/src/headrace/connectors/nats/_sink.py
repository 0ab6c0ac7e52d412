"""The `nats-sink`: publishes to JetStream; a message counts as written once it is acknowledged."""

import asyncio
import logging

from headrace.connectors._connector import VERSION
from headrace.connectors.nats._errors import NatsAway, NatsError, SubjectFull, explain
from headrace.connectors.nats._parameters import NatsSinkParameters
from headrace.connectors.nats.connection import connect
from headrace.connectors.nats.outgoing import Encoder, Outgoing, same_ids
from headrace.connectors.nats.publisher import REPEATED, STORED, UNROUTED, Answer, Publisher
from headrace.connectors.nats.settings import passes, reported
from headrace.connectors.nats.streams import NoAcknowledgements, Streams
from headrace.connectors.retry import Retry, gave_up
from headrace.contract.counts import counted
from headrace.sdk import WRITTEN, AsyncSink, Outcome, Outcomes, Refused, Rows

log = logging.getLogger(__name__)


class NatsSink(AsyncSink):
    """Publishes rows with a `Nats-Msg-Id`: JetStream drops duplicates within its duplicate window."""

    connector = "nats-sink"
    version = VERSION

    def __init__(self, parameters: NatsSinkParameters) -> None:
        """Creates the sink, without connecting."""
        self.name = parameters.sink
        self._parameters = parameters
        self._encoder = Encoder(parameters)
        self._publisher: Publisher | None = None
        self._without: NoAcknowledgements | None = None

    async def write(self, rows: Rows) -> Outcomes:
        """Publishes rows, with retries where they may help, until each has an outcome.

        Raises:
            NatsAway: Not all rows had an outcome within `retry_seconds`.
            NatsRefused: The server rejects this client, or a stream acknowledges nothing.
        """
        encoded = [self._encoder.encode(message, rows.part) for message in rows.messages()]
        for place, refused in list(same_ids(encoded)):
            encoded[place] = refused
        outcomes: list[Outcome] = [one if isinstance(one, Refused) else WRITTEN for one in encoded]
        left = {place: one for place, one in enumerate(encoded) if isinstance(one, Outgoing)}
        with Retry(f"sink {self.name}", self) as retry:
            await self._keep_publishing(left, outcomes, retry)
        return None if outcomes.count(WRITTEN) == len(outcomes) else outcomes

    async def _keep_publishing(self, left: dict[int, Outgoing], outcomes: list[Outcome], retry: Retry) -> None:
        """Publishes until none is left."""
        reasons: dict[int, NatsError] = {}
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self._parameters.retry_seconds
        while left:
            before = len(left)
            error = await self._publish(left, outcomes, reasons)
            if len(left) < before:
                give_up = loop.time() + self._parameters.retry_seconds
                retry.connected()
            if left and loop.time() >= give_up:
                self._give_up(left, outcomes, reasons, error)
            if left:
                await retry.wait(error)

    def _give_up(
        self, left: dict[int, Outgoing], outcomes: list[Outcome], reasons: dict[int, NatsError], error: NatsError
    ) -> None:
        """Refuses the messages of full subjects, if that is wanted, so that messages of other subjects need not wait.

        Raises:
            NatsAway: Others are left.
        """
        if self._parameters.full_subject == "refuse":
            for place in [place for place in left if isinstance(reasons.get(place), SubjectFull)]:
                del left[place]
                outcomes[place] = Refused(str(reasons[place]))
        if left:
            why = f"{counted(len(left), 'message', 'is')} not written: {error}"
            raise NatsAway(gave_up(why, self._parameters.retry_seconds, "retry_seconds")) from error

    async def _publish(self, left: dict[int, Outgoing], outcomes: list[Outcome], reasons: dict[int, NatsError]) -> NatsError:
        """Publishes once; removes written and refused messages from `left`. Returns why the rest is neither, also for each.

        Raises:
            NoAcknowledgements: A stream stores messages, and acknowledges none.
        """
        reasons.clear()
        try:
            publisher = await self._connected()
        except NatsAway as away:
            return away
        client = publisher.client
        streams = Streams(client, self._parameters.domain)
        await self._check_acknowledgements(streams, left)
        for place in [place for place, message in left.items() if message.size > client.max_payload]:
            size = left.pop(place).size
            outcomes[place] = Refused(f"{size} bytes with headers, and the server accepts at most {client.max_payload}")
        places = list(left)
        answers, broken = await publisher.publish([left[place] for place in places])
        if repeated := answers.count(REPEATED):
            log.info("sink %s: the stream already had %d of %s", self.name, repeated, counted(len(answers), "message"))
        why: NatsError = NatsAway(f"{client.where} does not answer for some messages")
        for place, answer in zip(places, answers, strict=True):
            outcome = await _outcome(left[place], answer, streams)
            if isinstance(outcome, NoAcknowledgements):
                self._without = outcome
                raise outcome
            if isinstance(outcome, NatsError):
                why = reasons[place] = outcome
            else:
                outcomes[place] = outcome
                del left[place]
        if broken is None:
            return why
        await self.close()
        client.check_allowed()
        return explain(broken, client.where, reached=client.reached)

    async def _check_acknowledgements(self, streams: Streams, left: dict[int, Outgoing]) -> None:
        """Checks that a stream that did not acknowledge does now, rather than store the same messages again.

        Raises:
            NoAcknowledgements: It does not.
        """
        if self._without is None:
            return
        info = await streams.info(self._without.stream)
        if info is None or not info.config.no_ack:
            self._without = None
        elif any(self._without.concerns(message.subject) for message in left.values()):
            raise NoAcknowledgements(info)

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


async def _outcome(message: Outgoing, answer: Answer | None, streams: Streams) -> Outcome | NatsError:
    """Returns the outcome of a message; an error if it may still be written."""
    if answer is STORED or answer is REPEATED:
        return WRITTEN
    if answer is None or answer is UNROUTED:
        # While a server starts, no stream stores the subject either: only JetStream itself knows whether this is permanent.
        return await streams.of_silence(message.subject, unrouted=answer is UNROUTED)
    said = f"subject {message.subject}: {reported(answer.text, answer.error)}"
    if answer.is_of_full_subject:
        return SubjectFull(said)
    return NatsAway(said) if passes(answer.code, answer.error) else Refused(said)
