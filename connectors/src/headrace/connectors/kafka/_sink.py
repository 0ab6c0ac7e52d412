"""The `kafka-sink`: each transaction is a Kafka transaction, which also stores its id."""

from collections.abc import Iterator, Sequence
from functools import partial

from headrace.connectors._connector import VERSION
from headrace.connectors.kafka._errors import KafkaAway, KafkaFailed
from headrace.connectors.kafka._parameters import KafkaSinkParameters
from headrace.connectors.kafka.cluster import Cluster
from headrace.connectors.kafka.librdkafka import why_not_written
from headrace.connectors.kafka.limits import Limits, TopicLimits
from headrace.connectors.kafka.outages import Outages
from headrace.connectors.kafka.records import CODECS, missing_package
from headrace.connectors.kafka.route import NoTopic, Route
from headrace.connectors.kafka.writer import Writer
from headrace.sdk import WRITTEN, IdempotentSink, InvalidSink, Message, Outcomes, Refused, Rows, SinkFailed, Transaction


class KafkaSink(IdempotentSink):
    """Writes keys, values, headers and event times to topics; partitions by the hash of the key, as Java's client does."""

    connector = "kafka-sink"
    version = VERSION

    def __init__(self, parameters: KafkaSinkParameters) -> None:
        """Creates the sink, which connects when it is first used.

        Raises:
            InvalidSink: The package for `compression` is not installed.
        """
        self.name = parameters.sink
        self._parameters = parameters
        self._route = Route(parameters.topic)
        if package := missing_package(parameters.compression):
            raise InvalidSink(f"compression {parameters.compression} needs a package: pip install {package}")
        self._uses_librdkafka = parameters.client == "librdkafka"
        self._codec = CODECS[parameters.compression]
        self._cluster = Cluster(parameters)
        self._limits = TopicLimits(self._cluster)
        self._outages = Outages(self, parameters)
        self._writer = Writer(parameters, self._cluster)

    def check(self, rows: Rows) -> Outcomes:
        """Refuses messages that the topic would always reject.

        Raises:
            KafkaAway: No broker could be reached for `retry_seconds`.
            KafkaFailed: The topic does not exist.
        """
        fixed = self._route.fixed
        if fixed is not None and self._limits_of(fixed) is None:
            raise KafkaFailed(f"there is no topic {fixed} at {self._parameters.servers}: create it, or set topic to another one")
        refusals = [self._refusal(message) for message in rows.messages()]
        if not any(refusals):
            return None
        return [WRITTEN if refusal is None else Refused(refusal) for refusal in refusals]

    def write(self, transaction: Transaction, rows: Iterator[Rows]) -> None:
        """Writes a transaction together with its id."""
        messages = (message for some in rows for message in some.messages())
        with self._outages.watched():
            self._writer.write(transaction, ((self._route.topic(message), message) for message in messages))

    def last(self, pipeline: str) -> int | None:
        """Returns the last committed batch of a pipeline.

        Raises:
            SinkFailed: No broker could be reached for `retry_seconds`.
        """
        try:
            return self._outages.keep_trying(self._writer.written).get(pipeline)
        except KafkaAway as away:
            raise self._failed(away) from away

    def pipelines(self) -> Sequence[str]:
        """Returns all pipelines that have ever written.

        Raises:
            SinkFailed: No broker can be reached. The SDK tries again: without a session, nobody would learn that the sink waits.
        """
        try:
            return list(self._writer.written())
        except KafkaAway as away:
            raise self._failed(away) from away

    def close(self) -> None:
        """Ends threads and closes connections."""
        self._outages.close()
        self._writer.close()
        self._cluster.close()

    def _limits_of(self, topic: str) -> Limits | None:
        """Returns the limits of a topic; None if it does not exist."""
        return self._outages.keep_trying(partial(self._limits.of, topic))

    def _failed(self, away: KafkaAway) -> SinkFailed:
        """Returns the only error that the SDK retries before a session has begun."""
        return SinkFailed(f"sink {self.name}: {away}")

    def _refusal(self, message: Message) -> str | None:
        """Returns the reason why a message is refused; None if it is accepted."""
        try:
            topic = self._route.topic(message)
        except NoTopic as error:
            return str(error)
        limits = self._limits_of(topic)
        if limits is None:
            return f"there is no topic {topic}"
        self._writer.limit(limits.message_bytes)
        return limits.refusal(message, self._codec) or (why_not_written(message) if self._uses_librdkafka else None)
