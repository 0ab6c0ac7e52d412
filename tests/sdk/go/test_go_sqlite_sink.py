"""sdk/examples/go-sqlite-sink: its own tests, and the program at a real gateway, while both are killed."""

import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import grpc
import pytest
from tests.conformance.kit import judged, some_of
from tests.gateway.processes import gateway_process
from tests.sdk.go.toolchain import ROOT, STATICCHECK, Toolchain
from tests.sdk.processes import connector
from tests.sdk.queries import Writer

from headrace.conformance.sinks import SINK_CHECKS

pytestmark = [pytest.mark.timeout(600), pytest.mark.in_turn(1, 6)]  # The first build compiles gRPC and SQLite.

SQLITE_SINK = ROOT / "sdk" / "examples" / "go-sqlite-sink"


def test_its_own_tests_pass(go: Toolchain) -> None:
    done = go.test(SQLITE_SINK)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_formatted_vetted_and_checked(go: Toolchain) -> None:
    assert go.unformatted(SQLITE_SINK) == ""
    for command in (["vet", "./..."], ["run", STATICCHECK, "./..."], ["mod", "verify"]):
        done = go.run(*command, folder=SQLITE_SINK)
        assert done.returncode == 0, done.stdout + done.stderr


def test_it_keeps_the_rules_of_the_protocol(go: Toolchain, pytestconfig: pytest.Config) -> None:
    command: list[str | Path] = [go.build(SQLITE_SINK), "{work}/out.db"]
    only = some_of(SINK_CHECKS, "go-sqlite-sink", pytestconfig)
    verdict = judged("sink", SQLITE_SINK / "conformance.toml", command, only)
    assert verdict.exit_code == 0, verdict.explained()
    assert len(verdict.named("passed")) >= len(only) - 22


async def test_it_writes_each_batch_once(go: Toolchain, tmp_path: Path) -> None:
    path = tmp_path / "out.db"
    batches = [[b"%d of batch %d" % (number, batch) for number in range(10)] for batch in range(5)]
    with gateway_process() as gateway:
        async with connector(gateway.address, tmp_path / "log", go.build(SQLITE_SINK), path) as sink:
            query = Writer(gateway.address, "sqlite")
            await query.write(0, batches[0])
            # The sink is killed after it has written the batch, and the batch runs again: it is found.
            await query.vote(1, await query.stage(1, batches[1]))
            await sink.restart()
            await query.close()
            query = Writer(gateway.address, "sqlite", run=2, committed=0)
            await query.write(1, batches[1])
            # The sink is killed before the vote: what it held is gone, and the batch is delivered again.
            parts = await query.stage(2, batches[2])
            await sink.restart()
            with pytest.raises(grpc.aio.AioRpcError):
                await query.vote(2, parts)
            await query.write(2, batches[2])
            # The gateway is killed after the vote, and the batch runs again.
            await query.vote(3, await query.stage(3, batches[3]))
            gateway.process.kill()
            gateway.wait()
            with gateway_process("--listen", gateway.address):
                await query.write(3, batches[3])
                await query.write(4, batches[4])
                assert await sink.end(signal.SIGTERM) == 0, sink.log
                await query.close()
    with closing(sqlite3.connect(path)) as database:
        rows = Counter(value for (value,) in database.execute("SELECT CAST(value AS BLOB) FROM messages"))
        assert database.execute("SELECT * FROM headrace_batches").fetchall() == [("query", 4)]
    assert rows == Counter(value for batch in batches for value in batch)
