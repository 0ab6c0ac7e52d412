"""Validates a sink, and calls its methods on threads or on the event loop."""

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.contract.errors import HeadraceError
from headrace.contract.limits import PROTOCOL_VERSION
from headrace.contract.names import is_name
from headrace.machine.resources import lack
from headrace.protocol.v1 import sink_pb2 as pb
from headrace.protocol.v1 import source_pb2
from headrace.sdk._errors import InvalidSink, SinkFailed
from headrace.sdk.calls import Calls
from headrace.sdk.sinks.async_sinks import AsyncIdempotentSink, AsyncSink, AsyncTwoPhaseSink
from headrace.sdk.sinks.caller import Caller, TaskCaller, ThreadCaller
from headrace.sdk.sinks.sink import IdempotentSink, Sink, TwoPhaseSink
from headrace.sdk.sinks.types import Part, Recovered, Transaction
from headrace.sdk.wire import SDK, Connection, Stream, reports_of

AnySink = Sink | IdempotentSink | TwoPhaseSink | AsyncSink | AsyncIdempotentSink | AsyncTwoPhaseSink


class SinkDriver:
    """A validated sink, and the caller of its methods."""

    response = pb.SinkServiceAttachResponse

    def __init__(self, sink: AnySink) -> None:
        """Validates the sink.

        Raises:
            InvalidSink: Its name is missing or not allowed.
        """
        if not sink.name:
            raise InvalidSink(f"{type(sink).__name__} has no name: set the attribute `name` to what Spark calls the sink")
        if not is_name(sink.name):
            raise InvalidSink(f"sink name {sink.name!r}: 1 to 255 letters, digits and '._-' are allowed")
        self.reports = reports_of(sink)
        self.sink = sink
        self.name = sink.name
        self.fields = {"sink": sink.name}
        self.blocks = isinstance(sink, Sink | IdempotentSink | TwoPhaseSink)
        self.calls = Calls(f"sink {sink.name}", self.reports)
        self.caller: Caller = ThreadCaller(sink.name, self.calls) if self.blocks else TaskCaller(self.calls)
        self._pipelines: set[str] = set()

    async def hello(self, instance: str) -> pb.SinkServiceAttachRequest:
        """Returns the first message of a session, with the transactions that the sink has stored.

        Raises:
            SinkFailed: The sink raised an exception, or its answer is invalid.
        """
        try:
            recovered = await self._recovered()
        except HeadraceError:
            raise
        except Exception as error:
            raise SinkFailed(f"sink {self.name}: could not report what it has stored: {describe(error)}") from error
        self.reports.connected()
        hello = pb.SinkHello(
            protocol_version=PROTOCOL_VERSION,
            connector=self.sink.connector or self.name,
            connector_version=str(self.sink.version),
            sink=self.name,
            instance=instance,
            mode=_mode(self.sink),
            staged=map(part_to_wire, recovered.staged),
            prepared=map(transaction_to_wire, recovered.prepared),
            committed=map(transaction_to_wire, recovered.committed),
            capabilities=_capabilities(self.sink),
            sdk=SDK,
        )
        return pb.SinkServiceAttachRequest(hello=hello)

    def begin(self, connection: Connection) -> Stream[pb.SinkServiceAttachRequest]:
        """Begins the call of a session."""
        return connection.attach()

    @property
    def closes(self) -> bool:
        """Whether the sink has a `close` of its own."""
        return type(self.sink).close not in (Sink.close, AsyncSink.close)

    async def idle(self) -> None:
        """Returns once no method of the sink runs."""
        await self.caller.idle()

    async def close(self) -> None:
        """Calls the sink's `close`."""
        await self.caller.call(self.sink.close)

    def saw(self, pipeline: str) -> None:
        """Remembers a pipeline, so that the next session reports its last batch."""
        self._pipelines.add(pipeline)

    async def _recovered(self) -> Recovered:
        """Asks the sink for its stored transactions."""
        sink = self.sink
        if isinstance(sink, TwoPhaseSink | AsyncTwoPhaseSink):
            recovered = await self.caller.call(sink.recover)
            if not isinstance(recovered, Recovered):
                raise TypeError(f"recover() returned {type(recovered).__name__} instead of Recovered")
            return recovered
        if isinstance(sink, IdempotentSink | AsyncIdempotentSink):
            self._pipelines.update(await self.caller.call(sink.pipelines))
            batches = [(pipeline, await self.caller.call(sink.last, pipeline)) for pipeline in sorted(self._pipelines)]
            return Recovered(committed=[Transaction(pipeline, batch) for pipeline, batch in batches if batch is not None])
        return Recovered()


def describe(error: BaseException) -> str:
    """Returns the type and text of an exception."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text + lack(text)


def part_to_wire(part: Part) -> pb.Part:
    """Converts a part to its protocol message."""
    return pb.Part(transaction=transaction_to_wire(part.transaction), partition=part.partition, attempt=part.attempt)


def transaction_to_wire(transaction: Transaction) -> pb.Transaction:
    """Converts a transaction to its protocol message."""
    return pb.Transaction(pipeline=transaction.pipeline, batch=transaction.batch, run=transaction.run)


def part_from_wire(part: pb.Part) -> Part:
    """Converts a part from its protocol message."""
    return Part(transaction_from_wire(part.transaction), part.partition, part.attempt)


def parts_from_wire(parts: Iterable[pb.Part]) -> Sequence[Part]:
    """Converts parts from their protocol messages."""
    return [part_from_wire(part) for part in parts]


def transaction_from_wire(transaction: pb.Transaction) -> Transaction:
    """Converts a transaction from its protocol message."""
    return Transaction(transaction.pipeline, transaction.batch, transaction.run)


def _capabilities(sink: Any) -> list[source_pb2.Capability.ValueType]:
    """Returns what a session of the sink can do."""
    keeps_runs = isinstance(sink, TwoPhaseSink | AsyncTwoPhaseSink) and sink.keeps_runs
    more = [source_pb2.CAPABILITY_RUNS] if keeps_runs else []
    return [source_pb2.CAPABILITY_HEARTBEAT, *more]


def _mode(sink: Any) -> pb.SinkMode.ValueType:
    """Returns the mode of a sink, by its class."""
    if isinstance(sink, TwoPhaseSink | AsyncTwoPhaseSink):
        return pb.SINK_MODE_TWO_PHASE
    if isinstance(sink, IdempotentSink | AsyncIdempotentSink):
        return pb.SINK_MODE_BATCH_IDEMPOTENT
    return pb.SINK_MODE_AT_LEAST_ONCE
