"""Requests to a cluster about its topics, and about the offsets of consumer groups."""

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka import IsolationLevel, KafkaAdminClient, OffsetAndMetadata, OffsetSpec, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType

from headrace.connectors.kafka._connection import KafkaConnection
from headrace.connectors.kafka._errors import KafkaAway, KafkaFailed, connect, translate

log = logging.getLogger(__name__)

R = TypeVar("R")
_NO_ID = uuid.UUID(int=0)
_OTHER_CONSUMERS = (
    kafka_errors.UnknownMemberIdError,
    kafka_errors.IllegalGenerationError,
    kafka_errors.RebalanceInProgressError,
)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now.

    Attributes:
        name: Its name.
        id: Its id, which differs from the id of an older topic of the same name; None if the brokers are older than 2.8.
        partitions: The numbers of its partitions.
    """

    name: str
    id: str | None
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a partition.

    Attributes:
        first: The offset of its first record, or of the next one if it is empty.
        end: The offset after its last record.
    """

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that has written to a partition and is not over.

    Attributes:
        first: The offset of its first record in the partition.
        producer: The id of its producer.
        writer: Its transactional id; None if this client may not know it.
    """

    first: int
    producer: int
    writer: str | None


class Cluster:
    """Makes requests to a cluster. All methods block, for some seconds at most; any thread may call them, one at a time.

    Every method raises `KafkaAway` if a retry may help, and `KafkaFailed` if it will not.
    """

    def __init__(self, connection: KafkaConnection) -> None:
        """Creates the client, which connects with the first request."""
        self._connection = connection
        self._client: KafkaAdminClient | None = None

    def topics(self, names: Sequence[str] | None = None) -> list[Topic]:
        """Returns the topics of these names that exist, or all topics except Kafka's internal ones."""
        return self._ask(lambda client: _topics(client.describe_topics(names if names is None else list(names))))

    def bounds(self, topic: str, partition: int) -> Bounds:
        """Returns the bounds of a partition."""
        return self.all_bounds([TopicPartition(topic, partition)])[0]

    def all_bounds(self, partitions: Iterable[TopicPartition]) -> list[Bounds]:
        """Returns the bounds of partitions, including records of open transactions."""
        wanted = list(partitions)

        def ask(client: KafkaAdminClient) -> list[Bounds]:
            first = client.list_partition_offsets(dict.fromkeys(wanted, OffsetSpec.EARLIEST))
            end = client.list_partition_offsets(dict.fromkeys(wanted, OffsetSpec.LATEST), IsolationLevel.READ_UNCOMMITTED)
            return [Bounds(first[one].offset, end[one].offset) for one in wanted]

        return self._ask(ask)

    def ends(self, partitions: Sequence[TopicPartition], isolation: str) -> list[int]:
        """Returns the offsets after the last readable record of partitions, for an isolation level."""
        level = IsolationLevel.READ_COMMITTED if isolation == "read_committed" else IsolationLevel.READ_UNCOMMITTED

        def ask(client: KafkaAdminClient) -> list[int]:
            found = client.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), level)
            return [found[one].offset for one in partitions]

        return self._ask(ask)

    def offsets_at(self, partitions: Sequence[TopicPartition], time_ms: int, isolation: str) -> list[int]:
        """Returns the offsets of the first records of partitions that are not older than a time, by Kafka's time index.

        A partition whose readable records are all older has its end.

        Args:
            partitions: The partitions.
            time_ms: The time, in milliseconds since 1970-01-01 UTC.
            isolation: The isolation level of the reader.
        """
        ends = self.ends(partitions, isolation)
        found = self._ask(lambda client: client.list_partition_offsets(dict.fromkeys(partitions, time_ms)))
        return [end if found[one].offset < 0 else min(end, found[one].offset) for one, end in zip(partitions, ends, strict=True)]

    def open_transaction(self, topic: str, partition: int) -> OpenTransaction | None:
        """Returns the open transaction of a partition that began first."""
        key = TopicPartition(topic, partition)
        producers = self._ask(lambda client: client.describe_producers([key]))[key].active_producers
        begun = [one for one in producers if one.current_transaction_start_offset >= 0]
        if not begun:
            return None
        first = min(begun, key=lambda producer: producer.current_transaction_start_offset)
        listed = self._ask(lambda client: client.list_transactions(producer_id_filters=[first.producer_id]))
        writer = next((one.transactional_id for some in listed.values() for one in some), None)
        return OpenTransaction(first.current_transaction_start_offset, first.producer_id, writer)

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits the offsets of a group: each is the offset of the record that it reads next."""
        committed = {partition: OffsetAndMetadata(offset, "", -1) for partition, offset in offsets.items()}
        errors = self._ask(lambda client: client.alter_group_offsets(group, committed))
        for error in errors.values():
            if error is kafka_errors.UnknownTopicOrPartitionError:
                continue  # the topic has been deleted
            if issubclass(error, kafka_errors.RetriableError):
                # The cached coordinator of the group may no longer be the right one.
                self.close()
                raise KafkaAway(f"offsets of group {group} cannot be committed now: {error.__name__}")
            if issubclass(error, _OTHER_CONSUMERS):
                raise KafkaFailed(f"group {group} has other consumers: set group to one that no other application uses")
            if error is not kafka_errors.NoError:
                raise translate(error(), self._connection)

    def settings(self, topic: str) -> dict[str, str]:
        """Returns the settings of a topic, including defaults."""
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = self._ask(lambda client: client.describe_configs([resource], config_filter="all"))
        return {name: setting["value"] for name, setting in found.get("topic", {}).get(topic, {}).items()}

    def create(self, topic: str, settings: Mapping[str, str]) -> None:
        """Creates a topic with one partition and the brokers' default number of replicas, unless it exists."""
        wanted = {topic: {"num_partitions": 1, "configs": dict(settings)}}
        try:
            self._ask(lambda client: client.create_topics(wanted, wait_for_metadata=True))
        except KafkaFailed as error:
            if not isinstance(error.__cause__, kafka_errors.TopicAlreadyExistsError):
                raise

    def close(self) -> None:
        """Closes the connections; they are reopened when they are needed."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _ask(self, question: Callable[[Any], R]) -> R:
        """Makes a request over the connection, which it opens if necessary."""
        if self._client is None:
            self._client = connect(
                lambda: KafkaAdminClient(**self._connection.client_configs(KafkaAdminClient)), self._connection
            )
        try:
            return question(self._client)
        except (kafka_errors.KafkaError, OSError) as error:
            problem = translate(error, self._connection)
            if isinstance(problem, KafkaAway):
                self.close()
            raise problem from error


def _topics(described: Iterable[Mapping[str, Any]]) -> list[Topic]:
    """Returns the requested topics that exist.

    Raises:
        KafkaError: A topic is not authorized.
    """
    topics = []
    for topic in described:
        error = kafka_errors.for_code(topic["error_code"])
        if error is kafka_errors.TopicAuthorizationFailedError:
            raise error({topic["name"]})
        if error is kafka_errors.NoError and not topic["is_internal"]:
            id_ = topic.get("topic_id")
            numbers = sorted(partition["partition_index"] for partition in topic["partitions"])
            topics.append(Topic(topic["name"], None if id_ in (None, _NO_ID) else str(id_), tuple(numbers)))
    return topics
