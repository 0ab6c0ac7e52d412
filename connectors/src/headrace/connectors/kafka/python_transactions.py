"""Writes transactions with kafka-python."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

from kafka import KafkaProducer
from kafka import errors as kafka_errors
from kafka.partitioner import StickyPartitioner

from headrace.connectors.kafka._connection import REQUEST_TIMEOUT_S
from headrace.connectors.kafka._errors import connect, translate
from headrace.connectors.kafka._parameters import KafkaSinkParameters
from headrace.connectors.kafka._transactions import (
    LINGER_MS,
    REQUEST_BYTES,
    START_S,
    Forgotten,
    aborted,
    fenced,
    not_completed,
    timeout_refused,
)
from headrace.connectors.kafka.internals import NULL
from headrace.connectors.kafka.producer import Producer
from headrace.sdk import HeadraceError, Message

R = TypeVar("R")
# A transaction that immediately follows another is usually rejected at first, while the brokers complete the previous one.
_RETRY_MS = 20
_UNSENT_BYTES = 16 << 20
_FORGOTTEN = ("InvalidProducerIdMappingError", "UnknownProducerIdError")


class PythonTransactions:
    """`Transactions`."""

    batch_bytes: ClassVar[int] = 64 << 10

    def __init__(self, parameters: KafkaSinkParameters, batch_bytes: int) -> None:
        """Connects, and ends the transaction that an earlier producer left open.

        Args:
            parameters: Those of the sink.
            batch_bytes: The largest size of a record batch with more than one record, in bytes.

        Raises:
            HeadraceError: As `Transactions.begin`.
        """
        self._parameters = parameters
        self._producer = connect(lambda: _producer(parameters, batch_bytes), parameters)
        try:
            self._telling(self._producer.init_transactions)
        except BaseException:
            self.abandon()
            raise

    def are_outdated(self) -> bool:
        """As `Transactions.are_outdated`: kafka-python reads the files with each connection."""
        return False

    def begin(self, topic: str, key: bytes, value: bytes) -> None:
        """As `Transactions.begin`."""
        producer = self._producer

        def begin() -> None:
            producer.begin_transaction()
            _wait_until_stored(producer, [producer.send(topic, value, key=key, partition=0)], self._parameters.retry_seconds)

        self._telling(begin)

    def send(self, messages: Iterable[tuple[str, Message]]) -> None:
        """As `Transactions.send`; waits until they are stored."""
        self._telling(lambda: self._send(messages))

    def commit(self) -> None:
        """As `Transactions.commit`."""
        self._telling(lambda: self._producer.commit(self._parameters.retry_seconds))

    def abandon(self) -> None:
        """As `Transactions.abandon`."""
        self._producer.abandon()

    def _send(self, messages: Iterable[tuple[str, Message]]) -> None:
        producer = self._producer
        sent: list[Any] = []
        unsent_bytes = 0
        for topic, message in messages:
            key, value, time_ = message.key, message.value, message.event_time
            timestamp = time_ // 1000 if isinstance(time_, int) else None
            headers = [(name, NULL if content is None else content) for name, content in message.headers or ()]
            sent.append(producer.send(topic, value, key=key, headers=headers, timestamp_ms=timestamp))
            unsent_bytes += len(key or b"") + len(value or b"")
            if unsent_bytes >= _UNSENT_BYTES:
                _wait_until_stored(producer, sent, self._parameters.retry_seconds)
                sent, unsent_bytes = [], 0
        _wait_until_stored(producer, sent, self._parameters.retry_seconds)

    def _telling(self, step: Callable[[], R]) -> R:
        """Makes a step, whose errors it translates."""
        try:
            return step()
        except kafka_errors.KafkaError as error:
            raise self._translate(self._producer.cause() or error) from error

    def _translate(self, error: kafka_errors.KafkaError) -> HeadraceError:
        if any(name in f"{type(error).__name__} {error}" for name in _FORGOTTEN):  # kafka-python often wraps the error
            return Forgotten(f"the brokers have forgotten transactional id {self._parameters.writer}: {error}")
        if isinstance(error, kafka_errors.ProducerFencedError):
            return fenced(self._parameters)
        if "InvalidTransactionTimeoutError" in str(error):
            return timeout_refused(self._parameters)
        if isinstance(error, kafka_errors.IllegalStateError):
            return aborted(error)
        if isinstance(error, kafka_errors.KafkaTimeoutError):
            return not_completed(self._parameters, error)
        return translate(error, self._parameters)


def _producer(parameters: KafkaSinkParameters, batch_bytes: int) -> Producer:
    return Producer(
        **parameters.client_configs(KafkaProducer),
        transactional_id=parameters.writer,
        transaction_timeout_ms=int(parameters.transaction_timeout_seconds * 1000),
        delivery_timeout_ms=int(parameters.retry_seconds * 1000),
        max_block_ms=int(START_S * 1000),
        compression_type=None if parameters.compression == "none" else parameters.compression,
        batch_size=batch_bytes,
        linger_ms=LINGER_MS,
        max_request_size=REQUEST_BYTES,
        retry_backoff_ms=_RETRY_MS,
        partitioner=StickyPartitioner(),
        allow_auto_create_topics=False,
        metrics_enabled=False,
    )


def _wait_until_stored(producer: Producer, sent: Iterable[Any], seconds: float) -> None:
    """Waits until all messages are stored.

    Raises:
        KafkaError: A message is not stored.
    """
    producer.flush(seconds + REQUEST_TIMEOUT_S)
    for future in sent:
        if not future.succeeded():
            # kafka-python would commit a transaction although a batch has timed out, so every message is checked.
            future.get(REQUEST_TIMEOUT_S)
