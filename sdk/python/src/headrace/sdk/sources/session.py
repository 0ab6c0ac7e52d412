"""One session with a gateway, from Welcome to its end: opens streams, reads and sends them, and receives acknowledgements."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from headrace.contract.errors import HeadraceError
from headrace.protocol.v1 import connector_pb2, frame_pb2
from headrace.protocol.v1 import source_pb2 as pb
from headrace.sdk._errors import InvalidMessage, PositionLost, StreamNotPermitted
from headrace.sdk._settings import Settings, stream_name
from headrace.sdk.sources.driver import Driver
from headrace.sdk.sources.gather import Gather
from headrace.sdk.sources.reader import Reader, ReaderTask
from headrace.sdk.sources.sender import Sender
from headrace.sdk.sources.source import SourceKind
from headrace.sdk.sources.stream import Stream, Window, position_of
from headrace.sdk.wire import Ending, Position, Tasks

log = logging.getLogger("headrace.sdk")

_KINDS = {
    SourceKind.REPLAYABLE: pb.SOURCE_KIND_REPLAYABLE,
    SourceKind.REDELIVERING: pb.SOURCE_KIND_REDELIVERING,
    SourceKind.RESUMABLE: pb.SOURCE_KIND_RESUMABLE,
}
_OWNED_RETRY_S = 1.0
_FIRST_LOST_RETRY_S = 0.5
_MAX_LOST_RETRY_S = 30.0
_DRAIN_SHARE = 0.9
_GOODBYE_S = 1.0
_TURN_S = 0.05

Write = Callable[[pb.IngestRequest], Awaitable[None]]
Read = Callable[[], Awaitable[pb.IngestResponse]]


class Session:
    """The connector's side of one call."""

    def __init__(
        self, driver: Driver, settings: Settings, welcome: pb.Welcome, write: Write, read: Read, stop: asyncio.Event
    ) -> None:
        """Takes over a call after Welcome; ends it when `stop` is set."""
        self._stop = stop
        self._driver = driver
        self._settings = settings
        self._welcome = welcome
        self._read = read
        self._window = Window(welcome.credit.bytes, welcome.credit.messages, welcome.frame_overhead_bytes)
        linger = welcome.pace.linger_ms / 1000 if welcome.HasField("pace") else settings.linger_seconds
        self._sender = Sender(welcome, self._window, write, linger, self._sent, self._stream_failed, self._unsendable)
        self._streams: dict[int, Stream] = {}
        self._current: dict[str, Stream] = {}
        self._repeating: set[str] = set()
        """Streams whose source has ignored its position in this session."""
        self._ended: set[str] = set()
        self._closed: set[str] = set()
        self._gone: set[str] = set()
        """Partitions that were permanently removed, until the source no longer lists them."""
        self._any_ended = False
        self._next_id = 1
        self._lost_in_a_row: dict[str, int] = {}
        self._tasks = Tasks(self._finish)
        self._stopping: dict[Reader, None] = {}
        """Readers of streams that are forgotten, whose last acknowledgements may still be on their way to the source."""
        self._poll_now = asyncio.Event()
        self._starts_wanted = asyncio.Event()
        self._leaving: Ending | HeadraceError | None = None
        self._flush = False
        self._end: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    async def run(self) -> Ending:
        """Serves the session until it ends, then stops all readers.

        Raises:
            HeadraceError: The source failed or yielded something that cannot be sent, or the gateway refused a stream.
            Exception: The error of the call, if it broke.
        """
        receiving = self._tasks.start(self._receive())
        self._tasks.start(self._sender.run())
        self._tasks.start(self._watch_partitions())
        self._tasks.start(self._watch_stop())
        self._tasks.start(self._say_starts())
        self._tasks.start(self._driver.reports.send(self._report))
        try:
            ending = await self._end
            await self._sender.goodbye(ending.value)
            # The gateway ends the call; cancelling it could overtake what was just written.
            await asyncio.wait({receiving}, timeout=_GOODBYE_S)
            return ending
        except HeadraceError as error:
            if error is self._leaving:
                await self._sender.goodbye(str(error))
                await asyncio.wait({receiving}, timeout=_GOODBYE_S)
            raise
        finally:
            await self._close()

    # Messages from the gateway

    async def _receive(self) -> None:
        """Receives messages until the call ends."""
        while True:
            response = await self._read()
            match response.WhichOneof("message"):
                case "ack":
                    for position in response.ack.streams:
                        if (stream := self._streams.get(position.stream_id)) is not None:
                            self._acknowledged(stream, stream.acknowledge(position))
                            self._forget_if_finished(stream)
                    self._look_for_end()
                    if response.ack.HasField("credit"):
                        self._sender.grant(response.ack.credit)
                    else:
                        self._sender.wake()
                case "credit":
                    self._granted(response.credit)
                case "stream_opened":
                    self._opened(response.stream_opened)
                case "reject":
                    self._rejected(response.reject)
                case "starts_wanted":
                    self._starts_wanted.set()
                case "pace":
                    self._sender.linger = response.pace.linger_ms / 1000
                case "drain":
                    log.info("the gateway asks to reconnect: %s", response.drain.reason)
                    self._leave(Ending.DRAINED, response.drain.deadline_ms / 1000 * _DRAIN_SHARE, flush=False)
                case _:
                    log.debug("ignored a message of a kind that this version does not know")

    async def _report(self, report: connector_pb2.Report) -> None:
        self._sender.say(pb.IngestRequest(report=report))

    def _granted(self, credit: pb.Credit) -> None:
        """Handles credit, for one stream or for all."""
        stream = self._streams.get(credit.stream_id) if credit.HasField("stream_id") else None
        if stream is None:
            self._sender.grant(credit)
        else:
            self._sender.grant_to(stream, credit)

    def _opened(self, answer: pb.StreamOpened) -> None:
        """Starts to read a stream."""
        stream = self._streams.get(answer.stream_id)
        if stream is None or stream.muted or stream.reader is not None or self._leaving is not None:
            return
        resume, acknowledged = stream.opened(answer)
        self._acknowledged(stream, acknowledged)
        redelivering = self._driver.kind is SourceKind.REDELIVERING
        position = None if redelivering or answer.skip_lost else resume
        reads = "from the start" if position is None else f"after {position.sequence}"
        log.info(
            "stream %s: reading %s",
            stream.name,
            "what is not acknowledged" if redelivering else reads,
            extra={"stream": stream.name},
        )
        if redelivering and answer.HasField("earlier"):
            position = position_of(answer.earlier)
        if self._driver.kind is SourceKind.REPLAYABLE:
            stream.gave(position)
        stream.reader = self._driver.reader(
            ReaderTask(
                stream=stream.name,
                partition=stream.partition,
                position=position,
                acknowledged=acknowledged,
                gather=stream.gather,
                ended_badly=lambda error: self._reader_ended_badly(stream, error),
                stuck_seconds=self._settings.stuck_seconds,
            )
        )

    def _acknowledged(self, stream: Stream, position: Position | None) -> None:
        """Notes that a checkpoint has a position of a stream, and so no longer needs its start."""
        if position is not None:
            self._driver.starts.acknowledged(stream.partition, position)

    def _rejected(self, reject: pb.Reject) -> None:
        """Reopens a rejected stream, or stops the connector."""
        stream = self._streams.get(reject.stream_id)
        if stream is None or stream.muted:
            return
        retry = reject.retry_after_ms / 1000
        if reject.reason == pb.REJECT_REASON_REOPEN:
            log.info("stream %s: %s", stream.name, reject.message, extra={"stream": stream.name})
            self._reopen(stream, retry)
        elif reject.reason == pb.REJECT_REASON_OWNED:
            log.warning("stream %s: %s; trying again", stream.name, reject.message, extra={"stream": stream.name})
            self._driver.reports.add_error(reject.message, stream.name)
            self._reopen(stream, retry or _OWNED_RETRY_S)
        else:
            self._stream_failed(stream, StreamNotPermitted(f"stream {stream.name}: {reject.message}", "PERMISSION_DENIED"))

    # Streams

    async def _watch_partitions(self) -> None:
        """Polls for partitions, opens a stream for each, and ends the session when all have ended."""
        while self._leaving is None:
            self._poll_now.clear()
            ended = self._all_finished()
            try:
                # Streams that have ended no longer count, neither here nor at the gateway.
                partitions = await self._driver.partitions(self._welcome.max_streams + len(self._ended))
                self._let_go_of_gone(partitions)
                fresh = [partition for partition in partitions if partition not in self._current and partition not in self._ended]
            except HeadraceError as error:
                self._leave(error, self._settings.drain_seconds, flush=True)
                return
            if self._leaving is None:
                for partition in fresh[: self._welcome.max_streams - len(self._current)]:
                    self._open(partition)
            if ended and not fresh and self._all_finished():
                self._finish(Ending.SOURCE_ENDED)
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.partition_poll_seconds):
                    await self._poll_now.wait()
            if self._driver.takes_turns:
                # Streams tend to end in groups: poll once for several.
                await asyncio.sleep(_TURN_S)

    def _let_go_of_gone(self, partitions: Sequence[str]) -> None:
        """Forgets removed partitions that are no longer listed; one that is listed later is a new one."""
        if self._gone:
            unlisted = self._gone.difference(partitions)
            self._gone -= unlisted
            self._ended -= unlisted

    def _open(self, partition: str) -> None:
        """Opens a stream under a new id."""
        self._closed.discard(partition)
        stream_id = self._next_id
        self._next_id += 1
        gather = Gather(asyncio.get_running_loop(), lambda: self._sender.look(stream), self._settings.frame)
        is_resumable = self._driver.kind is SourceKind.RESUMABLE
        name = stream_name(self._driver.name, partition)
        stream = Stream(stream_id, partition, name, gather, self._welcome, is_resumable=is_resumable)
        self._streams[stream_id] = self._current[partition] = stream
        kind, chooses_start = _KINDS[self._driver.kind], self._driver.chooses_start
        request = pb.OpenStream(stream_id=stream_id, stream=stream.name, kind=kind, chooses_start=chooses_start)
        self._sender.say(pb.IngestRequest(open_stream=request))

    async def _say_starts(self) -> None:
        """Sends the starts of all streams whenever the gateway requests them."""
        while True:
            await self._starts_wanted.wait()
            self._starts_wanted.clear()
            try:
                starts = await self._driver.starts.of(list(self._current))
                for partition in starts.keys() & self._current.keys():
                    self._current[partition].check_start(starts[partition])
            except HeadraceError as error:
                self._leave(error, self._settings.drain_seconds, flush=True)
                return
            answer = pb.Starts()
            for partition, start in starts.items():
                if partition not in self._current:
                    continue  # it has ended in the meantime
                position = None if start is None else frame_pb2.Position(sequence=start.sequence, cursor=start.cursor)
                answer.streams.add(stream_id=self._current[partition].id, position=position)
            self._sender.say(pb.IngestRequest(starts=answer))

    def _reopen(self, stream: Stream, delay: float) -> None:
        """Stops a stream's reader, and reopens the stream under a new id after `delay` seconds."""
        stream.retire()

        async def reopen() -> None:
            if stream.reader is not None:
                await stream.reader.stop(self._stop)
            await asyncio.sleep(delay)
            if self._leaving is None:
                self._open(stream.partition)
                del self._streams[stream.id]

        self._tasks.start(reopen())
        self._look_for_end()

    def _reader_ended_badly(self, stream: Stream, error: HeadraceError) -> None:
        """Handles an exception of the source."""
        if stream.muted:
            log.debug("stream %s: raised while it was closed: %s", stream.name, error, extra={"stream": stream.name})
        elif isinstance(error, PositionLost):
            self._position_lost(stream, error)
        else:
            # Messages that it yielded before are valid, and are sent first.
            self._leave(error, self._settings.drain_seconds, flush=True)

    def _position_lost(self, stream: Stream, loss: PositionLost) -> None:
        """Reports the loss to the gateway, and reopens the stream, with increasing delays if the loss recurs."""
        log.warning("stream %s: position lost: %s", stream.name, loss.reason, extra={"stream": stream.name})
        self._driver.reports.add_error(f"position lost: {loss.reason}", stream.name)
        message = pb.PositionLost(stream_id=stream.id, earliest_sequence=loss.earliest, reason=loss.reason)
        self._sender.say(pb.IngestRequest(position_lost=message))
        times = self._lost_in_a_row.get(stream.partition, 0)
        self._lost_in_a_row[stream.partition] = times + 1
        self._reopen(stream, min(_MAX_LOST_RETRY_S, _FIRST_LOST_RETRY_S * 2 ** (times - 1)) if times else 0.0)

    def _unsendable(self, stream: Stream) -> None:
        """Lets the source decide about a message that cannot be sent; later messages wait for the decision."""
        assert stream.reader is not None
        assert stream.unsendable is not None
        stream.reader.decide(stream.unsendable, lambda: self._left_out(stream))

    def _left_out(self, stream: Stream) -> None:
        """Continues a stream after the source has left out a message."""
        self._sender.go_on(stream)
        self._look_for_end()

    def _stream_failed(self, stream: Stream, error: HeadraceError) -> None:
        """Stops the connector because of one stream, once the messages of the others are sent and acknowledged."""
        if isinstance(error, InvalidMessage) and stream.name not in str(error):
            error = type(error)(f"stream {stream.name}: {error}")
        stream.mute()
        self._leave(error, self._settings.drain_seconds, flush=True)

    # The end

    async def _watch_stop(self) -> None:
        """Ends the session when `stop` is set."""
        await self._stop.wait()
        self._leave(Ending.STOPPED, self._settings.drain_seconds, flush=True)

    def _leave(self, why: Ending | HeadraceError, seconds: float, *, flush: bool) -> None:
        """Stops reading; ends the session once everything is acknowledged, or after `seconds`."""
        if self._leaving is not None:
            return
        self._leaving, self._flush = why, flush
        if isinstance(why, HeadraceError):
            log.warning("stopping, once what was read is acknowledged: %s", why)
            self._driver.reports.add_error(str(why))
        for stream in self._streams.values():
            if stream.reader is not None:
                stream.reader.pause()
        if flush:
            self._sender.flush(self._streams.values())
        else:
            self._sender.mute()
        self._tasks.start(self._leave_late(seconds))
        self._look_for_end()

    async def _leave_late(self, seconds: float) -> None:
        """Ends the session after `seconds`; the next session resends what is not acknowledged by then."""
        await asyncio.sleep(seconds)
        waiting = [stream.name for stream in self._streams.values() if stream.unsent or stream.unacknowledged]
        log.info("not acknowledged in time, to be sent again: %s", ", ".join(waiting[:10]))
        self._finish(self._leaving)

    def _sent(self, stream: Stream) -> None:
        """Notes that something of a stream was sent."""
        if stream.again and stream.name not in self._repeating:
            self._repeating.add(stream.name)
            what = "read() ignores its position: it yields what was received before; begin after position.sequence"
            log.warning("stream %s: %s", stream.name, what, extra={"stream": stream.name})
            self._driver.reports.add_error(what, stream.name)
        if stream.again and not stream.repeats:
            log.warning("stream %s: messages sent again: %d", stream.name, stream.again, extra={"stream": stream.name})
            stream.again = 0
        if stream.unacknowledged:
            self._lost_in_a_row.pop(stream.partition, None)
        self._forget_if_finished(stream)
        self._look_for_end()

    def _forget_if_finished(self, stream: Stream) -> None:
        """Forgets a stream that has ended or was closed, once all of it is acknowledged."""
        if not stream.finished or self._leaving is not None or self._streams.pop(stream.id, None) is None:
            return
        del self._current[stream.partition]
        (self._closed if stream.gather.for_now else self._ended).add(stream.partition)
        if stream.gather.gone:
            # If partitions are removed, new ones may appear: the source has not ended.
            self._gone.add(stream.partition)
        elif not stream.gather.for_now:
            self._any_ended = True
        if stream.reader is not None:
            self._stopping[stream.reader] = None
            self._tasks.start(self._stop_reader(stream.reader))
        if self._driver.takes_turns:
            self._poll_now.set()

    async def _stop_reader(self, reader: Reader) -> None:
        await reader.stop(self._stop)
        self._stopping.pop(reader, None)

    def _look_for_end(self) -> None:
        """Ends the session if nothing is left to do."""
        if self._leaving is not None:
            if self._all_acknowledged() and not (self._flush and any(s.unsent for s in self._streams.values())):
                self._finish(self._leaving)
        elif self._all_finished():
            self._poll_now.set()

    def _all_finished(self) -> bool:
        """Returns whether there were partitions, and all have ended and are acknowledged."""
        return self._any_ended and not self._current and not self._closed

    def _all_acknowledged(self) -> bool:
        """Returns whether everything that was sent is acknowledged."""
        return not any(stream.unacknowledged for stream in self._streams.values())

    def _finish(self, why: Ending | BaseException | None) -> None:
        """Ends `run` with a result or an error."""
        if self._end.done() or why is None:
            return
        if isinstance(why, Ending):
            self._end.set_result(why)
        else:
            self._end.set_exception(why)

    async def _close(self) -> None:
        """Stops every task and reader, and waits for them."""
        give_up = self._stop
        if isinstance(self._leaving, HeadraceError):
            give_up = asyncio.Event()
            give_up.set()
        readers = dict(self._stopping)
        tasks = self._tasks.cancel()
        for stream in self._streams.values():
            stream.mute()
            if stream.reader is not None:
                readers[stream.reader] = None
        # Separate tasks, which continue if this one is cancelled.
        tasks += [asyncio.create_task(reader.stop(give_up)) for reader in readers]
        if tasks:
            await asyncio.wait(tasks)
