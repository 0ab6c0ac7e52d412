"""Writes transactions, each together with its id."""

import logging
import time
from collections.abc import Callable, Iterable

from headrace.connectors.kafka._errors import KafkaAway, KafkaFailed, KafkaUntrusted
from headrace.connectors.kafka._parameters import KafkaSinkParameters
from headrace.connectors.kafka._transactions import START_S, Fenced, Forgotten, Transactions
from headrace.connectors.kafka.cluster import Cluster
from headrace.connectors.kafka.librdkafka_transactions import LibrdkafkaTransactions
from headrace.connectors.kafka.python_transactions import PythonTransactions
from headrace.connectors.kafka.state import StateTopic
from headrace.connectors.retry import FIRST_S, MAX_BACKOFF_S, gave_up
from headrace.contract.backoff import Backoff
from headrace.sdk import Message, Transaction

log = logging.getLogger(__name__)


class Writer:
    """The transactions of a sink, and the batches that it has written. All methods block; only one thread calls them.

    After any failure, the producer is discarded, and the next call creates a new one. The new producer aborts the transaction
    that the old one left open, or waits for it if it was being committed, and then reads what was committed. So the kind of
    failure does not matter.
    """

    def __init__(self, parameters: KafkaSinkParameters, cluster: Cluster) -> None:
        """Creates the writer, which connects when it is first used."""
        self._parameters = parameters
        self._state = StateTopic(parameters.state, parameters.writer, parameters, cluster)
        self._transactions: Transactions | None = None
        self._kind = LibrdkafkaTransactions if parameters.client == "librdkafka" else PythonTransactions
        self._batch_bytes = self._kind.batch_bytes
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
        timeout = self._parameters.transaction_timeout_seconds
        try:
            transactions = self._again(lambda: self._begin(transaction), KafkaUntrusted)
            transactions.send(messages)
            transactions.commit()
        except (Fenced, KafkaAway, KafkaFailed) as error:
            self.close()
            if time.monotonic() - began < timeout:
                raise
            raise Fenced(
                f"the transaction took longer than {timeout:g} s, and was aborted: raise transaction_timeout_seconds"
            ) from error
        except BaseException:
            self.close()
            raise
        self._written[transaction.pipeline] = transaction.batch

    def close(self) -> None:
        """Discards the producer and its uncommitted transaction."""
        transactions, self._transactions = self._transactions, None
        if transactions is not None:
            transactions.abandon()

    def _begin(self, transaction: Transaction) -> Transactions:
        """Begins a transaction with the record of its id.

        Brokers forget a transactional id that was not used for `transactional.id.expiration.ms`. They report that with the first
        record, when no message of the transaction was taken from its rows: another producer renews the id, and begins again.
        """
        transactions = self._open()
        try:
            transactions.begin(self._state.topic, *self._state.entry(transaction))
        except Forgotten:
            log.info("the brokers have forgotten transactional id %s, which was not in use: renewed", self._parameters.writer)
            self.close()
            transactions = self._open()
            transactions.begin(self._state.topic, *self._state.entry(transaction))
        except KafkaUntrusted:
            self.close()
            raise
        return transactions

    def _open(self) -> Transactions:
        """Returns the transactions of a producer; none of earlier producers is still open."""
        if self._transactions is not None and self._transactions.are_outdated():
            self.close()
            # It waits for brokers as long as the one that it replaces would have done.
            self._transactions = self._again(self._opened, KafkaAway)
        if self._transactions is None:
            self._transactions = self._opened()
        return self._transactions

    def _again(self, attempt: Callable[[], Transactions], passing: type[KafkaAway]) -> Transactions:
        """Returns the result of an attempt, which is repeated after errors that may pass, for `retry_seconds`."""
        deadline = time.monotonic() + self._parameters.retry_seconds
        backoff = Backoff(FIRST_S, MAX_BACKOFF_S)
        while True:
            try:
                return attempt()
            except passing as away:
                if time.monotonic() >= deadline:
                    raise type(away)(gave_up(away, self._parameters.retry_seconds, "retry_seconds")) from away
            time.sleep(backoff.next())

    def _opened(self) -> Transactions:
        self._state.make()
        transactions = self._kind(self._parameters, self._batch_bytes)
        try:
            self._written = self._state.read(START_S)
        except BaseException:
            transactions.abandon()
            raise
        log.info("transactions of %s: last batches %s", self._parameters.writer, self._written or "none")
        return transactions
