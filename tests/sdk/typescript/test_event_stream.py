"""The example of a source in TypeScript: server-sent events, whose server, connector and gateway are killed."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.conformance.kit import judged, some_of
from tests.gateway.processes import gateway_process
from tests.sdk.processes import DEADLINE_S, Connector, connector
from tests.sdk.queries import Reader
from tests.sdk.typescript.conftest import ROOT, Package

from headrace.conformance.sources import SOURCE_CHECKS
from headrace.machine.ports import free_address

pytestmark = [pytest.mark.timeout(600), pytest.mark.in_turn(4, 6)]  # The first build installs packages.


@asynccontextmanager
async def feed(package: Package, log: Path, events: Path) -> AsyncIterator[tuple[str, Connector]]:
    """A server of the lines of a file; its address, and the process."""
    address = free_address()
    async with connector("", log, *package.program("demo/feed"), events, address.rpartition(":")[2]) as server:
        url = f"http://{address}/"
        async with asyncio.timeout(DEADLINE_S):
            while url not in server.log:  # noqa: ASYNC110 - there is no event to wait on
                await asyncio.sleep(0.02)
        yield url, server


def test_its_own_tests_pass(event_stream: Package) -> None:
    event_stream.checked("node", "--test", "--test-timeout=60000", "dist/test/")


def test_it_is_formatted_and_linted(event_stream: Package) -> None:
    event_stream.checked("node_modules/.bin/prettier", "--check", ".")
    event_stream.checked("node_modules/.bin/eslint", ".")


def test_its_lock_file_names_no_addresses() -> None:
    assert '"resolved": "http' not in (ROOT / "sdk" / "examples" / "typescript-event-stream" / "package-lock.json").read_text()


def test_it_keeps_the_rules_of_the_protocol(event_stream: Package, pytestconfig: pytest.Config) -> None:
    command: list[str | Path] = ["sh", event_stream.folder / "conformance.sh", "{work}"]
    only = some_of(SOURCE_CHECKS, "typescript-event-stream", pytestconfig)
    verdict = judged("source", event_stream.folder / "conformance.toml", command, only, jobs=3)
    assert verdict.exit_code == 0, verdict.explained()
    assert len(verdict.named("passed")) >= len(only) - 20


async def test_no_event_is_lost_or_repeated(event_stream: Package, tmp_path: Path) -> None:
    events = tmp_path / "events"
    lines = [b"event %d" % number for number in range(900)]
    events.write_bytes(b"".join(line + b"\n" for line in lines[:600]))
    async with feed(event_stream, tmp_path / "feed.log", events) as (url, server):
        with gateway_process() as gateway:
            command = (*event_stream.program("src/main"), "--url", url)
            async with connector(gateway.address, tmp_path / "log", *command) as source:
                query = Reader(gateway.address, "events/0")
                await query.read(100)
                await source.restart()
                await query.read(300)
                gateway.process.kill()
                gateway.wait()
                with gateway_process("--listen", gateway.address):
                    await query.read(600)
                    await server.restart()
                    with events.open("ab") as file:
                        file.writelines(line + b"\n" for line in lines[600:])
                    await query.read(900)
                    assert await source.end(signal.SIGTERM) == 0, source.log
                await query.close()
    assert query.values == lines
