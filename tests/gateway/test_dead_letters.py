"""Dead letters that the gateway has passed on to sinks: which count, what is shown of them, and to whom."""

import asyncio
import json
import random
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.captured_logs import capture_logs
from tests.cli.json_shape import result_of
from tests.cli.test_timeline_command import call
from tests.gateway.http_server import get, serve_http
from tests.gateway.sink_wire import AT_LEAST_ONCE, TWO_PHASE, SinkClient, Writer
from tests.gateway.test_rights import bearer, token
from tests.gateway.wire import serve
from tests.vectors.packing import pack

from headrace.contract.limits import MAX_DEAD_LETTERS, MAX_NAME_BYTES
from headrace.gateway import Config, Peek
from headrace.gateway.core import Gateway
from headrace.gateway.core.sinks import dead_letters
from headrace.gateway.core.sinks.commit_log import CommitLog
from headrace.gateway.core.sinks.transaction import Part, Transaction
from headrace.gateway.identity import TokenRegistry
from headrace.gateway.reload import ConfigSource, Reloading
from headrace.gateway_status import dead_letters_document
from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc, engine_pb2, frame_pb2

DEADLINE_S = 150.0
ENABLED = Peek(enabled=True)


def letters(values: Sequence[bytes], *more: tuple[str, bytes], reason: str = "no number") -> frame_pb2.Frame:
    """A frame of dead letters of stream orders/0, whose sequences begin at 7, as a query delivers them."""
    added = {"headrace-sink": "totals", "headrace-reason": reason, "headrace-batch": "3", "headrace-stream": "orders/0"}
    headers = [
        [
            *([name, value.hex()] for name, value in more),
            *([name, text.encode().hex()] for name, text in {**added, "headrace-sequence": str(7 + at)}.items()),
        ]
        for at in range(len(values))
    ]
    sequences = [str(at) for at in range(len(values))]
    return pack({"sequences": sequences, "values": [value.hex() for value in values], "headers": headers})


class Rig:
    """A gateway with sink `out`, which takes dead letters of a query."""

    def __init__(self, gateway: Gateway, address: str) -> None:
        self.gateway, self.address = gateway, address
        self.sink, self.writer = SinkClient(address), Writer(address)
        self.channel = grpc.aio.insecure_channel(address)

    def begin(
        self, batch: int, rows: frame_pb2.Frame, attempt: str = "a", writer: Writer | None = None
    ) -> "asyncio.Future[engine_pb2.DeliverResponse]":
        """Delivers a part, which the sink has yet to take."""
        writer = writer or self.writer
        start = writer.start(batch, attempt=attempt)
        start.dead_letters = True
        requests = [
            engine_pb2.DeliverRequest(start=start),
            engine_pb2.DeliverRequest(frame=rows),
            engine_pb2.DeliverRequest(end=engine_pb2.DeliveryEnd(messages=rows.count)),
        ]
        return asyncio.ensure_future(writer.stub.Deliver(iter(requests), timeout=DEADLINE_S))

    async def deliver(self, batch: int, rows: frame_pb2.Frame, attempt: str = "a") -> None:
        delivery = self.begin(batch, rows, attempt)
        await self.sink.take_part()
        await delivery

    async def vote(self, batch: int, attempt: str = "a", writer: Writer | None = None) -> None:
        writer = writer or self.writer
        vote = writer.vote(batch, writer.part(batch, attempt=attempt))
        await self.sink.vote()
        await vote

    async def commit(self, batch: int, writer: Writer | None = None, **more: Any) -> None:
        await (writer or self.writer).report_commits(batch, **more)
        assert (await self.sink.commit()).batch == batch

    async def committed(self, batch: int, rows: frame_pb2.Frame) -> None:
        """Delivers dead letters in a micro-batch that is committed."""
        await self.deliver(batch, rows)
        await self.vote(batch)
        await self.commit(batch)

    async def list(self, sink: str = "out", limit: int = 0, caller: str | None = None) -> Any:
        request = admin_pb2.ListDeadLettersRequest(sink=sink, limit=limit)
        stub = admin_pb2_grpc.AdminServiceStub(self.channel)
        answer = await stub.ListDeadLetters(request, timeout=DEADLINE_S, metadata=bearer(caller) if caller else ())
        return dead_letters_document(answer)

    async def one(self, **more: Any) -> Any:
        """The list of sink `out`."""
        (found,) = (await self.list(**more))["sinks"]
        return found

    async def close(self) -> None:
        await self.sink.close()
        await self.writer.close()
        await self.channel.close()


@asynccontextmanager
async def rigged(peek: Peek = ENABLED, mode: Any = TWO_PHASE) -> AsyncIterator[Rig]:
    async with serve() as (gateway, address):
        gateway.peek = peek
        rig = Rig(gateway, address)
        await rig.sink.hello(mode=mode)
        await rig.writer.report_commits()
        try:
            yield rig
        finally:
            await rig.close()


async def test_a_dead_letter_counts_once_its_micro_batch_is_committed() -> None:
    async with rigged() as rig:
        await rig.deliver(3, letters([b"x", b"y"], ("trace", b"0af7")))
        assert await rig.one() == {"sink": "out", "count": 0, "letters": []}
        await rig.vote(3)
        assert await rig.one() == {"sink": "out", "count": 0, "letters": []}
        await rig.commit(3)
        found = await rig.one()
        assert found["count"] == 2
        newest, oldest = found["letters"]
        assert newest.pop("committed_at").endswith("Z")
        assert newest == {
            "pipeline": "query",
            "batch": 3,
            "reason": "no number",
            "sink": "totals",
            "step": None,
            "stream": "orders/0",
            "sequence": 8,
            "event_time": None,
            "key": None,
            "value": {"text": "y", "base64": "eQ==", "size": 1},
            "headers": [{"name": "trace", "value": {"text": "0af7", "base64": "MGFmNw==", "size": 4}}],
            "headers_in_all": 1,
        }
        assert (oldest["sequence"], oldest["value"]["text"]) == (7, "x")
        await rig.writer.report_commits(3)
        assert (await rig.one())["count"] == 2, "a report that comes twice changes nothing"


async def test_attempts_that_the_vote_does_not_name_do_not_count() -> None:
    async with rigged() as rig:
        await rig.deliver(0, letters([b"first"]), "a")
        await rig.deliver(0, letters([b"second"]), "b")
        await rig.vote(0, "b")
        await rig.commit(0)
        found = await rig.one()
        assert (found["count"], [letter["value"]["text"] for letter in found["letters"]]) == (1, ["second"])


async def test_what_a_replaced_run_has_not_committed_does_not_count() -> None:
    async with rigged() as rig:
        await rig.deliver(0, letters([b"of r1"]))
        await rig.vote(0)
        later = Writer(rig.address, "r2")
        await later.report_commits()
        delivery = rig.begin(0, letters([b"of r2"]), writer=later)
        assert (await rig.sink.expect("abort")).transaction.batch == 0
        await rig.sink.take_part()
        await delivery
        await rig.vote(0, writer=later)
        await rig.commit(0, later)
        found = await rig.one()
        assert (found["count"], found["letters"][0]["value"]["text"]) == (1, "of r2")
        await later.close()


async def test_what_a_run_has_committed_counts_also_if_the_next_run_reports_it() -> None:
    async with rigged() as rig:
        await rig.deliver(0, letters([b"of r1"]))
        await rig.vote(0)
        later = Writer(rig.address, "r2", first_batch=1)
        segment = engine_pb2.RunSegment(run="r1", first_batch=0, last_batch=0)
        await rig.commit(0, later, segments=[segment])
        assert (await rig.one())["count"] == 1
        await later.close()


async def test_what_is_delivered_at_once_counts_without_a_vote() -> None:
    async with rigged(mode=AT_LEAST_ONCE) as rig:
        delivering = rig.writer.stub.DeliverAtOnce(timeout=DEADLINE_S)
        start = rig.writer.start(0)
        start.dead_letters = True
        for message in (
            {"start": start},
            {"frame": letters([b"x"])},
            {"end": engine_pb2.DeliveryEnd(messages=1)},
        ):
            await delivering.write(engine_pb2.DeliverAtOnceRequest(**message))
        await rig.sink.take_part()
        answer = await delivering.read()
        assert isinstance(answer, engine_pb2.DeliverAtOnceResponse)
        assert not answer.refused
        assert (await rig.one())["count"] == 0
        await rig.writer.report_commits(0)
        assert [letter["value"]["text"] for letter in (await rig.one())["letters"]] == ["x"]


async def test_messages_that_are_not_declared_as_dead_letters_are_none() -> None:
    async with rigged() as rig:
        delivery = rig.writer.deliver(0, [b"result"])
        await rig.sink.take_part()
        await delivery
        await rig.vote(0)
        await rig.commit(0)
        assert (await rig.list(""))["sinks"] == []


async def test_without_peeks_they_are_counted_and_not_kept() -> None:
    async with rigged(Peek()) as rig:
        await rig.committed(0, letters([b"x"]))
        answer = await rig.list()
        assert answer["sinks"] == [{"sink": "out", "count": 1, "letters": []}]
        assert not answer["keeps_letters"]
        status = await admin_pb2_grpc.AdminServiceStub(rig.channel).GetStatus(admin_pb2.GetStatusRequest(), timeout=DEADLINE_S)
        assert [sink.dead_letters for sink in status.sinks] == [1]


async def test_a_reload_that_disables_peeks_drops_what_is_kept() -> None:
    async with rigged() as rig:
        source = ConfigSource(Path("gateway.toml"), Config)
        reloading = Reloading(source, Config(peek=ENABLED), TokenRegistry(()), rig.gateway)
        await rig.committed(0, letters([b"x"]))
        await rig.deliver(1, letters([b"y"]))
        assert reloading.reload() == ["peek.enabled: True -> False"]
        await rig.vote(1)
        await rig.commit(1)
        assert await rig.one() == {"sink": "out", "count": 2, "letters": []}


# What is kept is bounded


async def test_so_many_dead_letters_are_kept_and_all_are_counted() -> None:
    async with rigged() as rig:
        for batch in range(4):
            await rig.committed(batch, letters([b"%d" % n for n in range(batch * 1000, batch * 1000 + 200)]))
        found = await rig.one()
        assert (found["count"], len(found["letters"])) == (800, MAX_DEAD_LETTERS)
        assert [letter["value"]["text"] for letter in found["letters"][:2]] == ["3199", "3198"], "the last ones of each part"
        assert len((await rig.one(limit=3))["letters"]) == 3


async def test_so_many_bytes_are_kept_of_a_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "MAX_SINK_BYTES", 5_000)
    async with rigged() as rig:
        await rig.committed(0, letters([b"v" * 2_000] * 10))
        found = await rig.one()
        assert (found["count"], len(found["letters"])) == (10, 4)
        assert {(letter["value"]["size"], len(letter["value"]["text"])) for letter in found["letters"]} == {(2_000, 1_024)}


async def test_what_does_not_fit_before_it_is_committed_is_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "MAX_BYTES", 2_000)
    async with rigged() as rig:
        await rig.deliver(0, letters([b"v" * 1_000]), "a")
        await rig.deliver(1, letters([b"w" * 1_000]), "a")
        for batch in range(2):
            await rig.vote(batch)
        await rig.writer.report_commits(1)
        found = await rig.one()
        assert (found["count"], [letter["batch"] for letter in found["letters"]]) == (2, [0])


def test_the_bytes_of_what_is_undecided_are_those_of_the_parts_whatever_is_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "MAX_BYTES", 2_000)
    monkeypatch.setattr(dead_letters, "MAX_PARTS", 6)
    for seed in range(200):
        drawn, kept = random.Random(seed), dead_letters.DeadLetters()
        for _ in range(40):
            query, number, attempt = drawn.choice("ab"), drawn.randrange(3), drawn.choice("xy")
            part = Part(Transaction(query, number), 0, f"r1/{attempt}")
            match drawn.randrange(8):
                case 0:
                    kept.decide(CommitLog(query, "r1", 1, 0, number))
                case 1:
                    kept.vote("out", [part])
                case 2 if not drawn.randrange(5):
                    kept.clear()
                case _:
                    letter = admin_pb2.DeadLetter(reason="r" * drawn.randrange(900))
                    kept.add("out", part, dead_letters.PartLetters(1, deque([letter] * drawn.randrange(3))))
            sizes = [sum(letter.ByteSize() for letter in of_part.last) for of_part in kept._parts.values()]
            assert kept._undecided_bytes == sum(sizes) <= 2_000, f"seed {seed}"
            assert sizes == [of_part.size for of_part in kept._parts.values()], f"seed {seed}"
            assert len(kept._parts) <= 6, f"seed {seed}"


async def test_a_part_that_is_delivered_again_replaces_its_letters() -> None:
    async with rigged() as rig:
        for _ in range(3):
            await rig.deliver(0, letters([b"v" * 1_000]))
        assert len(rig.gateway.dead_letters._parts) == 1
        await rig.vote(0)
        await rig.commit(0)
        assert (await rig.one())["count"] == 1
        assert rig.gateway.dead_letters._undecided_bytes == 0


def test_a_query_that_never_commits_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "MAX_BYTES", 2_000)
    monkeypatch.setattr(dead_letters, "MAX_PARTS", 6)
    kept = dead_letters.DeadLetters()

    def add(query: str, batch: int, size: int) -> dead_letters.PartLetters:
        found = dead_letters.PartLetters(1, deque([admin_pb2.DeadLetter(reason="r" * size)]))
        kept.add("out", Part(Transaction(query, batch), 0, "r1/a"), found)
        return found

    stuck = [add("stuck", batch, 400) for batch in range(6)]
    others = [add("other", batch, 400) for batch in range(2)]
    assert [len(found.last) for found in others] == [1, 1]
    assert sum(len(found.last) for found in stuck) == 2
    assert [part.transaction.batch for _, part in kept._parts if part.transaction.pipeline == "other"] == [0, 1]


async def test_a_reason_is_shown_after_any_number_of_headers_and_is_cut() -> None:
    async with rigged() as rig:
        more = [(f"h{n}", b"v") for n in range(100)]
        await rig.committed(0, letters([b"x"], *more, reason="r" * 5_000))
        (letter,) = (await rig.one())["letters"]
        assert (letter["reason"], letter["stream"], letter["sequence"]) == ("r" * 256, "orders/0", 7)
        assert (letter["headers"][-1]["name"], letter["headers_in_all"]) == ("h99", 100)


async def test_secrets_in_dead_letters_are_hidden() -> None:
    async with rigged() as rig:
        await rig.committed(0, letters([b'{"password": "opensesame"}'], ("authorization", b"opensesame")))
        assert "opensesame" not in json.dumps(await rig.list())


# Callers


CALLERS = (
    token("sees", peek=("out",)),
    token("sees-others", peek=("totals", "*/*")),
    token("everything-else", sinks=("*",), writes=("*",), pipelines=("*",), admin=True, control=True),
)


async def test_only_a_token_with_the_right_for_the_sink_sees_them() -> None:
    async with serve(tokens=CALLERS) as (gateway, address), serve_http(gateway, CALLERS) as http:
        gateway.peek = ENABLED
        gateway.sink("out")
        of_part = dead_letters.PartLetters(count=1)
        gateway.dead_letters._commit("out", of_part)  # as if a query had delivered one
        rig = Rig(gateway, address)
        for caller, code in (("sees-others", 403), ("everything-else", 403), ("sees", 200)):
            assert (await get(http, "/api/v1/dead-letters?sink=out", caller))[0] == code
            if code == 403:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await rig.list(caller=caller)
                assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert [sink["sink"] for sink in (await rig.list("", caller="sees"))["sinks"]] == ["out"]
        assert (await rig.list("", caller="sees-others"))["sinks"] == [], "of all sinks, the ones that the caller may see"
        await rig.close()


@pytest.mark.parametrize(
    ("sink", "limit", "code", "http_code"),
    [
        ("x" * (MAX_NAME_BYTES + 1), 0, grpc.StatusCode.INVALID_ARGUMENT, 400),
        ("out", MAX_DEAD_LETTERS + 1, grpc.StatusCode.INVALID_ARGUMENT, 400),
        ("other", 0, grpc.StatusCode.NOT_FOUND, 404),
    ],
    ids=["oversized-name", "oversized-limit", "unknown"],
)
async def test_a_request_that_is_not_valid_is_refused(sink: str, limit: int, code: grpc.StatusCode, http_code: int) -> None:
    async with rigged() as rig, serve_http(rig.gateway) as http:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await rig.list(sink, limit)
        assert refused.value.code() is code
        assert (await get(http, f"/api/v1/dead-letters?sink={sink}&limit={limit}"))[0] == http_code


async def test_who_has_seen_them_is_logged_and_what_they_say_is_not() -> None:
    with capture_logs() as logs:
        async with rigged() as rig:
            await rig.committed(0, letters([b"opensesame"]))
            await rig.list()
            with pytest.raises(grpc.aio.AioRpcError):
                await rig.list("other")
    told = [(entry["event"], entry["part"], entry["by"]) for entry in logs if entry["event"].startswith("dead letters")]
    assert told == [("dead letters shown", "sink out", "anybody"), ("dead letters refused", "sink other", "anybody")]
    assert "opensesame" not in str(logs)


async def test_http_and_the_command_show_what_the_admin_service_shows() -> None:
    with capture_logs():
        async with rigged() as rig, serve_http(rig.gateway) as http:
            await rig.committed(0, letters([b"hello\x1b"], ("trace", b"1")))
            told = await rig.list("")
            assert await get(http, "/api/v1/dead-letters") == (200, told)
            found = await call("dead-letters", "list", "--json", address=rig.address)
            assert (found.exit_code, result_of(found.stdout)) == (0, told)
            found = await call("dead-letters", "list", "out", address=rig.address)
            assert found.exit_code == 0
            for said in ("sink out: 1 dead letter", "no number", "batch 0", "orders/0 7", "hello\\x1b", told["replay"]):
                assert said in found.stdout, found.stdout
            found = await call("dead-letters", "list", "other", address=rig.address)
            assert (found.exit_code, "no sink 'other'" in found.stderr) == (1, True)
            rig.gateway.peek = Peek()
            found = await call("dead-letters", "list", address=rig.address)
            assert "[peek]" in found.stdout


async def test_the_command_says_that_there_are_none() -> None:
    with capture_logs():
        async with serve() as (_, address):
            found = await call("dead-letters", "list", address=address)
    assert (found.exit_code, found.stdout.splitlines()[0]) == (0, "no dead letters since the gateway started")
