"""A run that writes to no sink, such as to lakes only, reports its commit log by the names under which it reads."""

import asyncio

import grpc
import pytest
from tests.gateway.sink_wire import Writer
from tests.gateway.test_sinks import status_of
from tests.gateway.wire import Engine, serve

from headrace.protocol.v1.metrics_pb2 import RUN_FAULT_KIND_BATCH_FAILED, RunFault, RunMetrics, StepMetrics

NO_SINKS = {"sinks": [], "awaited": []}


async def test_its_work_and_what_hinders_it_are_known() -> None:
    async with serve() as (gateway, address):
        writer, reader = Writer(address, readers=["p"]), Engine(address)
        await reader.attach()
        metrics = RunMetrics(batches=3, steps=[StepMetrics(step="rows", received=7)])
        fault = RunFault(kind=RUN_FAULT_KIND_BATCH_FAILED, batch=4, message="disk full")
        assert await writer.report_commits(3, metrics=metrics, fault=fault, **NO_SINKS) == 0
        pipeline = gateway.pipelines["p"]
        assert pipeline.metrics == metrics
        assert pipeline.fault is not None
        assert pipeline.fault.told.message == "disk full"
        assert list((await reader.plan(wait_ms=0)).sinks_away) == []
        for client in (writer, reader):
            await client.close()


async def test_only_one_of_its_runs_is_the_current_one() -> None:
    async with serve() as (gateway, address):
        older, newer = (Writer(address, f"r{n}", readers=["p"]) for n in (1, 2))
        await older.report_commits(3, **NO_SINKS)
        await newer.report_commits(3, **NO_SINKS)
        code, details = await status_of(asyncio.ensure_future(older.commit_report(4, **NO_SINKS)))
        assert (code, "run r2, number 2, has taken over" in details) == (grpc.StatusCode.ABORTED, True)
        assert gateway.commit_logs["query"].committed == 3
        for client in (older, newer):
            await client.close()


@pytest.mark.parametrize("readers", [["p"], []])
async def test_a_pipeline_whose_last_sink_was_removed_decides_what_the_sink_still_has(readers: list[str]) -> None:
    async with serve() as (gateway, address):
        writer = Writer(address, "r2", readers=readers, first_batch=5)
        assert await writer.report_commits(4, former_sinks=["out"], **NO_SINKS) >= 0
        assert gateway.commit_logs["query"].sinks == ("out",)
        await writer.close()


async def test_a_report_of_nobody_is_refused() -> None:
    async with serve() as (gateway, address):
        writer = Writer(address)
        code, details = await status_of(asyncio.ensure_future(writer.commit_report(0, **NO_SINKS)))
        assert (code, details) == (
            grpc.StatusCode.INVALID_ARGUMENT,
            "pipeline query: want the sinks of the run, or the names under which it reads",
        )
        assert not gateway.commit_logs
        await writer.close()
