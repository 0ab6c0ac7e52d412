"""The classes that the author of a sink subclasses, and their contract."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from headrace.sdk.sinks._rows import Rows
from headrace.sdk.sinks._types import Outcomes, Part, Recovered, Transaction


class SinkBase:
    """What every sink declares."""

    name: str = ""
    """Its name in Spark: `df.writeStream.format("headrace").option("sink", name)`. Letters, digits and `._-`."""
    connector: str = ""
    """The connector's name, shown with its sessions; `name` if it is empty."""
    version: str = "0"
    """The connector's version, shown with its sessions."""


class Sink(SinkBase, ABC):
    """A sink that writes at least once: subclass it, set `name`, implement `write`.

    What Spark delivers again after a failure is written again. All methods are called on one thread, in order, and may block:
    Spark then waits. An exception is reported to the gateway as a failure of the part, of which nothing then counts as written.
    """

    @abstractmethod
    def write(self, rows: Rows) -> Outcomes:
        """Writes rows. Rows of different parts may alternate; those of one part come in order.

        Returns:
            None if all are written, else an outcome for each message: `WRITTEN`, or `Refused(reason)` for one that will never
            be accepted. Any other number of outcomes is an error, and nothing counts as written.
        """

    def flush(self) -> None:
        """Makes what was written durable. Called at the end of each part. The default does nothing."""


class IdempotentSink(SinkBase, ABC):
    """A sink that writes each transaction atomically together with its id, and the same transaction only once.

    The SDK keeps the parts of a transaction, in memory and in a temporary file, until Spark has named those that count. All
    methods are called on one thread, in order, and may block. An exception is reported to the gateway as a failure.
    """

    @abstractmethod
    def write(self, transaction: Transaction, rows: Iterator[Rows]) -> Outcomes:
        """Writes all rows of a transaction and its id, or nothing. If the id is already stored, it must write nothing.

        Called once Spark has named the parts that count, and again if it raised.

        Args:
            transaction: The id.
            rows: The rows by partition, in order. Consume them one after the other.

        Returns:
            None, or `WRITTEN` for each message. Messages can only be refused in `check`.
        """

    def check(self, rows: Rows) -> Outcomes:
        """Checks rows as they arrive, and refuses those that must not be written. The default accepts all.

        Returns:
            None if all can be written, else an outcome for each message, as for `Sink.write`.
        """
        return None

    def last(self, pipeline: str) -> int | None:
        """The last batch of a pipeline that was written; None if there is none, or it is unknown. The default is None.

        `write` is not called for this batch.
        """
        return None

    def pipelines(self) -> Sequence[str]:
        """The pipelines whose `last` batch is reported when the connector starts. The default is none."""
        return ()


class TwoPhaseSink(SinkBase, ABC):
    """A sink that writes exactly once: it stages parts durably, votes, and makes them visible when it is told to.

    `stage` is called on a separate thread for each part, so that several may run concurrently. All other methods are called on
    one thread, in order. All may block. An exception is reported to the gateway as a failure; the call may then be repeated.
    A staged part is not visible, and survives a crash until it is committed, dropped or aborted.
    """

    @abstractmethod
    def stage(self, part: Part, rows: Iterator[Rows]) -> Outcomes:
        """Stores a part durably. Nothing of it may be visible yet.

        Args:
            part: The part.
            rows: Its rows, in order, as they arrive. Consume them to the end. The iterator raises if the part is dropped
                meanwhile; `drop` is then called, as it is if this method raises.

        Returns:
            None if all are staged, else an outcome for each message of the part, as for `Sink.write`.
        """

    @abstractmethod
    def drop(self, part: Part) -> None:
        """Deletes everything stored of a part. Does nothing if nothing is stored."""

    @abstractmethod
    def prepare(self, transaction: Transaction, parts: Sequence[Part]) -> None:
        """Promises to commit these staged parts when asked to, even after a crash; drops all others of the transaction.

        Args:
            transaction: The transaction.
            parts: The parts that count, by ascending partition.
        """

    @abstractmethod
    def commit(self, transaction: Transaction) -> None:
        """Makes a prepared transaction visible, durably. Does nothing if it is already visible."""

    @abstractmethod
    def abort(self, transaction: Transaction) -> None:
        """Drops everything of a transaction that is not committed. Does nothing if nothing is stored."""

    @abstractmethod
    def recover(self) -> Recovered:
        """Reports what is stored; completes a commit that a crash has interrupted. Called each time the connector connects."""
