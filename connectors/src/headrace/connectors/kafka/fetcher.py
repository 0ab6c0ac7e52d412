"""What the source asks of a client library: to fetch partitions from given offsets.

The offset of each partition is the source's own. A client gets it each time a partition is wanted again, and keeps nothing for a
partition that is not wanted. So no partition depends on the state that a client keeps while it does not fetch: kafka-python never
delivers a partition again that was paused when some of its parsed records were left, if it has read another partition since.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kafka import TopicPartition

from headrace.connectors.kafka.stretches import Stretch


@dataclass(frozen=True, slots=True)
class Wanted:
    """A partition to fetch.

    Attributes:
        partition: The partition.
        reader: Identifies its reader: another reader begins at its own offset.
        offset: The offset at which the reader begins, or which it has reached; None for the first offset.
        leader_epoch: The leader epoch of the record before that; -1 if it is not known.
    """

    partition: TopicPartition
    reader: object
    offset: int | None
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Ends:
    """The end of a partition.

    Attributes:
        readable: The offset after the last readable record.
        log: The offset after the last record, which may be behind an open transaction.
    """

    readable: int
    log: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of a fetch.

    Attributes:
        stretches: The fetched stretches of each partition, in order.
        positions: The next offset of partitions that have just begun; None if it is not known.
        ends: The ends of partitions, as far as they are known anew.
        silent: The partitions of which nothing was learned for long: the client connects anew, each time after longer.
    """

    stretches: Mapping[TopicPartition, Sequence[Stretch]] = field(default_factory=dict)
    positions: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    ends: Mapping[TopicPartition, Ends] = field(default_factory=dict)
    silent: Sequence[TopicPartition] = ()


class OutOfRange(Exception):
    """Partitions do not have the offsets that were wanted.

    Attributes:
        offsets: The offset of each of them.
    """

    def __init__(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Creates the error."""
        super().__init__(f"no such offsets: {dict(offsets)}")
        self.offsets = offsets


class Truncated(Exception):
    """Partitions have lost records that were read, and may have other records in their place.

    Attributes:
        partitions: The partitions.
    """

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        """Creates the error."""
        super().__init__(f"truncated: {list(partitions)}")
        self.partitions = partitions


class Fetcher(Protocol):
    """Fetches partitions with a client library. All methods block; only one thread calls them."""

    def fetch(self, partitions: Sequence[Wanted], *, hurry: bool) -> Fetched:
        """Fetches the partitions that are wanted, and no others; waits for a short time if there is nothing.

        Args:
            partitions: The partitions; partitions that were wanted before and are missing are no longer fetched.
            hurry: Whether others may be wanted soon, so that it should wait even less.

        Raises:
            OutOfRange: A partition does not have the wanted offset.
            Truncated: A partition has lost what was read.
            KafkaAway: No broker can be reached.
            KafkaFailed: They refuse this client.
            Exception: The client library failed.
        """

    def forget(self, partition: TopicPartition) -> None:
        """Makes a partition begin again with the next fetch."""

    def close(self) -> None:
        """Closes the connections."""
