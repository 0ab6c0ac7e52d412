"""What a program writes to a log and rotates, and what a query reads of it through a gateway process that is killed: the same."""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests import machines
from tests.connectors.logging_program import SCHEMES, Program
from tests.connectors.rabbitmq.rig import Query, values
from tests.gateway.processes import GatewayProcess, gateway_process

from headrace.connectors import FileSource
from headrace.sdk import Batch, Close, Position, serve
from headrace.sdk.wire import pack

SECONDS_PER_EXAMPLE = 20.0
KILLS = 2
"""How many gateways an example kills at most: each takes a second of a processor to start."""
DEADLINE_S = 150.0


class KilledGateway(RuleBasedStateMachine):
    """Writes and rotates a log, reads and commits micro-batches, and kills the gateway between any two steps."""

    source = FileSource

    @initialize(scheme=st.sampled_from(SCHEMES))
    def begin(self, scheme: str) -> None:
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp(prefix="machine-"))
        self.program = Program(self.folder / "app.log", scheme)
        self.program.write(1)
        self.stack = contextlib.ExitStack()
        self.gateway = self._started("127.0.0.1:0")
        self.query = self.runner.run(self._asks())
        self.read: list[bytes] = []
        self.uncommitted: list[bytes] = []
        self.kills = 0
        source = self.source("s", [self.folder / "*"], rotated_seconds=0.0)
        self.serving = self.runner.run(self._serve(source))
        self.drain()

    def _started(self, listen: str) -> GatewayProcess:
        return self.stack.enter_context(gateway_process("--listen", listen))

    async def _asks(self) -> Query:
        return Query(self.gateway.address)

    async def _serve(self, source: FileSource) -> asyncio.Task[None]:
        return asyncio.create_task(serve(source, gateway=self.gateway.address))

    @rule(count=st.sampled_from([1, 3, 40, 4000]), end=st.sampled_from([b"", b"", b"begun "]))
    def write(self, count: int, end: bytes) -> None:
        self.program.write(count, end)

    @rule()
    def rotate(self) -> None:
        self.program.rotate()
        self.program.write(1)

    @rule()
    def batch(self) -> None:
        """Reads a micro-batch, in place of one that was not committed."""
        self.uncommitted = values(self.runner.run(self.query.batch()))
        read = self.read + self.uncommitted
        assert read == self.program.lines[: len(read)]

    @rule()
    def commit(self) -> None:
        self.batch()
        self.read += self.uncommitted
        self.uncommitted = []
        self.runner.run(self.query.commit())

    @precondition(lambda self: self.kills < KILLS)
    @rule()
    def kill(self) -> None:
        """Kills the gateway, and starts another one in its place; the query begins again at its checkpoint."""
        self.kills += 1
        self.gateway.process.kill()
        self.gateway.wait()
        self.runner.run(self._closed())
        self.gateway = self._started(self.gateway.address)
        committed, self.query = self.query.committed, self.runner.run(self._asks())
        self.query.committed = dict(committed)

    async def _closed(self) -> None:
        with contextlib.suppress(Exception):  # the gateway is gone
            await self.query.close()

    @rule()
    def drain(self) -> None:
        async def reads() -> None:
            async with asyncio.timeout(DEADLINE_S):
                while len(self.read) < len(self.program.lines):
                    self.read += values(await self.query.batch())
                    await self.query.commit()
                    assert self.read == self.program.lines[: len(self.read)]

        self.runner.run(reads())

    def teardown(self) -> None:
        if not hasattr(self, "runner"):
            return
        try:
            self.drain()
        finally:
            self.serving.cancel()
            self.runner.run(asyncio.wait([self.serving]))
            self.runner.run(self._closed())
            self.runner.close()
            self.stack.close()
            self.program.close()
            shutil.rmtree(self.folder, ignore_errors=True)


def test_what_a_query_reads_through_killed_gateways_is_what_was_written(pytestconfig):
    machines.run(KilledGateway, pytestconfig, SECONDS_PER_EXAMPLE)


class Forgetful(FileSource):
    """Takes what it has sent for read, whatever the position says."""

    last: Position | None = None

    async def read(self, partition: str, position: Position | None) -> AsyncIterator[Batch | Close | None]:
        async for item in super().read(partition, self.last or position):
            if isinstance(item, Batch):
                self.last = Position(sequence=pack([item], 1, None).sequences[-1], cursor=item.cursor)
            yield item


def test_a_source_that_takes_what_it_has_sent_for_read_is_found():
    machine = KilledGateway()
    machine.source = Forgetful
    machine.begin("numbers")
    machine.write(3, b"")
    machine.batch()
    machine.kill()
    machine.write(3, b"")
    with pytest.raises(AssertionError):
        machine.drain()
    machine.program.lines = machine.read
    machine.teardown()
