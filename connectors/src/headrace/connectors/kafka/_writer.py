"""Writes transactions with a transactional producer, each together with its id."""

import logging
import time
from collections.abc import Iterable
from typing import Any

from kafka import KafkaProducer
from kafka import errors as kafka_errors
from kafka.partitioner import StickyPartitioner

from headrace.connectors.kafka._cluster import Cluster
from headrace.connectors.kafka._connection import REQUEST_TIMEOUT_SECONDS
from headrace.connectors.kafka._errors import KafkaAway, KafkaFailed, connect, told
from headrace.connectors.kafka._internals import NULL
from headrace.connectors.kafka._parameters import KafkaSinkParameters
from headrace.connectors.kafka._producer import Producer
from headrace.connectors.kafka._state import StateTopic
from headrace.sdk import HeadraceError, Message, Transaction

log = logging.getLogger(__name__)

_BATCH_BYTES = 64 << 10
_REQUEST_BYTES = 96 << 20
# A transaction that immediately follows another is usually rejected at first, while the brokers complete the previous one.
_RETRY_MS = 20
_LINGER_MS = 5
_UNSENT_BYTES = 16 << 20
_DELIVERY_SECONDS = 120.0
_START_SECONDS = 60.0
_FORGOTTEN = ("InvalidProducerIdMappingError", "UnknownProducerIdError")


class Fenced(HeadraceError):
    """Another writer has taken over the transactional id, or the brokers have aborted a transaction that took too long."""


class Writer:
    """The producer, and the batches that it has written. All methods block; only one thread calls them.

    After any failure, the producer is discarded, and the next call creates a new one. The new producer aborts the transaction
    that the old one left open, or waits for it if it was being committed, and then reads what was committed. So the kind of
    failure does not matter.
    """

    def __init__(self, parameters: KafkaSinkParameters, cluster: Cluster) -> None:
        """Creates the writer, which connects when it is first used."""
        self._parameters = parameters
        self._state = StateTopic(parameters.state, parameters.writer, parameters, cluster)
        self._producer: Producer | None = None
        self._batch_bytes = _BATCH_BYTES
        self._written: dict[str, int] = {}

    def limit(self, batch_bytes: int) -> None:
        """Limits the size of record batches, because a batch that is rejected in a transaction is not divided."""
        # Compressing data that is already compressed makes it a little larger.
        batch_bytes -= batch_bytes // 16
        if batch_bytes < self._batch_bytes:
            self._batch_bytes = batch_bytes
            self.close()

    def written(self) -> dict[str, int]:
        """Returns the last committed batch of each pipeline.

        Raises:
            HeadraceError: It cannot be determined.
        """
        self._open()
        return self._written

    def write(self, transaction: Transaction, messages: Iterable[tuple[str, Message]]) -> None:
        """Writes messages to topics, and the id of their transaction; all or nothing.

        Raises:
            HeadraceError: It is not known whether they are written; `written` determines that.
        """
        began = time.monotonic()
        producer = self._open()
        try:
            producer = self._begin(producer, transaction)
            self._send(producer, messages)
            producer.commit(_DELIVERY_SECONDS)
        except kafka_errors.KafkaError as error:
            problem = self._told(_cause(self._producer, error), time.monotonic() - began)
            self.close()
            raise problem from error
        except BaseException:
            self.close()
            raise
        self._written[transaction.pipeline] = transaction.batch

    def _begin(self, producer: Producer, transaction: Transaction) -> Producer:
        """Begins a transaction with the record of its id; returns the producer that has begun it.

        Brokers forget a transactional id that was not used for `transactional.id.expiration.ms`. They report that with the first
        record, when no message of the transaction was taken from its rows: another producer renews the id, and begins again.
        """
        try:
            self._begin_with_id(producer, transaction)
        except kafka_errors.KafkaError as error:
            if not _is_forgotten(_cause(producer, error)):
                raise
            log.info("the brokers have forgotten transactional id %s, which was not in use: renewed", self._parameters.writer)
            self.close()
            producer = self._open()
            self._begin_with_id(producer, transaction)
        return producer

    def _begin_with_id(self, producer: Producer, transaction: Transaction) -> None:
        producer.begin_transaction()
        key, value = self._state.entry(transaction)
        _wait_until_stored(producer, [producer.send(self._state.topic, value, key=key, partition=0)])

    def close(self) -> None:
        """Discards the producer and its uncommitted transaction."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.abandon()

    def _send(self, producer: Producer, messages: Iterable[tuple[str, Message]]) -> None:
        """Sends messages, and waits until they are stored."""
        sent: list[Any] = []
        unsent_bytes = 0
        for topic, message in messages:
            key, value, time_ = message.key, message.value, message.event_time
            timestamp = time_ // 1000 if isinstance(time_, int) else None
            headers = [(name, NULL if content is None else content) for name, content in message.headers or ()]
            sent.append(producer.send(topic, value, key=key, headers=headers, timestamp_ms=timestamp))
            unsent_bytes += len(key or b"") + len(value or b"")
            if unsent_bytes >= _UNSENT_BYTES:
                _wait_until_stored(producer, sent)
                sent, unsent_bytes = [], 0
        _wait_until_stored(producer, sent)

    def _open(self) -> Producer:
        """Returns the producer; no transaction of earlier producers is still open."""
        if self._producer is None:
            self._state.make()
            self._producer = connect(self._connect, self._parameters)
            try:
                self._producer.init_transactions()
                self._written = self._state.read(_START_SECONDS)
            except kafka_errors.KafkaError as error:
                problem = self._told(self._producer.cause() or error, 0.0)
                self.close()
                raise problem from error
            except BaseException:
                self.close()
                raise
            log.info("transactions of %s: last batches %s", self._parameters.writer, self._written or "none")
        return self._producer

    def _connect(self) -> Producer:
        parameters = self._parameters
        return Producer(
            **parameters.client_configs(KafkaProducer),
            transactional_id=parameters.writer,
            transaction_timeout_ms=int(parameters.transaction_timeout_seconds * 1000),
            delivery_timeout_ms=int(_DELIVERY_SECONDS * 1000),
            max_block_ms=int(_START_SECONDS * 1000),
            compression_type=None if parameters.compression == "none" else parameters.compression,
            batch_size=self._batch_bytes,
            linger_ms=_LINGER_MS,
            max_request_size=_REQUEST_BYTES,
            retry_backoff_ms=_RETRY_MS,
            partitioner=StickyPartitioner(),
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )

    def _told(self, error: kafka_errors.KafkaError, seconds: float) -> HeadraceError:
        """Translates an error in a transaction that has taken a given time, in seconds."""
        timeout = f"{self._parameters.transaction_timeout_seconds:g} s"
        if seconds >= self._parameters.transaction_timeout_seconds:
            return Fenced(f"the transaction took longer than {timeout}, and was aborted: raise transaction_timeout_seconds")
        if isinstance(error, kafka_errors.ProducerFencedError):
            what = "stop one of them, or give each its own sink name or transactional_id"
            return Fenced(f"another instance of this sink has taken over transactional id {self._parameters.writer}: {what}")
        if "InvalidTransactionTimeoutError" in str(error):
            what = "lower transaction_timeout_seconds, or raise their transaction.max.timeout.ms"
            return KafkaFailed(f"the brokers reject a transaction timeout of {timeout}: {what}")
        if isinstance(error, kafka_errors.IllegalStateError):
            return KafkaAway(f"the brokers have aborted the transaction: {error}")
        if isinstance(error, kafka_errors.KafkaTimeoutError):
            what = "do its topics exist, and do their partitions have leaders?"
            return KafkaAway(f"Kafka at {self._parameters.servers} did not complete the transaction: {error}; {what}")
        return told(error, self._parameters)


def _cause(producer: Producer | None, error: kafka_errors.KafkaError) -> kafka_errors.KafkaError:
    """Returns the cause of an error in a transaction, as far as it is known."""
    return (None if producer is None else producer.cause()) or error


def _is_forgotten(error: kafka_errors.KafkaError) -> bool:
    """Returns whether the brokers no longer know a transactional id; kafka-python often wraps the error."""
    return any(name in f"{type(error).__name__} {error}" for name in _FORGOTTEN)


def _wait_until_stored(producer: Producer, sent: Iterable[Any]) -> None:
    """Waits until all messages are stored.

    Raises:
        KafkaError: A message is not stored.
    """
    producer.flush(_DELIVERY_SECONDS + REQUEST_TIMEOUT_SECONDS)
    for future in sent:
        if not future.succeeded():
            # kafka-python would commit a transaction although a batch has timed out, so every message is checked.
            future.get(REQUEST_TIMEOUT_SECONDS)
