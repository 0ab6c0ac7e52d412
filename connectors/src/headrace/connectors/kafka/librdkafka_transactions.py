"""Writes transactions with librdkafka, by the package confluent-kafka."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from headrace.connectors.kafka import _connection
from headrace.connectors.kafka._errors import KafkaFailed, KafkaUntrusted
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
from headrace.connectors.kafka.librdkafka import LIBRARY, TlsFiles, connect, imported, told_by_librdkafka
from headrace.sdk import HeadraceError, Message

_STEP_S = 0.5
"""How long a call into librdkafka takes at most, before its reports are looked at."""
_QUEUED_KBYTES = REQUEST_BYTES >> 10
_QUEUED_MESSAGES = 200_000
_SERVED_MESSAGES = 1000
"""After how many messages its reports are looked at."""


class LibrdkafkaTransactions:
    """`Transactions`."""

    # librdkafka uses all of a processor while more batches are ready than may be in flight: it takes large ones to be faster.
    # A topic accepts 1 MiB unless it is configured, of which `Writer.limit` takes 15/16.
    batch_bytes: ClassVar[int] = 960_000

    def __init__(self, parameters: KafkaSinkParameters, batch_bytes: int) -> None:
        """Connects, and ends the transaction that an earlier producer left open.

        Args:
            parameters: Those of the sink.
            batch_bytes: The largest size of a record batch with more than one record, in bytes.

        Raises:
            HeadraceError: As `Transactions.begin`.
        """
        self._parameters = parameters
        self._library = imported()
        self._client_failure: HeadraceError | None = None
        self._delivery_failure: Any = None
        self._untrusted: KafkaUntrusted | None = None
        self._is_replaceable = True
        """Whether a failure of TLS ends it at once, as another one can take its place: it has no messages yet."""
        self._tls_files = TlsFiles(parameters)
        self._producer = self._connect(batch_bytes)
        try:
            self._complete(self._producer.init_transactions, START_S)
        except BaseException:
            self.abandon()
            raise
        parameters.note_reached(LIBRARY)
        self._untrusted = None

    def are_outdated(self) -> bool:
        """As `Transactions.are_outdated`."""
        return self._tls_files.are_replaced()

    def begin(self, topic: str, key: bytes, value: bytes) -> None:
        """As `Transactions.begin`."""
        with self._telling():
            self._producer.begin_transaction()
            self._producer.produce(topic, value, key, 0)
        self._wait_until_stored()
        self._untrusted, self._is_replaceable = None, False

    def send(self, messages: Iterable[tuple[str, Message]]) -> None:
        """As `Transactions.send`."""
        produce = self._producer.produce
        for number, (topic, message) in enumerate(messages):
            time_ = message.event_time
            timestamp = time_ // 1000 if isinstance(time_, int) else 0  # for the current time
            headers = {"headers": message.headers} if message.headers else {}
            if number % _SERVED_MESSAGES == 0:
                self._serve(0)
            while True:
                try:
                    produce(topic, message.value, message.key, timestamp=timestamp, **headers)
                    break
                except BufferError:
                    self._serve(_STEP_S)
                except self._library.KafkaException as error:
                    self._serve(0)
                    raise self._translate(error.args[0]) from error

    def commit(self) -> None:
        """As `Transactions.commit`."""
        self._wait_until_stored()
        self._complete(self._producer.commit_transaction, self._parameters.retry_seconds)
        self._untrusted, self._is_replaceable = None, True

    def abandon(self) -> None:
        """As `Transactions.abandon`."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(self._library.KafkaException):
                producer.purge()

    def _connect(self, batch_bytes: int) -> Any:
        parameters = self._parameters
        timeout_ms = int(parameters.transaction_timeout_seconds * 1000)
        own = {
            "transactional.id": parameters.writer,
            "transaction.timeout.ms": timeout_ms,
            # librdkafka refuses longer ones.
            "message.timeout.ms": min(int(parameters.retry_seconds * 1000), timeout_ms),
            "socket.timeout.ms": min(int(_connection.REQUEST_TIMEOUT_S * 1000), timeout_ms),
            "compression.type": parameters.compression,
            "batch.size": batch_bytes,
            "message.max.bytes": REQUEST_BYTES,
            "linger.ms": LINGER_MS,
            "queue.buffering.max.kbytes": _QUEUED_KBYTES,
            "queue.buffering.max.messages": _QUEUED_MESSAGES,
            "partitioner": "murmur2_random",
            "delivery.report.only.error": True,
            "on_delivery": self._note_delivery,
            "error_cb": self._note,
        }
        return connect("Producer", own, parameters)

    def _wait_until_stored(self) -> None:
        """Waits until all messages are stored.

        Raises:
            HeadraceError: As `begin`.
        """
        seconds = self._parameters.retry_seconds
        deadline = time.monotonic() + seconds + _connection.REQUEST_TIMEOUT_S
        while self._flush():
            if time.monotonic() >= deadline:
                raise not_completed(self._parameters, f"messages were not stored within {seconds:g} s")

    def _flush(self) -> int:
        """Sends messages for a while; returns how many are not stored yet."""
        with self._telling():
            left: int = self._producer.flush(_STEP_S)
        self._look()
        return left

    def _serve(self, seconds: float) -> None:
        """Waits for reports, and raises what they say."""
        with self._telling():
            self._producer.poll(seconds)
        self._look()

    def _complete(self, call: Callable[[float], None], seconds: float) -> None:
        """Makes a call again until it has succeeded, for a limited time.

        Raises:
            HeadraceError: As `begin`.
        """
        deadline = time.monotonic() + seconds
        while True:
            with self._telling():
                try:
                    call(_STEP_S)
                    return
                except self._library.KafkaException as error:
                    if not error.args[0].retriable() or time.monotonic() >= deadline:
                        raise
            self._serve(0)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Translates errors of librdkafka."""
        exceptions = self._library.KafkaException
        try:
            yield
        except exceptions as error:
            raise self._translate(error.args[0]) from error
        except SystemError as error:
            # confluent-kafka raises fatal errors, and loses them if it reports undelivered messages at once. They stay in effect.
            try:
                self._producer.begin_transaction()
            except exceptions as fatal:
                raise self._translate(fatal.args[0]) from error
            raise

    def _look(self) -> None:
        """Raises what librdkafka has reported, if the transaction cannot be committed because of it."""
        if self._client_failure is not None:
            raise self._client_failure
        if self._untrusted is not None and (self._is_replaceable or self._tls_files.are_replaced()):
            raise self._untrusted
        if self._delivery_failure is None:
            return
        errors = self._library.KafkaError
        if self._delivery_failure.code() in (errors._PURGE_QUEUE, errors._PURGE_INFLIGHT):
            # The transaction has failed, and its messages were discarded: a commit is refused with the reason.
            with self._telling():
                self._producer.commit_transaction(_STEP_S)
        raise self._translate(self._delivery_failure)

    def _note_delivery(self, error: Any, _: object) -> None:
        """Notes the first message that was not stored."""
        if error is not None and self._delivery_failure is None:
            self._delivery_failure = error

    def _note(self, error: Any) -> None:
        """Notes a problem of the whole client that no retry mends."""
        problem = told_by_librdkafka(error, self._parameters)
        if isinstance(problem, KafkaUntrusted):
            self._untrusted = problem
        elif isinstance(problem, KafkaFailed) and not error.fatal():
            self._client_failure = problem

    def _translate(self, error: Any) -> HeadraceError:
        """Translates an error of a transaction."""
        errors = self._library.KafkaError
        match error.code():
            case errors.INVALID_PRODUCER_ID_MAPPING | errors.UNKNOWN_PRODUCER_ID:
                return Forgotten(f"the brokers have forgotten transactional id {self._parameters.writer}: {error.str()}")
            case errors._FENCED | errors.PRODUCER_FENCED | errors.INVALID_PRODUCER_EPOCH:
                return fenced(self._parameters)
            case errors.INVALID_TRANSACTION_TIMEOUT:
                return timeout_refused(self._parameters)
            case errors._STATE | errors.INVALID_TXN_STATE:
                return aborted(error.str())
            case errors._TIMED_OUT | errors._MSG_TIMED_OUT:
                return not_completed(self._parameters, self._untrusted or error.str())
            case _:
                return told_by_librdkafka(error, self._parameters)
