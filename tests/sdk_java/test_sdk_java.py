"""The SDK for Java: its own tests, and the programs of its README at a real gateway, which lose and repeat nothing."""

import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conformance.kit import judged
from tests.gateway.processes import gateway_process
from tests.gateway.wire import until_gone
from tests.sdk_go.processes import connector
from tests.sdk_go.queries import Reader, Writer
from tests.sdk_java.conftest import SDK

pytestmark = pytest.mark.timeout(900)  # The first build fetches what it needs, and compiles the protocol.

Command = Callable[[str], list[str]]


def test_it_is_formatted_linted_documented_and_its_own_tests_pass(built: subprocess.CompletedProcess[str]) -> None:
    assert built.returncode == 0, built.stdout
    reports = list((SDK / "sdk" / "target" / "surefire-reports").glob("TEST-*.xml"))
    assert len(reports) >= 5
    assert "WARNING" not in built.stdout


def test_the_readme_has_the_programs_that_are_tested() -> None:
    readme = (SDK / "README.md").read_text()
    sources = "\n".join(path.read_text() for path in (SDK / "examples").rglob("*.java"))
    quoted = [text for text in re.findall(r"```java\n(.*?)```", readme, re.DOTALL) if text.startswith("/**")]
    assert len(quoted) == 2
    for text in quoted:
        assert text.strip() in sources


def test_sources_keep_the_rules_of_the_protocol(example: Command) -> None:
    verdict = judged("source", SDK / "examples" / "lines.toml", [*example("Lines"), "{work}/lines"])
    assert verdict.exit_code == 0, verdict.explained()
    assert len(verdict.named("passed")) >= 41


def test_sinks_keep_the_rules_of_the_protocol(example: Command) -> None:
    verdict = judged("sink", SDK / "examples" / "file-sink.toml", [*example("FileSink"), "{work}/out"])
    assert verdict.exit_code == 0, verdict.explained()
    assert len(verdict.named("passed")) >= 46


async def test_a_source_loses_and_repeats_nothing(example: Command, tmp_path: Path) -> None:
    lines = [b"line %d" % number for number in range(1500)]
    path = tmp_path / "lines"
    path.write_bytes(b"".join(line + b"\n" for line in lines[:1000]))
    with gateway_process() as gateway:
        async with connector(gateway.address, tmp_path / "log", *example("Lines"), path) as source:
            query = Reader(gateway.address, "lines/0")
            await query.read(300)
            await source.restart()
            await query.read(600)
            gateway.process.kill()
            gateway.wait()
            with gateway_process("--listen", gateway.address):
                await query.read(1000)
                with path.open("ab") as file:
                    file.writelines(line + b"\n" for line in lines[1000:])
                await query.read(1500)
                assert await source.end(signal.SIGTERM) == 0, source.log
            await query.close()
    assert query.values == lines


async def test_a_sink_shows_each_batch_once(example: Command, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    batches = [[b"%d of batch %d" % (number, batch) for number in range(10)] for batch in range(5)]
    with gateway_process() as gateway:
        async with connector(gateway.address, tmp_path / "log", *example("FileSink"), folder) as sink:
            query = Writer(gateway.address, "files")
            await query.write(0, batches[0])
            # The sink is killed after its vote: the next session is told to show the batch.
            await query.vote(1, await query.stage(1, batches[1]))
            await sink.restart()
            await query.commit(1)
            # The gateway is killed before the vote: the batch runs again.
            await query.stage(2, batches[2])
            gateway.process.kill()
            gateway.wait()
            with gateway_process("--listen", gateway.address):
                await query.write(2, batches[2])
                # Another run of the query follows before the commit: what the first one has prepared is removed.
                await query.vote(3, await query.stage(3, batches[3]))
                await query.close()
                query = Writer(gateway.address, "files", run=2, committed=2)
                await query.write(3, batches[3])
                await sink.restart()
                await query.write(4, batches[4])
                assert await sink.end(signal.SIGTERM) == 0, sink.log
                await query.close()
    shown = {path.name: sorted(path.read_bytes().splitlines()) for path in folder.glob("visible/query/*")}
    assert shown == {str(batch): sorted(values) for batch, values in enumerate(batches)}
    assert list((folder / "staged").glob("*/*")) == []


async def test_a_newer_session_of_an_instance_takes_over(example: Command, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\n")
    with gateway_process() as gateway:
        query = Reader(gateway.address, "lines/0")
        async with connector(gateway.address, tmp_path / "first", *example("Lines"), path) as first:
            await query.read(1)
            async with connector(gateway.address, tmp_path / "second", *example("Lines"), path) as second:
                assert await first.end(signal.SIGCONT) == 1, first.log
                assert "TAKEN_OVER" in first.log
                assert await second.end(signal.SIGTERM) == 0, second.log
        await until_gone(gateway.address, "lines")
        await query.close()
