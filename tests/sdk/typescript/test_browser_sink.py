"""The example of a sink in TypeScript: browsers, which come back after connector and gateway were killed."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.conformance.kit import judged, some_of
from tests.gateway.processes import gateway_process
from tests.sdk.processes import DEADLINE_S, connector
from tests.sdk.queries import Writer
from tests.sdk.typescript.conftest import ROOT, Package

from headrace.conformance.sinks import SINK_CHECKS
from headrace.machine.ports import free_address

pytestmark = [pytest.mark.timeout(600), pytest.mark.in_turn(4, 6)]  # The first build installs packages.


class Browser:
    """A browser that shows the page: it reconnects by itself, with the id of the last event that it has seen."""

    def __init__(self, address: str) -> None:
        self._host, _, self._port = address.rpartition(":")
        self._last_id = ""
        self.values: list[str] = []
        self.rows: list[str] = []
        self.names: list[str] = []

    async def show(self) -> None:
        """Shows events until it is cancelled."""
        while True:
            try:
                reader, writer = await asyncio.open_connection(self._host, int(self._port), limit=2**20)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            try:
                header = f"last-event-id: {self._last_id}\r\n" if self._last_id else ""
                writer.write(f"GET /events HTTP/1.0\r\n{header}\r\n".encode())
                await self._show(reader)
            except OSError:
                pass
            finally:
                writer.close()

    async def seen(self, count: int) -> None:
        """Waits until it has shown `count` values."""
        deadline = time.monotonic() + DEADLINE_S
        while len(found := set(self.values)) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} values, and {self.names}; last {self._last_id}"
            await asyncio.sleep(0.02)

    async def _show(self, reader: asyncio.StreamReader) -> None:
        block: dict[str, str] = {}
        while line := await reader.readline():
            if not line.endswith(b"\n"):
                return
            name, _, value = line.decode().rstrip("\r\n").partition(": ")
            block[name] = value
            if name:
                continue
            if "event" in block:
                self.names.append(block["event"])
            elif "data" in block:
                self._last_id = block["id"]
                event = json.loads(block["data"])
                self.values.append(event["value"])
                self.rows.append(event["row"])
            block = {}


@asynccontextmanager
async def browser(address: str) -> AsyncIterator[Browser]:
    """A browser, until the end of the block. If it fails, so does the block."""
    found = Browser(address)
    async with asyncio.TaskGroup() as group:
        showing = group.create_task(found.show())
        yield found
        showing.cancel()


def test_its_own_tests_pass(browser_sink: Package) -> None:
    browser_sink.checked("node", "--test", "--test-timeout=60000", "dist/test/")


def test_it_is_formatted_and_linted(browser_sink: Package) -> None:
    browser_sink.checked("npx", "prettier", "--check", ".")
    browser_sink.checked("npx", "eslint", ".")


def test_its_lock_file_names_no_addresses() -> None:
    assert '"resolved": "http' not in (ROOT / "sdk" / "examples" / "typescript-browser-sink" / "package-lock.json").read_text()


def test_it_keeps_the_rules_of_the_protocol(browser_sink: Package, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    spec = tmp_path / "conformance.toml"
    whole = (browser_sink.folder / "conformance.toml").read_text()
    spec.write_text(whole.replace("dist/", f"{browser_sink.folder}/dist/"))
    command: list[str | Path] = ["sh", browser_sink.folder / "conformance.sh", "{work}"]
    only = some_of(SINK_CHECKS, "typescript-browser-sink", pytestconfig)
    verdict = judged("sink", spec, command, only, jobs=3)
    assert verdict.exit_code == 0, verdict.explained()
    assert len(verdict.named("passed")) >= len(only) - 25


async def test_browsers_get_every_row(browser_sink: Package, tmp_path: Path) -> None:
    batches = [[b"%d of batch %d" % (number, batch) for number in range(20)] for batch in range(6)]
    page = free_address()
    command = (*browser_sink.program("src/main"), "--port", page.rpartition(":")[2], "--folder", tmp_path / "ring")
    with gateway_process() as gateway:
        async with (
            connector(gateway.address, tmp_path / "log", *command) as sink,
            browser(page) as first,
        ):
            query = Writer(gateway.address, "browsers")
            await query.write(0, batches[0])
            # The sink is killed after it has said that rows are written: its browsers come back for them.
            await query.stage(1, batches[1])
            await sink.restart()
            await query.write(1, batches[1])
            await first.seen(40)
            # The gateway is killed before the vote: the batch runs again.
            await query.stage(2, batches[2])
            gateway.process.kill()
            gateway.wait()
            with gateway_process("--listen", gateway.address):
                await query.write(2, batches[2])
                async with browser(page) as second:
                    for batch in (3, 4):
                        await query.write(batch, batches[batch])
                    await sink.restart()
                    await query.write(5, batches[5])
                    for one in (first, second):
                        await one.seen(120)
                assert await sink.end(signal.SIGTERM) == 0, sink.log
            await query.close()
    expected = {value.decode() for values in batches for value in values}
    for one in (first, second):
        assert set(one.values) == expected
        assert "lost" not in one.names
        # A row that came again has the same name as before, except that another task may have written it.
        assert len({*zip(one.rows, one.values, strict=True)}) == len(expected)
        assert one.names[0] == "caught-up"
