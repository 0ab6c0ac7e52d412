"""The interface of a client library that writes transactions for the sink."""

from collections.abc import Iterable
from typing import ClassVar, Protocol

from headrace.connectors.kafka._errors import KafkaAway, KafkaFailed
from headrace.connectors.kafka._parameters import KafkaSinkParameters
from headrace.connectors.retry import gave_up
from headrace.sdk import HeadraceError, Message

REQUEST_BYTES = 96 << 20
"""The largest size of a request, in bytes."""
LINGER_MS = 5
START_S = 60.0
"""How long it may take until the earlier transactions of a writer are over."""


class Fenced(HeadraceError):
    """Another writer has taken over the transactional id, or the brokers have aborted a transaction that took too long."""


class Forgotten(HeadraceError):
    """The brokers no longer know the transactional id: another producer renews it."""


class Transactions(Protocol):
    """The transactions of one producer. All methods block; only one thread calls them.

    When one exists, no transaction of an earlier producer with its id is still open. After an error, nothing but `abandon` is
    called: it is not known whether the transaction is committed.

    Attributes:
        batch_bytes: The largest size of a record batch with more than one record, unless a topic accepts less, in bytes.
    """

    batch_bytes: ClassVar[int]

    def are_outdated(self) -> bool:
        """Returns whether another producer is to write the next transaction, because TLS files were replaced."""

    def begin(self, topic: str, key: bytes, value: bytes) -> None:
        """Begins a transaction with a record in the first partition of a topic, and waits until it is stored.

        Raises:
            Forgotten: The brokers no longer know the transactional id.
            Fenced: Another producer uses it.
            KafkaUntrusted: TLS fails, and another producer may succeed once the TLS files are replaced.
            KafkaAway: The brokers cannot be reached.
            KafkaFailed: They refuse the record.
        """

    def send(self, messages: Iterable[tuple[str, Message]]) -> None:
        """Sends messages to topics. Raises as `begin`, and what the iterator raises."""

    def commit(self) -> None:
        """Waits until all messages are stored, and commits the transaction. Raises as `begin`."""

    def abandon(self) -> None:
        """Closes the connections without committing; the next producer with this id aborts the transaction."""


def fenced(parameters: KafkaSinkParameters) -> Fenced:
    """Returns the error if another producer has the transactional id."""
    what = "stop one of them, or give each its own sink name or transactional_id"
    return Fenced(f"another instance of this sink has taken over transactional id {parameters.writer}: {what}")


def timeout_refused(parameters: KafkaSinkParameters) -> KafkaFailed:
    """Returns the error if the brokers do not permit the transaction timeout."""
    what = "lower transaction_timeout_seconds, or raise their transaction.max.timeout.ms"
    return KafkaFailed(f"the brokers reject a transaction timeout of {parameters.transaction_timeout_seconds:g} s: {what}")


def not_completed(parameters: KafkaSinkParameters, why: object) -> KafkaAway:
    """Returns the error if the brokers took too long."""
    what = "do its topics exist, and do their partitions have leaders?"
    error = f"Kafka at {parameters.servers} did not complete the transaction: {why}; {what}"
    return KafkaAway(gave_up(error, parameters.retry_seconds, "retry_seconds"))


def aborted(why: object) -> KafkaAway:
    """Returns the error if the brokers have aborted the transaction."""
    return KafkaAway(f"the brokers have aborted the transaction: {why}")
