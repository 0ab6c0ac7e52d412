"""The classes that the author of a sink subclasses, and their contract."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from headrace.sdk._sink_rows import Rows
from headrace.sdk._sink_types import Outcomes, Part, Recovered, Transaction


class SinkBase:
    """What every sink declares."""

    name: str = ""
    """What Spark calls it: `df.writeStream.format("headrace").option("sink", name)`. Letters, digits and `._-`."""
    connector: str = ""
    """The connector's own name, for people who look at sessions; `name` where it is empty."""
    version: str = "0"
    """The connector's own version, for people."""


class Sink(SinkBase, ABC):
    """A sink that writes at least once: subclass it, set `name`, write `write`.

    What Spark delivers again, after a failure, is written again. All methods are called on one thread, in order, and may block:
    Spark then waits. An exception is told to the gateway as a failure of the part, none of which then counts as written.
    """

    @abstractmethod
    def write(self, rows: Rows) -> Outcomes:
        """Writes rows. Rows of different parts may alternate; those of one part come in order.

        Returns:
            None where all are written, else an outcome for each message: `WRITTEN`, or `Refused(reason)` for one that will
            never be taken. Any other number of outcomes is an error, and nothing counts as written.
        """

    def flush(self) -> None:
        """Makes what was written outlive this process. Called at the end of each part. Default: nothing."""


class IdempotentSink(SinkBase, ABC):
    """A sink that writes a transaction in one atomic step together with its id, and the same transaction only once.

    The SDK keeps the parts of a transaction, in memory and beyond that in a temporary file, until Spark has named those that
    count. All methods are called on one thread, in order, and may block. An exception is told to the gateway as a failure.
    """

    @abstractmethod
    def write(self, transaction: Transaction, rows: Iterator[Rows]) -> Outcomes:
        """Writes all rows of a transaction and its id, or nothing. Where the id is there already, nothing is to be written.

        Called once Spark has named the parts that count; again where it raised.

        Args:
            transaction: The id.
            rows: The rows by partition, in order; to be taken one after the other.

        Returns:
            None, or `WRITTEN` for each message. It is too late to refuse one here: that is what `check` is for.
        """

    def check(self, rows: Rows) -> Outcomes:
        """Looks at rows as they arrive, and says which ones `write` shall never see. Default: takes all.

        Returns:
            None where all are to be written, else an outcome for each message, as for `Sink.write`.
        """
        return None

    def last(self, pipeline: str) -> int | None:
        """The last batch of a pipeline that was written; None where there is none, or the sink cannot tell. Default: None.

        `write` is not called for this very batch.
        """
        return None

    def pipelines(self) -> Sequence[str]:
        """The pipelines whose `last` batch is worth telling when the connector starts. Default: none."""
        return ()


class TwoPhaseSink(SinkBase, ABC):
    """A sink that writes exactly once: it stages parts durably, votes, and makes them visible when it is told to.

    `stage` has a thread for each part, so that several may run at the same time. All other methods are called on one thread, in
    order. All may block. An exception is told to the gateway as a failure, and the same may then be asked for again.
    A part that is staged is not visible, and outlives a crash until it is committed, dropped or aborted.
    """

    @abstractmethod
    def stage(self, part: Part, rows: Iterator[Rows]) -> Outcomes:
        """Stores a part so that it outlives a crash. Nothing of it may be visible yet.

        Args:
            part: The part.
            rows: Its rows, in order, as they arrive: take them to the end. The iterator raises where the part is dropped
                meanwhile; `drop` follows then, as it does where this method raises.

        Returns:
            None where all are staged, else an outcome for each message of the part, as for `Sink.write`.
        """

    @abstractmethod
    def drop(self, part: Part) -> None:
        """Forgets a part, whatever there is of it; nothing where there is nothing."""

    @abstractmethod
    def prepare(self, transaction: Transaction, parts: Sequence[Part]) -> None:
        """Promises to commit these staged parts whenever asked to, also after a crash; drops all others of the transaction.

        Args:
            transaction: The transaction.
            parts: The parts that count, by ascending partition.
        """

    @abstractmethod
    def commit(self, transaction: Transaction) -> None:
        """Makes a prepared transaction visible, durably. Nothing where that has been done already."""

    @abstractmethod
    def abort(self, transaction: Transaction) -> None:
        """Drops everything of a transaction that is not committed; nothing where there is nothing."""

    @abstractmethod
    def recover(self) -> Recovered:
        """Tells what is stored; finishes a commit that a crash has interrupted. Called each time the connector connects."""
