"""The last hour: what it says of each part, parts that come and go, its bounds, and who may ask for which range."""

import math
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.gateway.http_server import get, serve_http
from tests.gateway.test_rights import token
from tests.gateway.wire import Connector, Engine, numbered, serve
from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.gateway import Http, Limits
from headrace.gateway.core import Gateway
from headrace.gateway.core.status.history import HISTORY_S, INTERVAL_S, History
from headrace.gateway.core.status.series import Rings
from headrace.gateway.observer import Observer, Recording


@pytest.fixture
def time() -> Iterator[VirtualClock]:
    with clock.use(VirtualClock()) as now:
        yield now


def values(history: History, kind: str, name: str, field: str, seconds: float = HISTORY_S) -> list[float | None]:
    found = history.read(kind, name, seconds)
    assert found is not None
    return [None if math.isnan(value) else value for value in found.values[field]]


async def test_rates_are_those_between_two_moments(time: VirtualClock) -> None:
    gateway = Gateway(Limits())
    history, stream = History(gateway), gateway.stream("orders/0")
    for received in (100, 150, 150, 20):
        stream.received_messages = received
        time.advance(INTERVAL_S)
        await history.take()
    # The count went back: it has started again, and nobody knows how much was lost.
    assert values(history, "stream", "orders/0", "received_messages_per_s") == [None, 10, 0, None]


async def test_a_range_has_its_moments_and_no_others(time: VirtualClock) -> None:
    gateway = Gateway(Limits())
    history = History(gateway)
    for faults in range(1, 1_001):
        time.advance(INTERVAL_S)
        await history.take(faults)
    assert values(history, "gateway", "", "faults") == list(range(281, 1_001))
    assert values(history, "gateway", "", "faults", 12) == [998, 999, 1_000]
    found = history.read("gateway", "", HISTORY_S)
    assert found is not None
    assert found.times[-1] == pytest.approx(clock.now())
    assert {round(later - earlier, 3) for earlier, later in zip(found.times, found.times[1:], strict=False)} == {INTERVAL_S}


async def test_a_step_of_the_clock_leaves_moments_in_order(time: VirtualClock) -> None:
    history = History(Gateway(Limits()))
    for ahead_s in (0, 7_200, -3_600):
        time.set(ahead_s=ahead_s)
        time.advance(INTERVAL_S)
        await history.take()
    found = history.read("gateway", "", HISTORY_S)
    assert found is not None
    assert list(found.times) == sorted(found.times)
    assert found.times[-1] - found.times[0] == pytest.approx(2 * INTERVAL_S)


async def test_a_part_that_leaves_is_kept_for_an_hour_and_then_forgotten(time: VirtualClock) -> None:
    gateway = Gateway(Limits())
    history = History(gateway)
    gateway.stream("orders/0").held_bytes = 7
    await history.take()
    gateway.forget_stream(gateway.streams["orders/0"])
    for _ in range(10):
        time.advance(INTERVAL_S)
        await history.take()
    assert values(history, "stream", "orders/0", "buffered_bytes") == [7, *[None] * 10]
    for _ in range(720):
        time.advance(INTERVAL_S)
        await history.take()
    assert history.read("stream", "orders/0", HISTORY_S) is None


async def test_an_hour_of_a_thousand_streams_takes_at_most_32_megabytes(time: VirtualClock) -> None:
    gateway = Gateway(Limits())
    for number in range(1_000):
        gateway.stream(f"orders/{number}")
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        history = History(gateway)
        for _ in range(10):
            time.advance(INTERVAL_S)
            await history.take()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    # The rings of a part are made at once, so that an hour takes no more than ten moments.
    assert history.size_bytes < taken < 32 * 10**6
    assert history.read("stream", "orders/999", HISTORY_S) is not None


async def test_more_parts_than_there_is_room_for_take_no_more_memory(time: VirtualClock) -> None:
    gateway = Gateway(Limits())
    for number in range(3_000):
        gateway.stream(f"orders/{number}")
    history = History(gateway)
    for _ in range(2):
        time.advance(INTERVAL_S)
        await history.take()
    assert history.size_bytes <= 32 * 2**20
    assert history.read("stream", "orders/2999", HISTORY_S) is None


class RingsMachine(RuleBasedStateMachine):
    """Rings of a few moments and little room, against lists."""

    MOMENTS, FIELDS, ROOM = 4, 2, 3

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.rings = Rings(self.MOMENTS, self.ROOM * self.FIELDS * (self.MOMENTS + 1) * 4)
        self.moments: list[dict[str, float]] = []

    @rule(names=st.sets(st.sampled_from("abcdef")), value=st.integers(0, 100))
    def take(self, names: set[str], value: int) -> None:
        with clock.use(self.clock):
            self.clock.advance(1)
            put = {name for name in sorted(names) if self.rings.put("stream", name, {"one": value, "two": -value})}
            self.rings.complete()
        before = set(self.moments[-1]) if self.moments else set()
        assert put >= names & before, "a part keeps its room as long as it is there"
        assert put == names or len(names | before) > self.ROOM, "one that has been away gives its room up"
        self.moments.append({name: float(value) for name in put})

    @invariant()
    def what_is_kept_is_what_was_taken(self) -> None:
        assert len(self.rings) <= self.ROOM
        last = self.moments[-self.MOMENTS :]
        for name in "abcdef":
            with clock.use(self.clock):
                found = self.rings.read("stream", name, 1e9)
            if found is None:
                assert not last or name not in last[-1]
                continue
            kept = [None if math.isnan(value) else value for value in found.values["one"]]
            assert found.values["two"] == pytest.approx([-value for value in found.values["one"]], nan_ok=True)
            assert len(kept) == len(last)
            # One whose room another part has taken meanwhile begins again.
            assert all(one is None or one == moment.get(name) for one, moment in zip(kept, last, strict=True))
            present = name in last[-1]
            assert (kept[-1] is not None) == present


TestRings = RingsMachine.TestCase
TestRings.settings = settings(max_examples=100, stateful_step_count=20, deadline=None)


async def test_latencies_and_batches_are_those_of_the_queries() -> None:
    async with serve() as (gateway, address):
        recording = Recording(gateway, Observer(gateway, Http()))
        source, reader = Connector(address), Engine(address)
        await source.hello()
        await reader.attach()
        await source.open()
        await source.expect("stream_opened")
        await recording.take()
        await source.send(frame=numbered(1, 1, 3))
        await reader.plan_until("orders/0", 3)
        await reader.fetch("orders/0", None, 3)
        await recording.take()
        assert values(recording.history, "pipeline", "p", "batch_running_ms")[-1] is not None
        await reader.plan({"orders/0": 3}, wait_ms=0)
        await source.expect("ack")
        await recording.take()
        for field in ("batch_duration_ms", "commit_latency_ms", "acknowledgement_latency_ms"):
            assert values(recording.history, "pipeline", "p", field)[-1] is not None, field
        assert values(recording.history, "pipeline", "p", "batch_running_ms")[-1] is None
        assert values(recording.history, "stream", "orders/0", "commit_latency_ms")[-1] is not None
        await recording.take()
        assert values(recording.history, "stream", "orders/0", "commit_latency_ms")[-1] is None, "nothing was committed since"
        await source.close()
        await reader.close()


async def test_an_error_at_one_moment_does_not_end_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Gateway(Limits())
    recording = Recording(gateway, Observer(gateway, Http()))
    gateway.stream("orders/0").held_bytes = "many"  # type: ignore[assignment]
    with pytest.raises((TypeError, ValueError)):
        await recording.history.take()
    gateway.streams["orders/0"].held_bytes = 8
    await recording.history.take()
    assert values(recording.history, "stream", "orders/0", "buffered_bytes")[-1] == 8


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 200),
        ("?seconds=1", 200),
        ("?seconds=3600", 200),
        ("?seconds=3601", 400),
        ("?seconds=0", 400),
        ("?seconds=-5", 400),
        ("?seconds=" + "9" * 5_000, 400),
        ("?seconds=1e3", 400),
        ("?kind=nonsense", 400),
        ("?kind=stream", 404),
        ("?kind=stream&name=none/0", 404),
        ("?kind=stream&name=" + "x" * 5_000, 404),
        ("?kind=stream&name=orders/0&seconds=60", 200),
    ],
)
async def test_a_range_that_there_cannot_be_is_refused(query: str, status: int) -> None:
    gateway = Gateway(Limits())
    gateway.stream("orders/0")
    observer = Observer(gateway, Http())
    recording = Recording(gateway, observer)
    await recording.take()
    async with serve_http(gateway, recording=recording) as http:
        code, document = await get(http, f"/api/v1/history{query}")
    assert code == status, document
    if code == 200:
        assert [len(each) for each in document["values"].values()] == [1] * len(document["values"])
        assert len(document["times_ms"]) == 1
    else:
        assert document["detail"]


async def test_only_who_may_see_the_status_sees_the_history() -> None:
    tokens = [token("see", admin=True), token("other", control=True, peek=("*/*",))]
    async with serve_http(Gateway(Limits()), tokens) as http:
        for path in ("/api/v1/history", "/api/v1/event-log"):
            assert (await get(http, path))[0] == 401
            assert (await get(http, path, "other"))[0] == 403
            assert (await get(http, path, "see"))[0] in (200, 404)
