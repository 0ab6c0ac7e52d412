"""A host that runs a gateway, or connectors, needs the distribution of that role alone, which has no Spark in it."""

import asyncio
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.cli.json_shape import result_of
from tests.distributions.programs import DEADLINE_S, Program, environ, running
from tests.distributions.wheels import Wheel, install, size_mb
from tests.docs.pages import table
from tests.gateway.sink_wire import Writer
from tests.gateway.wire import Engine, values_of

MAX_MB = {"headrace-gateway": 130, "headrace-connectors": 300}
WITHIN = {
    "headrace-gateway": {"headrace-base", "headrace-gateway"},
    "headrace-connectors": {"headrace-base", "headrace-connectors", "headrace-sdk"},
}
LINES = [b"one", b"two", b"three"]

Environments = dict[str, Path]


@pytest.fixture(scope="module")
def environments(wheels: Mapping[str, Wheel], tmp_path_factory: pytest.TempPathFactory) -> Environments:
    """A fresh environment for each role: where its programs are."""
    folder = tmp_path_factory.mktemp("roles")
    for role in MAX_MB:
        install(wheels[role], folder / role)
    return {role: folder / role / "bin" for role in MAX_MB}


def packages(programs: Path) -> Path:
    (found,) = programs.parent.glob("lib/python*/site-packages")
    return found


@pytest.mark.parametrize("role", MAX_MB)
def test_a_role_has_no_spark_and_nothing_of_the_other_roles(environments: Environments, role: str) -> None:
    info = [path.name.partition("-")[0].replace("_", "-") for path in packages(environments[role]).glob("*.dist-info")]
    assert "pyspark" not in info
    assert "py4j" not in info
    assert not list(environments[role].parent.rglob("*.jar"))
    assert {name for name in info if name.startswith("headrace")} == WITHIN[role]


@pytest.mark.parametrize("role", MAX_MB)
def test_a_role_is_as_small_as_the_page_says(environments: Environments, role: str) -> None:
    size = size_mb(packages(environments[role]))
    print(f"{role}: {size:.0f} MB")
    assert 50 < size <= MAX_MB[role]
    (row,) = (row for row in table("docs/start/install.md", "What a host needs") if f"`{role}`" in row[1])
    told = re.search(r"(\d+) MB", row[2])
    assert told is not None
    assert abs(size - int(told[1])) < 0.15 * size


async def test_messages_go_from_a_file_to_the_gateway_and_on_to_a_file_without_spark(
    environments: Environments, tmp_path: Path
) -> None:
    gateway, connectors = (
        environments["headrace-gateway"] / "headrace-gateway",
        environments["headrace-connectors"] / "headrace-connectors",
    )
    given, ready, out = tmp_path / "given.txt", tmp_path / "address", tmp_path / "out"
    given.write_bytes(b"".join(line + b"\n" for line in LINES))
    with running(gateway, "--listen", "127.0.0.1:0", "--ready-file", ready) as serving:
        serving.until("it never listened", ready.exists)
        address = ready.read_text().strip()
        source = ["run", "file", "--path", given, "--source", "lines", "--no-follow", "--gateway", address]
        sink = ["run", "file-sink", "--path", out, "--sink", "out", "--format", "lines", "--gateway", address]
        with running(connectors, *source) as reading, running(connectors, *sink) as writing:
            engine = Engine(address, streams="lines/*")
            await connected(engine, {"lines", "out"}, [reading, writing])
            await engine.attach()
            planned = await engine.plan_until("lines/given.txt", len(given.read_bytes()))
            read = values_of(await engine.fetch("lines/given.txt", None, planned.end))
            assert read == LINES

            writer = Writer(address)
            await writer.report_commits()
            await writer.deliver(0, read)
            await writer.vote(0)
            async with asyncio.timeout(DEADLINE_S):
                while await writer.report_commits(0):
                    pass
            assert shown(out) == LINES

            shown_status = await asyncio.to_thread(status_of, gateway, address)
            assert [stream["stream"] for stream in shown_status["streams"]] == ["lines/given.txt"]

            # The next plan says that all was committed: the source learns of it, and has nothing left to do.
            await engine.plan({"lines/given.txt": planned.end}, wait_ms=0)
            assert reading.wait() == 0, reading.log.read_text()
            for client in (engine, writer):
                await client.close()
            writing.process.terminate()
            assert writing.wait() == 0, writing.log.read_text()
        serving.process.terminate()
        assert serving.wait() == 0, serving.log.read_text()


async def connected(engine: Engine, instances: set[str], programs: Sequence[Program]) -> None:
    """Waits until these instances have sessions: programs start slowly in an environment that nobody has used before."""
    found: set[str] = set()
    async with asyncio.timeout(DEADLINE_S):
        while found < instances:
            for program in programs:
                assert program.process.poll() is None, program.log.read_text()
            status = await engine.status()
            found = {session.instance for session in status.sessions}
            found |= {instance for sink in status.sinks for instance in sink.instances}
            await asyncio.sleep(0.05)


def status_of(gateway: Path, address: str) -> dict[str, Any]:
    """What `headrace-gateway status` shows."""
    call = [gateway, "status", "--json", "--gateway", address]
    done = subprocess.run(call, env=environ(), capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    document: dict[str, Any] = result_of(done.stdout)
    return document


def shown(folder: Path) -> list[bytes]:
    return [line for file in sorted(folder.glob("*.lines")) for line in file.read_bytes().splitlines()]


@pytest.mark.parametrize("role", MAX_MB)
def test_a_roles_program_has_help_with_an_example(environments: Environments, role: str) -> None:
    done = subprocess.run(
        [environments[role] / role, "--help"], env=environ(), capture_output=True, text=True, timeout=300, check=True
    )
    assert re.search(rf"Examples:\n\s+{role}\b", done.stdout), done.stdout
