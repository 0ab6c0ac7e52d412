"""sdk/examples/rust-archive: its own tests, the kit, and a real gateway; killed in each phase, it shows each batch once."""

import asyncio
import gzip
import signal
import time
from pathlib import Path

import pytest
from tests.conformance.kit import judged, some_of
from tests.gateway.processes import gateway_process
from tests.sdk.processes import DEADLINE_S, connector
from tests.sdk.queries import Writer
from tests.sdk.rust.conftest import ROOT, Toolchain

from headrace.conformance.sinks import SINK_CHECKS

pytestmark = [pytest.mark.timeout(900), pytest.mark.in_turn(6, 6)]  # The first build compiles gRPC.

CONFORMANCE = ROOT / "sdk" / "examples" / "rust-archive" / "conformance"


@pytest.fixture(scope="module")
def program(cargo: Toolchain) -> Path:
    return cargo.build("rust-archive")


def is_staging(folder: Path) -> None:
    """Waits until a part is being written."""
    deadline = time.monotonic() + DEADLINE_S
    while not list(folder.glob(".staged/*/*.partial")):
        assert time.monotonic() < deadline, "nothing is staged"
        time.sleep(0.02)


def test_its_own_checks_pass(cargo: Toolchain) -> None:
    cargo.check("rust-archive")


def test_it_keeps_the_rules_of_the_protocol(program: Path, pytestconfig: pytest.Config) -> None:
    only = some_of(SINK_CHECKS, "rust-archive", pytestconfig)
    verdict = judged("sink", CONFORMANCE / "sink.toml", [CONFORMANCE / "run.sh", program, "{work}"], only)
    assert verdict.exit_code == 0, verdict.explained()
    assert len(verdict.named("passed")) >= len(only) - 8
    assert not verdict.named("known failure")


async def test_each_batch_is_shown_once_whatever_is_killed(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    batches = [[b"%d of batch %d" % (number, batch) for number in range(20)] for batch in range(9)]
    command = (program, folder, "--sink", "lines", "--rotate-bytes", "500")
    with gateway_process() as gateway:
        async with connector(gateway.address, tmp_path / "log", *command) as sink:
            query = Writer(gateway.address, "lines")
            await query.write(0, batches[0])
            # In the middle of a part: the batch runs again.
            cancel = await query.begin(1, batches[1])
            await asyncio.to_thread(is_staging, folder)
            await sink.restart()
            cancel()
            await query.write(1, batches[1])
            # After it has staged, before its vote: what it has staged counts.
            parts = await query.stage(2, batches[2])
            await sink.restart()
            await query.retried(lambda: query.vote(2, parts))
            await query.commit(2)
            # After its vote.
            await query.vote(3, await query.stage(3, batches[3]))
            await sink.restart()
            await query.commit(3)
            # Somewhere in the commit.
            for batch in (4, 5, 6):
                await query.vote(batch, await query.stage(batch, batches[batch]))
                await asyncio.gather(query.commit(batch), sink.restart())
            # The sink and the gateway, after the vote.
            await query.vote(7, await query.stage(7, batches[7]))
            gateway.process.kill()
            gateway.wait()
            await sink.restart()
            with gateway_process("--listen", gateway.address):
                await query.commit(7)
                await query.write(8, batches[8])
                assert await sink.end(signal.SIGTERM) == 0, sink.log
                await query.close()
    files = sorted(folder.glob("*.gz"))
    lines = [line for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]
    assert lines == [line for batch in batches for line in (*batch[0::2], *batch[1::2])]
    assert len(files) > 1
    assert [*folder.glob(".staged/*/*"), *folder.glob(".prepared/*"), *folder.glob(".commit"), *folder.glob(".next")] == []
