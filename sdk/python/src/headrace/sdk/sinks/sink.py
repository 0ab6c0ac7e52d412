"""The base classes of sinks, and their contract."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from headrace.sdk.sinks.rows import Rows
from headrace.sdk.sinks.types import Outcomes, Part, Recovered, Transaction
from headrace.sdk.wire import Reporting


class SinkBase(Reporting):
    """The attributes of every sink."""

    name: str = ""
    """The sink's name in Spark: `df.writeStream.format("headrace").option("sink", name)`. Letters, digits and `._-`."""
    connector: str = ""
    """The connector's name, shown with its sessions; `name` if it is empty."""
    version: str = "0"
    """The connector's version, shown with its sessions."""


class _BlockingSink(SinkBase):
    """What sinks with blocking methods share."""

    def close(self) -> None:
        """Releases what the sink holds, such as connections. Default: does nothing.

        Called once, at the end of `run` or `serve`, on the thread of the other methods, after all of them have returned: also
        after an error, and even if the gateway was never reached. An exception is logged. If a method does not return within
        `Settings.close_seconds`, `close` is not called; if `close` does not, the connector ends without it.
        """


class Sink(_BlockingSink, ABC):
    """A sink that writes at least once: subclass it, set `name`, implement `write`.

    Rows that Spark redelivers after a failure are written again. All methods are called on one thread, in order, and may block:
    Spark then waits. If a method raises, the SDK reports the part to the gateway as failed, and none of it counts as written.
    """

    @abstractmethod
    def write(self, rows: Rows) -> Outcomes:
        """Writes rows. Rows of different parts may be interleaved; the rows of one part arrive in order.

        Returns:
            None if all are written; otherwise one outcome for each message: `WRITTEN`, or `Refused(reason)` for one that will
            never be accepted. Any other number of outcomes is an error, and nothing counts as written.
        """

    def flush(self) -> None:
        """Makes all written rows durable. Called at the end of each part. The default does nothing."""


class IdempotentSink(_BlockingSink, ABC):
    """A sink that writes each transaction only once, atomically with its id.

    The SDK buffers the parts of a transaction, in memory and in a temporary file, until Spark has chosen among them. All
    methods are called on one thread, in order, and may block. If a method raises, the SDK reports a failure to the gateway.
    """

    @abstractmethod
    def write(self, transaction: Transaction, rows: Iterator[Rows]) -> Outcomes:
        """Writes all rows of a transaction and its id, or nothing. If the id is already stored, it must write nothing.

        Called once Spark has chosen the parts that count, and again if it raised.

        Args:
            transaction: The id of the transaction.
            rows: The rows, ordered by partition. Consume them one after the other.

        Returns:
            None, or `WRITTEN` for each message. Only `check` can refuse messages.
        """

    def check(self, rows: Rows) -> Outcomes:
        """Checks rows when they arrive, and refuses rows that must not be written. The default accepts all.

        Returns:
            None if all can be written; otherwise one outcome for each message, as for `Sink.write`.
        """
        return None

    def last(self, pipeline: str) -> int | None:
        """Returns the last written batch of a pipeline; None if there is none or it is unknown. The default is None.

        `write` is not called for this batch.
        """
        return None

    def pipelines(self) -> Sequence[str]:
        """Returns the pipelines whose `last` batch the SDK reports when the connector starts. The default is none."""
        return ()


class TwoPhaseSink(_BlockingSink, ABC):
    """A sink that writes exactly once: it stages parts durably, votes, and makes them visible on commit.

    `stage` is called on a separate thread for each part, so several calls may run concurrently. All other methods are called on
    one thread, in order. All may block. If a method raises, the SDK reports a failure to the gateway, and the call may be
    repeated. A staged part is not visible, and survives a crash until it is committed, dropped or aborted.
    """

    keeps_runs: bool = False
    """Whether it keeps what several runs of a query write of one batch apart, as two drivers on one checkpoint may for a moment.

    If True, `Transaction.run` is part of what identifies a transaction: store it with each part and each prepared transaction,
    name it in `recover`, and let `prepare`, `commit` and `abort` concern this run only. Several runs may then have prepared the
    same batch; one of them is committed, the others are aborted. If False, only one run at a time has a transaction.
    """

    @abstractmethod
    def stage(self, part: Part, rows: Iterator[Rows]) -> Outcomes:
        """Stores a part durably. None of it may be visible yet.

        Args:
            part: The part.
            rows: Its rows, in order, as they arrive. Consume them to the end. The iterator raises if the part is dropped in the
                meantime. The SDK calls `drop` if the part is dropped or this method raises.

        Returns:
            None if all are staged; otherwise one outcome for each message of the part, as for `Sink.write`.
        """

    @abstractmethod
    def drop(self, part: Part) -> None:
        """Deletes all stored data of a part. Does nothing if nothing is stored."""

    @abstractmethod
    def prepare(self, transaction: Transaction, parts: Sequence[Part]) -> None:
        """Promises to commit these staged parts when `commit` is called, even after a crash; drops the transaction's other parts.

        Args:
            transaction: The transaction.
            parts: The parts that count, by ascending partition.
        """

    @abstractmethod
    def commit(self, transaction: Transaction) -> None:
        """Makes a prepared transaction visible, durably. Does nothing if it is already visible."""

    @abstractmethod
    def abort(self, transaction: Transaction) -> None:
        """Deletes all data of an uncommitted transaction. Does nothing if nothing is stored."""

    @abstractmethod
    def recover(self) -> Recovered:
        """Returns what is stored, after completing a commit that a crash interrupted. Called each time the connector connects."""
