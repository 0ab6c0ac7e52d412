"""What every SDK's examples must survive: kill -9 of the connector and of the gateway, and a second copy of the connector."""

import signal
from collections.abc import Sequence
from pathlib import Path

from tests.gateway.processes import gateway_process
from tests.gateway.wire import until_gone
from tests.sdk.processes import connector
from tests.sdk.queries import Reader, Writer

from headrace.deploy.logs import last_error_line

Command = Sequence[str | Path]

LINES = [b"line %d" % number for number in range(1500)]
BATCHES = [[b"%d of batch %d" % (number, batch) for number in range(10)] for batch in range(5)]


async def kill_a_source(command: Command, path: Path) -> list[bytes]:
    """Kills a source that follows a file as `lines/0`, and its gateway; returns what a query has read, which is to be LINES."""
    path.write_bytes(b"".join(line + b"\n" for line in LINES[:1000]))  # noqa: ASYNC240 - before anything runs
    with gateway_process() as gateway:
        async with connector(gateway.address, path.with_name("log"), *command) as source:
            query = Reader(gateway.address, "lines/0")
            await query.read(300)
            await source.restart()
            await query.read(600)
            gateway.process.kill()
            gateway.wait()
            with gateway_process("--listen", gateway.address):
                await query.read(1000)
                with path.open("ab") as file:
                    file.writelines(line + b"\n" for line in LINES[1000:])
                await query.read(1500)
                assert await source.end(signal.SIGTERM) == 0, source.log
            await query.close()
    return query.values


async def kill_a_sink(command: Command, sink_name: str, log: Path) -> None:
    """Kills a two-phase sink and its gateway while a query writes; the sink is then to show exactly BATCHES."""
    with gateway_process() as gateway:
        async with connector(gateway.address, log, *command) as sink:
            query = Writer(gateway.address, sink_name)
            await query.write(0, BATCHES[0])
            # The sink is killed after its vote: the gateway orders the next session to show the batch.
            await query.vote(1, await query.stage(1, BATCHES[1]))
            await sink.restart()
            await query.commit(1)
            # The gateway is killed before the vote: the batch runs again.
            await query.stage(2, BATCHES[2])
            gateway.process.kill()
            gateway.wait()
            with gateway_process("--listen", gateway.address):
                await query.write(2, BATCHES[2])
                # Another run of the query follows before the commit: what the first one has prepared is removed.
                await query.vote(3, await query.stage(3, BATCHES[3]))
                await query.close()
                query = Writer(gateway.address, sink_name, run=2, committed=2)
                await query.write(3, BATCHES[3])
                await sink.restart()
                await query.write(4, BATCHES[4])
                assert await sink.end(signal.SIGTERM) == 0, sink.log
                await query.close()


async def take_over(command: Command, folder: Path, said: str) -> None:
    """Starts a second copy of a source that follows `lines`; the first one ends, and says why as a deployment shows it."""
    (folder / "lines").write_bytes(b"a\n")
    with gateway_process() as gateway:
        query = Reader(gateway.address, "lines/0")
        async with connector(gateway.address, folder / "first", *command) as first:
            await query.read(1)
            async with connector(gateway.address, folder / "second", "env", "HEADRACE_VERBOSE=0", *command) as second:
                assert await first.end(signal.SIGCONT) == 1, first.log
                reason = last_error_line(folder / "first", 0)
                assert said in reason, first.log
                assert not reason.startswith("{"), "a deployment shows this as the reason"
                assert await second.end(signal.SIGTERM) == 0, second.log
                assert "connected" in first.log or "session opened" in first.log
                # The examples tell that they were closed.
                assert [line for line in second.log.splitlines() if "closed" not in line] == []
        await until_gone(gateway.address, "lines")
        await query.close()
