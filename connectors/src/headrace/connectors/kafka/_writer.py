"""Writes transactions with a transactional producer, each together with its id."""

import logging
import time
from collections.abc import Iterable
from typing import Any

from kafka import errors as kafka_errors
from kafka.partitioner import StickyPartitioner

from headrace.connectors.kafka._cluster import Cluster
from headrace.connectors.kafka._connection import REQUEST_TIMEOUT_SECONDS
from headrace.connectors.kafka._errors import KafkaAway, KafkaFailed, connect, told
from headrace.connectors.kafka._parameters import KafkaSinkParameters
from headrace.connectors.kafka._producer import Producer
from headrace.connectors.kafka._state import StateTopic
from headrace.sdk import HeadraceError, Message, Transaction

log = logging.getLogger(__name__)

_BATCH_BYTES = 64 << 10
_REQUEST_BYTES = 96 << 20
# A transaction that follows another one at once is mostly refused at first: the brokers still write the end of that one.
_RETRY_MS = 20
_LINGER_MS = 5
_UNSENT_BYTES = 16 << 20
_DELIVERY_SECONDS = 120.0
_START_SECONDS = 60.0


class Fenced(HeadraceError):
    """Another writer has the transactional id now, or the brokers have ended a transaction that took too long."""


class Writer:
    """The producer, and what it has written. All methods block; one thread calls them.

    Whatever goes wrong, the producer is given up, and the next call makes a new one: that aborts what the old one left open, or
    waits for it where it was being committed, and then reads what was committed. So nothing has to be known of the failure.
    """

    def __init__(self, parameters: KafkaSinkParameters, cluster: Cluster) -> None:
        """Connects when it is first needed."""
        self._parameters = parameters
        self._state = StateTopic(parameters.state, parameters.writer, parameters, cluster)
        self._producer: Producer | None = None
        self._batch_bytes = _BATCH_BYTES
        self._written: dict[str, int] = {}

    def limit(self, batch_bytes: int) -> None:
        """Takes note that a topic takes no larger batches of records: in a transaction, one that is refused is not divided."""
        # Compressing what is compressed already makes it a little larger.
        batch_bytes -= batch_bytes // 16
        if batch_bytes < self._batch_bytes:
            self._batch_bytes = batch_bytes
            self.close()

    def written(self) -> dict[str, int]:
        """The last batch of each pipeline that is committed.

        Raises:
            HeadraceError: It cannot be told.
        """
        self._open()
        return self._written

    def write(self, transaction: Transaction, messages: Iterable[tuple[str, Message]]) -> None:
        """Writes messages to topics, and the id of their transaction; all or nothing.

        Raises:
            HeadraceError: It is not known whether they are written; `written` tells.
        """
        producer = self._open()
        began = time.monotonic()
        try:
            producer.begin_transaction()
            self._send(producer, messages)
            key, value = self._state.entry(transaction)
            _settle(producer, [producer.send(self._state.topic, value, key=key, partition=0)])
            producer.commit(_DELIVERY_SECONDS)
        except kafka_errors.KafkaError as error:
            problem = self._told(producer.cause() or error, time.monotonic() - began)
            self.close()
            raise problem from error
        except BaseException:
            self.close()
            raise
        self._written[transaction.pipeline] = transaction.batch

    def close(self) -> None:
        """Gives the producer up, with what it has not committed."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.abandon()

    def _send(self, producer: Producer, messages: Iterable[tuple[str, Message]]) -> None:
        """Sends messages, and waits until they are there."""
        sent: list[Any] = []
        unsent_bytes = 0
        for topic, message in messages:
            key, value, time_ = message.key, message.value, message.event_time
            timestamp = time_ // 1000 if isinstance(time_, int) else None
            sent.append(producer.send(topic, value, key=key, headers=list(message.headers or ()), timestamp_ms=timestamp))
            unsent_bytes += len(key or b"") + len(value or b"")
            if unsent_bytes >= _UNSENT_BYTES:
                _settle(producer, sent)
                sent, unsent_bytes = [], 0
        _settle(producer, sent)

    def _open(self) -> Producer:
        """The producer, with nothing of earlier ones left open."""
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
            **parameters.client_configs(),
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
        """What went wrong, for people, in a transaction that has taken so long."""
        timeout = f"{self._parameters.transaction_timeout_seconds:g} s"
        if seconds >= self._parameters.transaction_timeout_seconds:
            return Fenced(f"the transaction took longer than {timeout}, and was aborted: raise transaction_timeout_seconds")
        if isinstance(error, kafka_errors.ProducerFencedError):
            what = "end one of them, or give each a sink name or transactional_id of its own"
            return Fenced(f"another instance of this sink has taken over transactional id {self._parameters.writer}: {what}")
        if "InvalidTransactionTimeoutError" in str(error):
            what = "lower transaction_timeout_seconds, or raise their transaction.max.timeout.ms"
            return KafkaFailed(f"the brokers take no transaction of {timeout}: {what}")
        if isinstance(error, kafka_errors.IllegalStateError):
            return KafkaAway(f"the brokers have given up the transaction: {error}")
        if isinstance(error, kafka_errors.KafkaTimeoutError):
            what = "are its topics there, and do their partitions have leaders?"
            return KafkaAway(f"Kafka at {self._parameters.servers} does not finish the transaction: {error}; {what}")
        return told(error, self._parameters)


def _settle(producer: Producer, sent: Iterable[Any]) -> None:
    """Waits until everything is there.

    Raises:
        KafkaError: Something is not.
    """
    producer.flush(_DELIVERY_SECONDS + REQUEST_TIMEOUT_SECONDS)
    for future in sent:
        if not future.succeeded():
            # kafka-python commits a transaction of which a batch has timed out, so every message is looked at.
            future.get(REQUEST_TIMEOUT_SECONDS)
