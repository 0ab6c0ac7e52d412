"""The classes that the author of a source subclasses, and their contract."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from enum import Enum

from headrace.sdk._errors import InvalidMessage
from headrace.sdk.wire._message import Backlog, Batch, Close, Message, Position


class SourceKind(Enum):
    """How a source sends messages again after a failure."""

    REPLAYABLE = "replayable"
    """The same position always yields the same messages: a file, a log."""
    REDELIVERING = "redelivering"
    """What was not acknowledged is delivered again, in no guaranteed order: a classic queue."""


class _SourceBase:
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
    """Whether partitions need not begin with their first message for a query that is new: then `starts` says where."""
    takes_turns: bool = False
    """Whether its streams end, or are closed for now, so that more partitions than the gateway has streams for can take turns."""
    streams_allowed: int = 2**31
    """How many streams the gateway allows a session. The SDK sets it before it calls `partitions`."""
    idle_seconds: float = 0.01
    """How long the SDK waits after `read` yielded None before it asks again. An acknowledgement ends the wait early."""


class Source(_SourceBase, ABC):
    """A source whose methods block: subclass it, set `name`, write `read`.

    Everything that concerns one partition (`read` and its iterator, `acknowledged`, `settle`, `unsendable`, `backlog`) is
    called on one thread of that partition and never at the same time, so that a client library which is not thread-safe needs no
    lock. Different partitions run on different threads. `partitions` has a thread of its own.

    An exception that a method raises, other than `PositionLost` from `read`, ends the connector with `SourceFailed`.
    """

    def partitions(self) -> Sequence[str]:
        """Lists the partitions that exist now. Default: one, named `0`.

        Called at the start of a session and every few seconds after, so new partitions appear while it runs. One that is
        no longer listed goes on until its `read` ends. When every partition has ended and is acknowledged, and no new one is
        listed, the connector ends.
        """
        return ["0"]

    def starts(self, partitions: Sequence[str]) -> Mapping[str, Position]:
        """Says where partitions begin for a query that is new to the source; only called where `chooses_start` is set.

        What it says is written into the query's checkpoint before any message. It is kept until then, also over a restart of
        the gateway, so that nothing which arrives meanwhile is left out. Not called for partitions that appear while the
        connector runs: these begin with their first message. So does one that the answer does not name, which is how to name the
        place before a message of sequence 0. May take as long as it needs; it is called on the thread of `partitions`.

        Args:
            partitions: Those of which it is not known.
        """
        return {}

    @abstractmethod
    def read(self, partition: str, position: Position | None) -> Iterator[Message | Batch | Close | None]:
        """Yields what comes after `position`, in order.

        Called when a pipeline waits for the partition, and again after each reconnect; the iterator before is closed
        first. Write it as a generator that opens what it needs, and closes it in `finally`.

        Yield None when there is nothing now. The SDK then sends what it gathered, reports that the source has caught up, waits
        `idle_seconds`, delivers acknowledgements and, if need be, closes the iterator. All this can only happen between two
        items: never wait longer than about a second inside, and rather not at all. Returning means that the partition has
        ended for ever; yielding `CLOSE` that this is all for now: the stream is closed, and opened anew when `partitions` lists
        it once all of it is acknowledged. Yield `GONE` last instead where the partition has ended and will never be listed
        again, since what it was read from was removed: it is then forgotten, once all of it is acknowledged. A source that
        needs its connection to acknowledge goes on yielding None until it was told.

        Sequences must increase strictly. Gaps are fine. A source that may raise PositionLost gives sequences of its own: where
        the loss is accepted, `read` is called again with None, and what its pipelines have seen is dropped by sequence.

        Args:
            partition: One of `partitions`.
            position: Where to go on: after this sequence. None means from the first message that exists. A source may go back to
                `position.cursor` instead and give some messages again, provided that it gives their sequences. Always None
                for a redelivering source.

        Raises:
            PositionLost: The source no longer has what comes after `position`.
        """

    def acknowledged(self, partition: str, position: Position) -> None:
        """Learns that everything at or before `position` is in the checkpoint of every pipeline that reads it. Default: nothing.

        Only now may the source forget those messages. Called at most once for a position; never with an older one in the
        same session; positions may be skipped. Also called before `read` with what was acknowledged earlier.
        A source that cannot act on it must raise, not swallow it.
        """

    def settle(self, partition: str, tokens: Sequence[object]) -> None:
        """Acknowledges messages at the system behind the source, by the tokens that it gave with them. Default: nothing.

        Called before `acknowledged`, with the tokens of every message newly covered, in the order in which they were
        yielded, each exactly once; not at all where messages carry none. For a system that acknowledges
        cumulatively, `tokens[-1]` is enough. Tokens of a lost session are never given: its messages come again.
        """

    def unsendable(self, partition: str, message: Message, error: InvalidMessage) -> None:
        """Decides about a message that the gateway cannot take. Default: raises `error`, which ends the connector.

        Called for each message that makes a frame above the gateway's limit (`MessageTooLarge`), has an event time beyond 64
        bits, an id or a header that is no text, and the like. Messages before it are on their way; those after it wait. Return to
        leave it out, after having kept, counted or rejected it: the stream goes on with the next. It may be called again for the
        same message after a restart. A sequence that does not increase, or columns that differ in length, always end it.

        The token of the message is not given to `settle`: acknowledge or reject it here. For a system that acknowledges
        cumulatively nothing need be done, as long as messages follow.

        Args:
            partition: The partition that it came from.
            message: The message; one of a batch, as a message of its own.
            error: What is wrong with it.
        """
        raise error

    def backlog(self, partition: str) -> Backlog | None:
        """Tells what is left after what `read` has yielded, for people who watch lag. Default: None, it cannot tell.

        Called between items about once a second, so it should be cheap. Where it returns None, a yielded None is reported as
        "nothing left".
        """
        return None


class AsyncSource(_SourceBase, ABC):
    """The same for asyncio: every method is a coroutine and runs on the connector's event loop.

    Unlike with `Source`, `acknowledged`, `settle` and `unsendable` may run while `read` waits for its next item. Nothing may
    block the loop. An iterator is stopped by cancelling it where it waits.
    """

    async def partitions(self) -> Sequence[str]:
        """As `Source.partitions`."""
        return ["0"]

    async def starts(self, partitions: Sequence[str]) -> Mapping[str, Position]:
        """As `Source.starts`."""
        return {}

    @abstractmethod
    def read(self, partition: str, position: Position | None) -> AsyncIterator[Message | Batch | Close | None]:
        """As `Source.read`: write it as an `async def` generator. It may wait for its next item as long as it likes.

        Raises:
            PositionLost: The source no longer has what comes after `position`.
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
