"""The base classes of sources, and their contract."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from enum import Enum

from headrace.sdk._errors import InvalidMessage
from headrace.sdk.wire import Backlog, Batch, Close, Message, Position, Reporting


class SourceKind(Enum):
    """How a source sends messages again after a failure."""

    REPLAYABLE = "replayable"
    """The same position always yields the same messages: a file, a log.

    A growing key of a table is no position where several writers commit out of order: row 42 may be visible before row 41, and a
    source that has passed 42 never reads 41. Stop at a missing key until all transactions that were open when the gap was met
    have ended, or read only rows that are older than the longest transaction.
    """
    REDELIVERING = "redelivering"
    """What was not acknowledged is delivered again, in no guaranteed order: a classic queue."""
    RESUMABLE = "resumable"
    """Everything follows a cursor, but not the same messages again: a change feed. The bytes of cursors have the order of their
    places."""


class _SourceBase(Reporting):
    """The attributes of every source."""

    name: str = ""
    """The source part of stream names: partition `0` of `orders` is the stream `orders/0`. Letters, digits and `._-`."""
    connector: str = ""
    """The connector's name, shown with its sessions; `name` if it is empty."""
    version: str = "0"
    """The connector's version, shown with its sessions."""
    kind: SourceKind = SourceKind.REPLAYABLE
    """How the source sends messages again after a failure."""
    chooses_start: bool = False
    """Whether `starts` chooses where partitions begin for a new query; otherwise they begin with their first message."""
    takes_turns: bool = False
    """Whether partitions share streams: streams end or are closed temporarily, so there may be more partitions than streams."""
    streams_allowed: int = 2**31
    """The number of streams that the gateway allows per session. The SDK sets it before it calls `partitions`."""
    idle_seconds: float = 0.01
    """How long the SDK waits after `read` yielded None before it resumes `read`. An acknowledgement ends the wait early."""


class Source(_SourceBase, ABC):
    """A source with blocking methods: subclass it, set `name`, implement `read`.

    The SDK makes all calls for one partition (`read` and its iterator, `acknowledged`, `settle`, `unsendable`, `backlog`) on one
    thread, one at a time, so a client library that is not thread-safe needs no lock. Different partitions run on different
    threads. `partitions` and `starts` run on a separate thread.

    An exception that a method raises, other than `PositionLost` from `read`, ends the connector with `SourceFailed`.
    """

    def partitions(self) -> Sequence[str]:
        """Returns the partitions that exist now. Default: one, named `0`.

        Called at the start of a session and every few seconds afterwards, so new partitions are found while the connector runs. A
        partition that is no longer listed continues until its `read` ends. When every partition has ended and is acknowledged,
        and no new one is listed, the connector ends.
        """
        return ["0"]

    def starts(self, partitions: Sequence[str]) -> Mapping[str, Position]:
        """Returns where partitions begin for a query that is new to the source; called only if `chooses_start` is set.

        The query's checkpoint stores these positions before any message. Until then the SDK keeps them, also across a restart of
        the gateway, so that no message that arrives in the meantime is left out. Not called for partitions that appear while the
        connector runs: these begin with their first message. So does a partition that the result omits; this is the only way to
        begin before a message with sequence 0. May block for as long as necessary.

        Args:
            partitions: The partitions whose start is not yet known.
        """
        return {}

    def close(self) -> None:
        """Releases what the source holds, such as connections. Default: does nothing.

        Called once, at the end of `run` or `serve`, after every other method has returned and every iterator is closed: also
        after an error, and even if the gateway was never reached. An exception is logged. Runs on a separate thread. If a method
        does not return within `Settings.close_seconds`, `close` is not called; if `close` does not, the connector ends without
        it.
        """

    @abstractmethod
    def read(self, partition: str, position: Position | None) -> Iterator[Message | Batch | Close | None]:
        """Yields the messages after `position`, in order.

        Called when a pipeline waits for the partition, and again after each reconnect; the previous iterator is closed first.
        Write it as a generator that opens the resources it needs, and closes them in `finally`.

        Yield None if no message is available. The SDK then sends what it has collected, reports that the source has caught up,
        waits `idle_seconds`, delivers acknowledgements and, if necessary, closes the iterator. It can do this only between two
        items, so do not block for more than about a second inside `read`.

        How to end the iterator:

        - Return if the partition has ended permanently. A source that needs its connection to acknowledge messages continues to
          yield None until everything is acknowledged.
        - Yield `CLOSE` last to end temporarily. The stream is closed, and opened again if `partitions` lists the partition after
          all of it is acknowledged.
        - Yield `GONE` last if the partition was removed and will not be listed again. The SDK forgets it once all of it is
          acknowledged. A source that would list it again after a lost connection, for what is not acknowledged, continues to
          yield None until everything is.

        Yield `Batch([], cursor=...)` to move the cursor past what the source leaves out, or in quiet times: queries record it
        with their next messages, or every ten seconds, and `acknowledged` gets it then. The next sequence must be above 0.

        Sequences must increase strictly; gaps are allowed. A source that may raise PositionLost must set sequences: if the loss
        is accepted, `read` is called again with None, and messages that the pipelines have already received are dropped by
        sequence.

        Args:
            partition: One of `partitions`.
            position: Resume after this sequence; None means from the first message that exists. A source may instead resume from
                `position.cursor` and yield some messages again, provided that it sets their sequences. A redelivering source
                yields what is not acknowledged, whatever the position: it is the last one in a checkpoint, of an earlier epoch,
                and None if no checkpoint has one. Its cursor can tell whether the system behind the source is still the same.

        Raises:
            PositionLost: The source no longer has the messages after `position`.
        """

    def acknowledged(self, partition: str, position: Position) -> None:
        """Called when everything up to `position` is in the checkpoint of every pipeline that reads it. Default: does nothing.

        Only now may the source delete those messages. Within a session, positions increase, and some may be skipped. Also called
        before `read`, with the last acknowledged position. If the source cannot process the call, it must raise an exception.
        """

    def settle(self, partition: str, tokens: Sequence[object]) -> None:
        """Acknowledges messages in the external system, using their `Message.token`s. Default: does nothing.

        Called before `acknowledged`, with the tokens of all newly acknowledged messages, in the order in which they were yielded,
        each exactly once; not called if there are none. For a system that acknowledges cumulatively, `tokens[-1]` is enough.
        Tokens of a lost session are never passed: its messages are redelivered.
        """

    def unsendable(self, partition: str, message: Message, error: InvalidMessage) -> None:
        """Handles a message that the gateway cannot accept. Default: raises `error`, which ends the connector.

        Called for each message that exceeds the gateway's frame size limit (`MessageTooLarge`), has an event time beyond 64
        bits, an id or a header name that is not text, and the like. Earlier messages are already on their way; later ones wait.
        To skip the message, store, count or reject it, and return: the stream continues with the next one. After a restart, it
        may be called again for the same message. Sequences that do not increase, and columns of different lengths, always end
        the connector.

        The message's token is not passed to `settle`: acknowledge or reject it here. For a system that acknowledges cumulatively,
        nothing needs to be done as long as messages follow.

        Args:
            partition: The partition of the message.
            message: The message; a message of a batch is converted to a Message.
            error: Why it cannot be sent.
        """
        raise error

    def backlog(self, partition: str) -> Backlog | None:
        """Returns what remains after the messages that `read` has yielded, for monitoring. Default: None, which means unknown.

        Called between items, about once a second, so it should be cheap. If it returns None, a None that `read` yields is
        reported as an empty backlog.
        """
        return None


class AsyncSource(_SourceBase, ABC):
    """A source for asyncio: every method is a coroutine and runs on the connector's event loop, which must not be blocked.

    Unlike with `Source`, `acknowledged`, `settle` and `unsendable` may run while `read` waits for its next item. To stop an
    iterator, the SDK cancels it while it waits.
    """

    async def partitions(self) -> Sequence[str]:
        """As `Source.partitions`."""
        return ["0"]

    async def starts(self, partitions: Sequence[str]) -> Mapping[str, Position]:
        """As `Source.starts`."""
        return {}

    async def close(self) -> None:
        """As `Source.close`. It is cancelled if it does not return in time."""

    @abstractmethod
    def read(self, partition: str, position: Position | None) -> AsyncIterator[Message | Batch | Close | None]:
        """As `Source.read`: write it as an `async def` generator. It may wait for its next item without limit.

        Raises:
            PositionLost: The source no longer has the messages after `position`.
        """

    async def acknowledged(self, partition: str, position: Position) -> None:
        """As `Source.acknowledged`."""

    async def settle(self, partition: str, tokens: Sequence[object]) -> None:
        """As `Source.settle`."""

    async def unsendable(self, partition: str, message: Message, error: InvalidMessage) -> None:
        """As `Source.unsendable`."""
        raise error

    async def backlog(self, partition: str) -> Backlog | None:
        """As `Source.backlog`."""
        return None
