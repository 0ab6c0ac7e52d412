"""A sink's connector within a session, whatever the sink."""

import asyncio
import threading
from dataclasses import replace

import grpc
import pytest
from tests.fake_gateway.server import until
from tests.fake_gateway.sinks import frame_of, part, transaction
from tests.sdk.python.sinks import (
    AsyncIdempotent,
    AsyncPlain,
    AsyncTwoPhase,
    Idempotent,
    Plain,
    TwoPhase,
    values_of,
)

from headrace.protocol.v1 import sink_pb2 as pb
from headrace.protocol.v1 import source_pb2
from headrace.sdk import (
    WRITTEN,
    InvalidMessage,
    InvalidSink,
    Message,
    Refused,
    Rows,
    SessionTakenOver,
    Settings,
    Sink,
    Transaction,
)

PLAIN = pytest.mark.parametrize("kind", [Plain, AsyncPlain])
IDEMPOTENT = pytest.mark.parametrize("kind", [Idempotent, AsyncIdempotent])
TWO_PHASE = pytest.mark.parametrize("kind", [TwoPhase, AsyncTwoPhase])
EVERY = pytest.mark.parametrize("kind", [Plain, AsyncPlain, Idempotent, AsyncIdempotent, TwoPhase, AsyncTwoPhase])
MODES = {Plain: pb.SINK_MODE_AT_LEAST_ONCE, Idempotent: pb.SINK_MODE_BATCH_IDEMPOTENT, TwoPhase: pb.SINK_MODE_TWO_PHASE}


def refuse_bad(values):
    return [Refused(f"{value!r} is bad") if value.startswith(b"bad") else WRITTEN for value in values]


WRONG_OUTCOMES = [
    (lambda values: [WRITTEN], "return one outcome for each message, or None if all are written: 2 expected, 1 returned"),
    (lambda values: [WRITTEN] * 3, "return one outcome for each message, or None if all are written: 2 expected, 3 returned"),
    (lambda values: [WRITTEN, None], "message 1: None is neither WRITTEN nor Refused"),
    (lambda values: True, "outcomes must be a sequence or None, not bool"),
]


# All modes


@EVERY
async def test_the_greeting(sink_gateway, attach, kind):
    attach(kind(), instance="one", token="secret")
    session = await sink_gateway.session()
    hello = session.hello
    assert (hello.protocol_version, hello.connector, hello.connector_version) == (1, "fake", "7")
    assert (hello.sink, hello.instance) == ("memory", "one")
    assert hello.mode == next(mode for base, mode in MODES.items() if base.__name__ in kind.__name__)
    assert session.metadata["authorization"] == "Bearer secret"


@EVERY
async def test_a_transaction_is_written(sink_gateway, attach, kind):
    sink = kind()
    attach(sink)
    session = await sink_gateway.session()
    a, b = part(3, 0), part(3, 1)
    await session.staged(b, b"three")
    await session.staged(a, b"one", None)
    await session.prepared(transaction(3), a, b)
    await session.committed(transaction(3))
    written = sink.values or sink.batches[Transaction("p", 3)]
    assert written == ([b"three", b"one", None] if isinstance(sink, Plain | AsyncPlain) else [b"one", None, b"three"])


@EVERY
async def test_an_empty_part_is_staged(sink_gateway, attach, kind):
    attach(kind())
    session = await sink_gateway.session()
    await session.staged(part(0))
    await session.prepared(transaction(0), part(0))


@EVERY
async def test_parts_may_alternate(sink_gateway, attach, kind):
    sink = kind()
    attach(sink)
    session = await sink_gateway.session()
    parts = [part(0, n) for n in range(5)]
    ids = [session.start(of) for of in parts]
    for round_ in range(20):
        for n, id_ in enumerate(ids):
            session.rows(id_, [b"%d %d" % (n, round_)], first=round_)
    for id_ in reversed(ids):
        session.end(id_, 20)
    assert {(await session.next("staged")).id for _ in ids} == set(ids)
    await session.prepared(transaction(0), *parts)
    await session.committed(transaction(0))
    written = sink.values or sink.batches[Transaction("p", 0)]
    for n in range(5):
        assert [v for v in written if v.startswith(b"%d " % n)] == [b"%d %d" % (n, round_) for round_ in range(20)]


@EVERY
async def test_a_part_that_has_not_arrived_whole_has_failed(sink_gateway, attach, kind):
    attach(kind())
    session = await sink_gateway.session()
    id_ = session.start(part(0))
    session.rows(id_, [b"a", b"b"])
    session.end(id_, 3)
    failed = await session.next("failed")
    assert failed.part_id == id_
    assert "messages of a part: 3 expected, 2 arrived" in failed.reason
    await session.staged(part(0, attempt="b"), b"a", b"b", b"c")


@EVERY
async def test_a_stop_answers_what_has_arrived(sink_gateway, attach, kind):
    sink, stop = kind(), asyncio.Event()
    task = attach(sink, stop=stop)
    session = await sink_gateway.session()
    await session.staged(part(0), b"a")
    session.start(part(0, 1))
    stop.set()
    assert (await session.next("goodbye")).reason == "the connector stops"
    await session.gone()
    await asyncio.wait_for(task, 60)


@EVERY
async def test_a_drain_ends_the_session_and_begins_another(sink_gateway, attach, kind):
    sink = kind()
    attach(sink)
    session = await sink_gateway.session()
    await session.staged(part(0), b"a")
    session.prepare(transaction(0), part(0))
    session.drain()
    await session.next("prepared")
    assert (await session.next("goodbye")).reason == "the gateway asked to reconnect"
    await session.gone()
    again = await sink_gateway.session()
    await again.staged(part(1), b"b")


@EVERY
async def test_it_ends_when_a_newer_session_takes_over(sink_gateway, attach, kind):
    task = attach(kind())
    session = await sink_gateway.session()
    session.start(part(0))
    session.close(grpc.StatusCode.ABORTED)
    with pytest.raises(SessionTakenOver, match="an instance of its own"):
        await asyncio.wait_for(task, 60)


@EVERY
async def test_a_lost_gateway_is_waited_for(sink_gateway, attach, kind):
    attach(kind())
    session = await sink_gateway.session()
    session.rows(session.start(part(0)), [b"a"])
    await sink_gateway.stop()
    await sink_gateway.start()
    again = await sink_gateway.session()
    await again.staged(part(0, attempt="b"), b"a")


@pytest.mark.parametrize("name", ["", "a/b", "x" * 256])
async def test_a_name_that_is_not_allowed(attach, name):
    sink = Plain()
    sink.name = name
    with pytest.raises(InvalidSink, match="name"):
        await attach(sink)


@pytest.mark.parametrize("kind", [Plain, TwoPhase])
async def test_a_stop_does_not_wait_for_a_stuck_sink_for_ever(sink_gateway, attach, kind, caplog):
    sink, stop, stuck, release = kind(), asyncio.Event(), threading.Event(), threading.Event()

    def hold_up(*arguments):
        stuck.set()
        release.wait(120)

    sink.write = sink.stage = hold_up
    task = attach(sink, stop=stop, settings=Settings(drain_seconds=0.1))
    session = await sink_gateway.session()
    id_ = session.start(part(0))
    session.rows(id_, [b"a"])
    session.end(id_, 1)
    await until(stuck.is_set)
    stop.set()
    await session.next("goodbye")
    await asyncio.wait_for(task, 60)
    assert "still busy with what is no longer needed" in caplog.text
    release.set()


async def test_a_stop_while_a_sink_cannot_yet_tell_what_it_has(attach):
    sink, stop, asked, release = TwoPhase(), asyncio.Event(), threading.Event(), threading.Event()

    def hold_up():
        asked.set()
        release.wait(120)

    sink.recover = hold_up
    task = attach(sink, stop=stop)
    await until(asked.is_set)
    stop.set()
    await asyncio.wait_for(task, 60)
    release.set()


# At least once


@PLAIN
async def test_rows_are_written_as_they_arrive_and_flushed_at_the_end(sink_gateway, attach, kind):
    sink = kind()
    attach(sink)
    session = await sink_gateway.session()
    id_ = session.start(part(0))
    session.rows(id_, [b"a", b"b"])
    session.rows(id_, [b"c"], first=2)
    await until(lambda: sink.values == [b"a", b"b", b"c"])
    session.end(id_, 3)
    await session.next("staged")
    assert sink.calls == ["write", "write", "flush"]
    assert len(sink.threads) == 1


@PLAIN
async def test_rows_name_their_part(sink_gateway, attach, kind):
    parts = []

    class Asking(kind):
        def write(self, rows):
            parts.append((rows.part, rows.first))
            return super().write(rows)

    sink = Asking()
    attach(sink)
    session = await sink_gateway.session()
    ids = [session.start(part(4, partition)) for partition in (0, 1)]
    for id_, first in ((ids[0], 0), (ids[1], 0), (ids[0], 1)):
        session.rows(id_, [b"a"], first=first)
    await until(lambda: len(sink.values) == 3)
    told = [(rows_part.transaction.batch, rows_part.partition, first) for rows_part, first in parts]
    assert told == [(4, 0, 0), (4, 1, 0), (4, 0, 1)]
    assert {rows_part.transaction.pipeline for rows_part, _ in parts} == {part(4).transaction.pipeline}


@PLAIN
async def test_what_is_refused_is_told_with_its_place(sink_gateway, attach, kind):
    sink = kind()
    sink.outcomes = refuse_bad
    attach(sink)
    session = await sink_gateway.session()
    id_ = session.start(part(0))
    session.rows(id_, [b"a", b"bad1"])
    session.rows(id_, [b"bad2", b"d"], first=2)
    session.end(id_, 4)
    refused = (await session.next("staged")).refused
    assert [(message.sequence, message.reason) for message in refused] == [(1, "b'bad1' is bad"), (2, "b'bad2' is bad")]


@PLAIN
@pytest.mark.parametrize(("outcomes", "message"), WRONG_OUTCOMES)
async def test_outcomes_that_are_not_one_each_confirm_nothing(sink_gateway, attach, kind, outcomes, message):
    sink = kind()
    sink.outcomes = outcomes
    attach(sink)
    session = await sink_gateway.session()
    id_ = session.start(part(0))
    session.rows(id_, [b"a", b"b"])
    session.rows(id_, [b"c", b"d"], first=2)
    session.end(id_, 4)
    failed = await session.next("failed")
    assert failed.part_id == id_
    assert message in failed.reason
    sink.outcomes = lambda values: None
    await session.staged(part(0, attempt="b"), b"a", b"b")
    assert sink.values == [b"a", b"b", b"a", b"b"]


@PLAIN
@pytest.mark.parametrize("method", ["write", "flush"])
async def test_an_exception_confirms_nothing_and_the_session_goes_on(sink_gateway, attach, kind, method):
    sink = kind()
    sink.raises[method] = [OSError("disk full")]
    attach(sink)
    session = await sink_gateway.session()
    id_ = session.start(part(0))
    session.rows(id_, [b"a"])
    session.end(id_, 1)
    failed = await session.next("failed")
    assert (failed.part_id, failed.reason) == (id_, "OSError: disk full")
    await session.staged(part(0, attempt="b"), b"a")


# Batch-idempotent


@IDEMPOTENT
async def test_only_the_parts_that_count_are_written_at_once(sink_gateway, attach, kind):
    sink = kind()
    attach(sink)
    session = await sink_gateway.session()
    await session.staged(part(0, 1, "a"), b"lost")
    await session.staged(part(0, 1, "b"), b"second")
    await session.staged(part(0, 0), b"first")
    assert sink.batches == {}
    await session.prepared(transaction(0), part(0, 0), part(0, 1, "b"))
    assert sink.batches == {Transaction("p", 0): [b"first", b"second"]}


@IDEMPOTENT
async def test_a_batch_that_is_there_already_is_not_written_again(sink_gateway, attach, kind):
    sink = kind()
    attach(sink)
    session = await sink_gateway.session()
    await session.staged(part(4), b"a")
    await session.prepared(transaction(4), part(4))
    await session.prepared(transaction(4), part(4))
    session.close(grpc.StatusCode.UNAVAILABLE)
    again = await sink_gateway.session()
    assert list(again.hello.committed) == [transaction(4)]
    await again.staged(part(4, attempt="b"), b"a")
    await again.prepared(transaction(4), part(4, attempt="b"))
    assert sink.calls == ["write 4"]


@IDEMPOTENT
async def test_what_is_refused_never_reaches_write(sink_gateway, attach, kind):
    sink = kind()
    sink.check_outcomes = refuse_bad
    attach(sink)
    session = await sink_gateway.session()
    await session.staged(part(0), b"a", b"bad", b"b", refused={1: "b'bad' is bad"})
    await session.staged(part(0, 1), b"bad", refused={0: "b'bad' is bad"})
    await session.prepared(transaction(0), part(0), part(0, 1))
    assert sink.batches == {Transaction("p", 0): [b"a", b"b"]}


@IDEMPOTENT
@pytest.mark.parametrize(
    ("outcomes", "message"), [*WRONG_OUTCOMES, (lambda values: [WRITTEN, Refused("no")], "which only check() can: no")]
)
async def test_outcomes_of_a_transaction_are_checked(sink_gateway, attach, kind, outcomes, message):
    sink = kind()
    sink.last = None
    sink.outcomes = outcomes

    def nothing_yet(pipeline):
        return None

    async def nothing_yet_on_loop(pipeline):
        return None

    sink.last = nothing_yet if kind is Idempotent else nothing_yet_on_loop
    attach(sink)
    session = await sink_gateway.session()
    await session.staged(part(0), b"a", b"b")
    session.prepare(transaction(0), part(0))
    failed = await session.next("failed")
    assert failed.transaction == transaction(0)
    assert message in failed.reason
    sink.outcomes = lambda values: [WRITTEN] * len(values)
    await session.prepared(transaction(0), part(0))


@IDEMPOTENT
async def test_a_write_that_failed_may_be_asked_for_again(sink_gateway, attach, kind):
    sink = kind()
    sink.raises["write"] = [OSError("away")]
    attach(sink)
    session = await sink_gateway.session()
    await session.staged(part(0), b"a")
    session.prepare(transaction(0), part(0))
    assert (await session.next("failed")).reason == "OSError: away"
    await session.prepared(transaction(0), part(0))
    assert sink.batches == {Transaction("p", 0): [b"a"]}


@IDEMPOTENT
async def test_dropped_and_aborted_parts_are_forgotten(sink_gateway, attach, kind):
    sink = kind()
    attach(sink)
    session = await sink_gateway.session()
    session.drop(await session.staged(part(0), b"a"))
    session.prepare(transaction(0), part(0))
    assert "partition 0, attempt a, is no longer stored" in (await session.next("failed")).reason
    await session.staged(part(1), b"a")
    session.abort(transaction(1))
    session.prepare(transaction(1), part(1))
    assert "is no longer stored" in (await session.next("failed")).reason


@IDEMPOTENT
async def test_more_than_fits_in_memory_is_held(sink_gateway, attach, kind):
    sink = kind()
    attach(sink, settings=Settings(hold_bytes=3000))
    session = await sink_gateway.session()
    values = {n: [b"%d %d" % (n, i) + b"x" * 1000 for i in range(10)] for n in range(2)}
    ids = [session.start(part(0, n)) for n in range(2)]
    for i in range(0, 10, 2):
        for n, id_ in enumerate(ids):
            session.rows(id_, values[n][i : i + 2], first=i, keys=[b"k"] * 2)
    for id_ in ids:
        session.end(id_, 10)
        await session.next("staged")
    await session.prepared(transaction(0), part(0, 0), part(0, 1))
    assert sink.batches == {Transaction("p", 0): values[0] + values[1]}


# Two-phase


@TWO_PHASE
async def test_nothing_is_visible_before_commit_and_losers_are_dropped(sink_gateway, attach, kind):
    sink = kind()
    attach(sink)
    session = await sink_gateway.session()
    await session.staged(part(0, 0, "a"), b"lost")
    await session.staged(part(0, 0, "b"), b"kept")
    slow = session.start(part(0, 0, "c"))
    session.rows(slow, [b"never whole"])
    await session.prepared(transaction(0), part(0, 0, "b"))
    assert sink.values == []
    assert [staged.attempt for staged in sink.parts] == ["b"]
    assert "drop 0 0 c" in sink.calls
    await session.committed(transaction(0))
    await session.committed(transaction(0))
    assert sink.values == [b"kept"]


@TWO_PHASE
async def test_an_abort_drops_everything_also_what_is_being_staged(sink_gateway, attach, kind):
    sink = kind()
    attach(sink)
    session = await sink_gateway.session()
    await session.staged(part(0, 0), b"a")
    open_ = session.start(part(0, 1))
    session.rows(open_, [b"b"])
    session.abort(transaction(0))
    # What begins after the abort is not its business.
    await session.staged(part(0, 0, "again"), b"a")
    assert [staged.attempt for staged in sink.parts] == ["again"]
    await session.prepared(transaction(0), part(0, 0, "again"))
    session.abort(transaction(0))
    await session.committed(transaction(1))
    assert (sink.parts, sink.votes, sink.values) == ({}, {}, [])


@TWO_PHASE
async def test_a_part_may_be_dropped_at_any_time(sink_gateway, attach, kind):
    sink = kind()
    attach(sink)
    session = await sink_gateway.session()
    session.drop(session.start(part(0, 0)))
    whole = await session.staged(part(0, 1), b"a")
    half = session.start(part(0, 2))
    session.rows(half, [b"b"])
    session.drop(half)
    session.rows(half, [b"c"], first=1)
    session.drop(whole)
    await session.prepared(transaction(0))
    assert sink.parts == {}


@TWO_PHASE
async def test_refused_messages_of_a_part(sink_gateway, attach, kind):
    sink = kind()
    sink.outcomes = refuse_bad
    attach(sink)
    session = await sink_gateway.session()
    await session.staged(part(0), b"a", b"bad", b"c", refused={1: "b'bad' is bad"})


@TWO_PHASE
@pytest.mark.parametrize(("outcomes", "message"), WRONG_OUTCOMES)
async def test_outcomes_of_a_part_are_checked(sink_gateway, attach, kind, outcomes, message):
    sink = kind()
    sink.outcomes = outcomes
    attach(sink)
    session = await sink_gateway.session()
    id_ = session.start(part(0))
    session.rows(id_, [b"a", b"b"])
    session.end(id_, 2)
    failed = await session.next("failed")
    assert failed.part_id == id_
    assert message in failed.reason
    assert sink.parts == {}


@TWO_PHASE
async def test_a_failed_part_is_dropped_and_the_session_goes_on(sink_gateway, attach, kind):
    sink = kind()
    sink.raises["stage"] = [OSError("disk full")]
    attach(sink)
    session = await sink_gateway.session()
    id_ = session.start(part(0))
    for n in range(100):
        session.rows(id_, [b"a"], first=n)
    failed = await session.next("failed")
    assert (failed.part_id, failed.reason) == (id_, "OSError: disk full")
    assert sink.calls == ["recover", "stage 0 0 a", "drop 0 0 a"]
    await session.staged(part(0, attempt="b"), b"a")


@TWO_PHASE
async def test_a_stage_that_does_not_take_all_rows_confirms_nothing(sink_gateway, attach, kind):
    sink = kind()

    def lazy(part, rows):
        return None

    async def lazy_on_loop(part, rows):
        return None

    sink.stage = lazy if kind is TwoPhase else lazy_on_loop
    attach(sink)
    session = await sink_gateway.session()
    id_ = session.start(part(0))
    session.rows(id_, [b"a"])
    session.end(id_, 1)
    assert "before the end of the part" in (await session.next("failed")).reason


@TWO_PHASE
@pytest.mark.parametrize("method", ["prepare", "commit"])
async def test_a_decision_that_failed_may_come_again(sink_gateway, attach, kind, method):
    sink = kind()
    sink.raises[method] = [OSError("away")]
    attach(sink)
    session = await sink_gateway.session()
    await session.staged(part(0), b"a")
    session.prepare(transaction(0), part(0))
    if method == "commit":
        await session.next("prepared")
        session.commit(transaction(0))
    failed = await session.next("failed")
    assert (failed.transaction, failed.reason) == (transaction(0), "OSError: away")
    if method == "prepare":
        await session.prepared(transaction(0), part(0))
    await session.committed(transaction(0))
    assert sink.values == [b"a"]


@TWO_PHASE
async def test_an_abort_that_failed_is_only_logged(sink_gateway, attach, kind, caplog):
    sink = kind()
    sink.raises["abort"] = [OSError("away")]
    attach(sink)
    session = await sink_gateway.session()
    session.abort(transaction(0))
    await session.committed(transaction(1))
    assert "aborting of batch 0 of pipeline p: OSError: away" in caplog.text


@TWO_PHASE
async def test_a_sink_that_comes_back_tells_what_it_has(sink_gateway, attach, kind):
    sink = kind()
    attach(sink)
    session = await sink_gateway.session()
    assert not session.hello.staged
    for batch in range(3):
        await session.staged(part(batch), b"%d" % batch)
    await session.prepared(transaction(0), part(0))
    await session.prepared(transaction(1), part(1))
    await session.committed(transaction(0))
    session.rows(session.start(part(2, 1)), [b"unfinished"])
    session.close(grpc.StatusCode.UNAVAILABLE)

    again = await sink_gateway.session()
    assert list(again.hello.staged) == [part(1), part(2)]
    assert list(again.hello.prepared) == [transaction(1)]
    assert list(again.hello.committed) == [transaction(0)]
    await again.committed(transaction(1))
    again.abort(transaction(2))
    await again.committed(transaction(3))
    assert (sink.values, sink.parts) == ([b"0", b"1"], {})


async def test_a_sink_that_cannot_tell_what_it_has_is_asked_again(sink_gateway, attach, caplog):
    sink = TwoPhase()
    sink.raises["recover"] = [OSError("away"), OSError("away")]
    attach(sink)
    await sink_gateway.session()
    assert sink.calls == ["recover"] * 3
    assert "could not report what it has stored: OSError: away; trying again" in caplog.text


async def test_one_part_that_is_stuck_does_not_keep_others(sink_gateway, attach):
    release = threading.Event()

    class Stuck(TwoPhase):
        def stage(self, part, rows):
            if part.partition == 0:
                release.wait(120)
            return super().stage(part, rows)

    attach(Stuck())
    session = await sink_gateway.session()
    stuck = session.start(part(0, 0))
    session.rows(stuck, [b"a"])
    await session.staged(part(0, 1), b"b")
    await session.staged(part(1, 1), b"b")
    await session.prepared(transaction(1), part(1, 1))
    release.set()
    session.end(stuck, 1)
    assert (await session.next("staged")).id == stuck


# Backpressure


@EVERY
async def test_a_stuck_sink_stops_the_gateway(sink_gateway, attach, kind):
    release = threading.Event()
    on_loop = asyncio.Event()
    sink = kind()
    blocking = isinstance(sink, Plain | Idempotent | TwoPhase)

    def hold_up(method):
        def blocked(*arguments):
            release.wait(120)
            return method(*arguments)

        async def blocked_on_loop(*arguments):
            await on_loop.wait()
            return await method(*arguments)

        return blocked if blocking else blocked_on_loop

    for name in ("write", "check", "stage"):
        if hasattr(sink, name):
            setattr(sink, name, hold_up(getattr(sink, name)))
    attach(sink, settings=Settings(queue_bytes=1 << 20))
    session = await sink_gateway.session()
    id_ = session.start(part(0))
    for n in range(200):
        session.rows(id_, [b"x" * (1 << 18)], first=n)
    session.end(id_, 200)
    written = -1
    while written != session.written:
        written = session.written
        await asyncio.sleep(0.25)
    assert written < 100
    release.set()
    on_loop.set()
    await session.next("staged")
    await session.prepared(transaction(0), part(0))


# Rows


def test_rows_in_columns_and_one_by_one():
    rows = Rows(frame_of([b"a", None, b"ccc"], first=5, keys=[b"k", b"", None], event_times=[1, None, 3]))
    assert (len(rows), rows.first) == (3, 5)
    assert (rows.values.data, list(rows.values.lengths)) == (b"accc", [1, 0xFFFFFFFF, 3])
    assert (rows.keys.data, list(rows.keys.lengths)) == (b"k", [1, 0, 0xFFFFFFFF])
    assert list(rows.event_times) == [1, -(2**63), 3]
    assert [message.sequence for message in rows.messages()] == [5, 6, 7]
    assert Rows(frame_of([b"a"])).keys is None
    assert Rows(frame_of([b"a"])).event_times is None


@pytest.mark.parametrize("gone", [set(), {5}, {6}, {5, 7}, {6, 7}, {1}])
def test_rows_without_some(gone):
    frame = frame_of(
        [b"a", None, b"ccc", b"d"],
        first=5,
        keys=[b"k", b"", None, b"k4"],
        event_times=[1, None, 3, 4],
        message_ids=["one", None, "three", "four"],
        headers=[[("h", b"1"), ("i", None)], None, [("h", b"3")], [("j", b"")]],
    )
    rows = Rows(frame)
    assert rows.without(gone).messages() == [m for m in rows.messages() if m.sequence not in gone]
    assert rows.without({5, 6, 7, 8}) is None
    assert values_of(rows.without({6}).without({7})) == [b"a", b"d"]


def test_rows_of_messages():
    messages = [Message(b"a", key=b"k", message_id="one"), Message(None, event_time=7, sequence=3)]
    rows = Rows.of(*messages, first=5)
    assert rows.messages() == [replace(messages[0], sequence=5), replace(messages[1], sequence=6)]
    assert (rows.message_ids.data, list(rows.message_ids.lengths)) == (b"one", [3, 0xFFFFFFFF])
    with pytest.raises(InvalidMessage, match="at least one"):
        Rows.of()


def test_a_sink_needs_only_write():
    class Smallest(Sink):
        name = "smallest"

        def write(self, rows):
            return None

    assert Smallest().flush() is None


# Runs


@TWO_PHASE
@pytest.mark.parametrize("keeps", [True, False])
async def test_a_sink_that_keeps_runs_apart_says_so_and_is_told_the_run_of_each_transaction(sink_gateway, attach, kind, keeps):
    sink = kind()
    sink.keeps_runs = keeps
    attach(sink)
    session = await sink_gateway.session()
    assert (source_pb2.CAPABILITY_RUNS in session.hello.capabilities) is keeps
    runs = ["r1", "r2"] if keeps else [""]
    told = {run: pb.Transaction(pipeline="p", batch=8, run=run) for run in runs}
    parts = {run: pb.Part(transaction=told[run], partition=0, attempt=f"{run}/a") for run in runs}
    for run in runs:
        id_ = session.start(parts[run])
        session.rows(id_, [run.encode()])
        session.end(id_, 1)
        await session.next("staged")
        session.prepare(told[run], parts[run])
        assert (await session.next("prepared")).transaction == told[run]
    session.commit(told[runs[0]])
    assert (await session.next("committed")).transaction == told[runs[0]]
    assert sink.values == [runs[0].encode()]


async def test_sinks_of_other_modes_do_not_keep_runs(sink_gateway, attach):
    attach(Plain())
    session = await sink_gateway.session()
    assert source_pb2.CAPABILITY_RUNS not in session.hello.capabilities
