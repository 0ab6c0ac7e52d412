"""`headrace timeline` and `headrace why`, at a real gateway."""

import asyncio
import re
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.cli.json_shape import result_of
from tests.gateway.sink_wire import sink_and_source
from tests.gateway.test_rights import token
from tests.gateway.test_timeline import report, until_reached
from tests.gateway.wire import DEADLINE_S, Connector, Engine, numbered, serve

from headrace.cli import cli
from headrace.contract.limits import MAX_SEQUENCE
from headrace.protocol.v1 import admin_pb2 as pb


async def call(*arguments: str, address: str, environ: dict[str, str] | None = None) -> Result:
    """The output of a command; the gateway is served by this thread meanwhile."""
    words = [*arguments, "--gateway", address]
    return await asyncio.to_thread(CliRunner().invoke, cli, words, env={"COLUMNS": "160", **(environ or {})})


async def answer(*arguments: str, address: str) -> Any:
    result = await call(*arguments, "--json", address=address)
    assert result.exit_code == 0, result.stderr
    return result_of(result.stdout)


async def test_a_micro_batch_is_followed_from_its_plan_to_its_acknowledgement() -> None:
    async with serve() as (_, address), sink_and_source(address, committed=6) as (sink, writer, source, reader):
        await source.send(frame=numbered(1, 1, 3))
        await reader.plan_until("orders/0", 3)
        await report(reader, {"batch": 7, "ends": {"orders/0": (None, 3)}})
        await reader.fetch("orders/0", None, 3)
        first = await call("timeline", "p", address=address)
        assert first.exit_code == 0
        assert "pipeline p" in first.stdout
        assert "acknowledged" not in first.stdout

        waits = await call("why", "orders/0", "2", address=address)
        assert waits.exit_code == 0
        assert "orders/0 2 is in a micro-batch that is not committed" in waits.stdout
        assert "pipeline p: is in a micro-batch that is not committed, micro-batch 7, read" in waits.stdout
        assert (await answer("why", "orders/0", "2", address=address))["state"] == "in-batch"
        oldest = await answer("why", "orders/0", address=address)
        assert (oldest["sequence"], oldest["state"]) == (0, "in-batch"), "nothing is acknowledged yet"

        delivery = writer.deliver(7)
        await sink.take_part()
        await delivery
        vote = writer.vote(7)
        await until_reached(reader, "staged")
        await sink.vote()
        await vote
        await reader.plan({"orders/0": 3}, wait_ms=0)
        await writer.report_commits(committed=7)
        await sink.commit()
        await until_reached(reader, "sink_committed")
        last = (await call("timeline", "p", address=address)).stdout
        for stage in ("planned", "read", "processed", "staged", "voted", "committed", "sink committed", "acknowledged"):
            assert stage in last
        assert "max since planned" in last
        whole = await call("timeline", "p", "--batch", "7", address=address)
        assert "the first" in whole.stdout
        assert "orders/0" in whole.stdout
        found = await answer("timeline", "p", "--limit", "1", address=address)
        assert [batch["batch"] for batch in found["batches"]] == [7]
        done = await call("why", "orders/0", "3", address=address)
        assert done.stdout == "orders/0 3 is acknowledged\n"
        following = await answer("why", "orders/0", address=address)
        assert (following["sequence"], following["state"]) == (4, "not-received")


async def test_a_timeline_without_a_name_is_that_of_the_only_pipeline() -> None:
    async with serve() as (_, address):
        none = await call("timeline", address=address)
        assert (none.exit_code, none.stderr) == (1, "Error: the gateway knows no pipeline yet: start its query\n")
        reader, other = Engine(address), Engine(address, "q", streams="others/*")
        await reader.attach()
        only = await call("timeline", address=address)
        assert (only.exit_code, only.stdout) == (0, "Pipeline p has planned no micro-batch since the gateway started.\n")
        assert (await answer("timeline", address=address))["pipeline"] == "p"
        empty = await call("timeline", "", address=address)
        assert (empty.exit_code, "no pipeline ''" in empty.stderr) == (1, True), empty.stderr
        await other.attach()
        both = await call("timeline", address=address)
        assert (both.exit_code, both.stderr) == (2, "Error: the gateway knows 2 pipelines, name one of them: p, q\n")
        for each in (reader, other):
            await each.close()


async def test_why_names_a_problem_once_and_says_the_same_when_it_is_asked_twice() -> None:
    """The message and its reader wait for the same sink; only ages differ from one answer to the next."""

    def without_ages(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without_ages(each) for key, each in value.items() if key not in ("age_ms", "since")}
        return [without_ages(each) for each in value] if isinstance(value, list) else value

    async with serve() as (_, address), sink_and_source(address, committed=6) as (sink, _writer, source, reader):
        await source.send(frame=numbered(1, 1, 3))
        await reader.status_once(lambda status: status.gateway.received_messages == 3)
        await sink.close()
        await reader.status_once(lambda status: any(problem.part == "pipeline p" for problem in status.problems))
        asked = [await call("why", "orders/0", "2", address=address) for _ in range(2)]
        lines = [re.sub(r"received \S+ \S+ ago", "received", each.stdout) for each in asked]
        assert lines[0] == lines[1]
        (cause,) = [line.strip() for line in lines[0].splitlines() if line.strip().startswith("sink out: ")]
        assert lines[0].count(cause) == 1
        documents = [without_ages(await answer("why", "orders/0", "2", address=address)) for _ in range(2)]
        assert documents[0] == documents[1]


async def test_what_the_gateway_does_not_know_is_an_error() -> None:
    async with serve() as (_, address):
        reader = Engine(address)
        await reader.attach()
        empty = await call("timeline", "p", address=address)
        assert (empty.exit_code, empty.stdout) == (0, "Pipeline p has planned no micro-batch since the gateway started.\n")
        for arguments, code, said in (
            (["timeline", "none"], 1, "none"),
            (["timeline", "p", "--batch", "9"], 1, "no micro-batch 9 of pipeline p: it knows no numbers yet"),
            (["timeline", "p", "--limit", "501"], 2, "501"),
            (["timeline", "p", "--limit", "0"], 2, "0"),
            (["why", "none/0", "1"], 1, "none/0"),
            (["why", "none/0"], 1, "none/0"),
            (["why", "none/0", "--epoch", "1"], 2, "--epoch"),
            (["why", "none/0", str(MAX_SEQUENCE + 1)], 2, str(MAX_SEQUENCE)),
            (["why", "none/0", "-1"], 2, "-1"),
            (["why", "x" * 5_000, "1"], 1, "x"),
        ):
            result = await call(*arguments, address=address)
            assert (result.exit_code, said in result.stderr) == (code, True), (arguments, result.output)
        await reader.close()


@pytest.mark.parametrize("arguments", [["timeline", "p"], ["why", "orders/0", "1"]], ids=" ".join)
async def test_only_who_may_see_the_status_sees_it(arguments: list[str]) -> None:
    seer, other = token("seer", admin=True), token("other", pipelines=("*",), reads=("orders/*",))
    async with serve(tokens=[seer, other]) as (_, address):
        allowed = await call(*arguments, address=address, environ={"HEADRACE_TOKEN": "seer"})
        assert allowed.exit_code == 1
        assert "right" not in allowed.stderr
        for secret in ("other", "unknown"):
            refused = await call(*arguments, address=address, environ={"HEADRACE_TOKEN": secret})
            assert refused.exit_code == 1
            assert "right" in refused.stderr or "token" in refused.stderr


async def test_while_the_gateway_is_away_it_says_so() -> None:
    async with serve() as (_, address):
        pass
    for arguments in (["timeline", "p"], ["why", "orders/0", "1"]):
        result = await call(*arguments, address=address)
        assert result.exit_code == 1
        assert address in result.stderr


@pytest.mark.parametrize(
    ("kind", "name", "part"),
    [
        (pb.PART_KIND_STREAM, "orders/0", "stream orders/0"),
        (pb.PART_KIND_CONNECTOR, "test-0", "connector test-0"),
        (pb.PART_KIND_PIPELINE, "p", "pipeline p"),
    ],
)
async def test_a_pause_is_named_as_the_reason(kind: pb.PartKind.ValueType, name: str, part: str) -> None:
    async with serve() as (_, address):
        source, reader = Connector(address), Engine(address)
        await source.hello()
        await reader.attach()
        await source.open()
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 1, 3))
        await reader.status_once(lambda status: status.gateway.received_messages == 3)
        await reader.admin.Pause(pb.PauseRequest(kind=kind, name=name), timeout=DEADLINE_S)
        found = await answer("why", "orders/0", "2", address=address)
        (pipeline,) = found["pipelines"]
        assert pipeline["reason"].startswith(f"nothing new is planned: {part} was paused by ")
        await reader.admin.Resume(pb.ResumeRequest(kind=kind, name=name), timeout=DEADLINE_S)
        (pipeline,) = (await answer("why", "orders/0", "2", address=address))["pipelines"]
        assert "paused" not in pipeline["reason"]
        await source.close()
        await reader.close()
