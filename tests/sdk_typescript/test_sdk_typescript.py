"""The SDK for TypeScript: its own tests, and the programs of its README at a real gateway, which lose and repeat nothing."""

import asyncio
import json
import signal
from pathlib import Path

import pytest
from tests.conformance.kit import judged
from tests.gateway.certificates import Authority
from tests.gateway.processes import gateway_process
from tests.gateway.wire import until_gone
from tests.sdk_go.processes import connector
from tests.sdk_go.queries import Reader, Writer
from tests.sdk_typescript.conftest import SDK, Package

pytestmark = pytest.mark.timeout(600)  # The first build installs packages.

EXAMPLES = SDK / "examples"
SECURE_SOURCE = """
import {{ readFileSync }} from "node:fs";
import {{ run }} from "{sdk}";
const pem = (name) => readFileSync("{folder}/" + name);
const source = {{ name: "secret", read: () => [{{ value: "a" }}, {{ value: "b" }}] }};
const tls = {{ ca: pem("authority.pem"), cert: pem("client.pem"), key: pem("client.key") }};
process.exitCode = await run(source, {{ tls, token: process.argv[2] }});
"""


def test_its_own_tests_pass(package: Package) -> None:
    package.checked("node", "--test", "--test-timeout=120000", "dist/test/")


def test_it_is_formatted_and_linted(package: Package) -> None:
    package.checked("npx", "prettier", "--check", ".")
    package.checked("npx", "eslint", ".")


def test_its_documentation_has_no_warnings(package: Package, tmp_path: Path) -> None:
    package.checked("npx", "typedoc", "--out", tmp_path)
    assert (tmp_path / "index.html").exists()


def test_its_lock_file_names_no_addresses() -> None:
    assert "resolved" not in (SDK / "package-lock.json").read_text()


@pytest.mark.parametrize(
    ("kind", "name", "argument", "only"),
    [
        ("source", "lines-source", "lines", ()),
        ("source", "follow-source", "lines", ("idle", "pace", "backlog", "empty-message", "largest-message")),
        ("sink", "file-sink", "out", ()),
    ],
)
def test_examples_keep_the_rules_of_the_protocol(
    package: Package, kind: str, name: str, argument: str, only: tuple[str, ...]
) -> None:
    verdict = judged(kind, EXAMPLES / f"{name}.toml", [*package.example(name), f"{{work}}/{argument}"], only)
    assert verdict.exit_code == 0, verdict.explained()
    assert len(verdict.named("passed")) >= (len(only) or 35)


async def test_a_source_loses_and_repeats_nothing(package: Package, tmp_path: Path) -> None:
    lines = [b"line %d" % number for number in range(1500)]
    path = tmp_path / "lines"
    path.write_bytes(b"".join(line + b"\n" for line in lines[:1000]))
    with gateway_process() as gateway:
        async with connector(gateway.address, tmp_path / "log", *package.example("follow-source"), path) as source:
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


async def test_a_source_that_has_ended_and_is_acknowledged_exits(package: Package, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\nb\n\nno end")
    with gateway_process() as gateway:
        async with connector(gateway.address, tmp_path / "log", *package.example("lines-source"), path) as source:
            query = Reader(gateway.address, "lines/0")
            await query.read(3)
            await query.acknowledge()
            assert await source.end(signal.SIGCONT) == 0, source.log
            await query.close()
    assert query.values == [b"a", b"b", b""]


async def test_a_sink_shows_each_batch_once(package: Package, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    batches = [[b"%d of batch %d" % (number, batch) for number in range(10)] for batch in range(5)]
    with gateway_process() as gateway:
        async with connector(gateway.address, tmp_path / "log", *package.example("file-sink"), folder) as sink:
            query = Writer(gateway.address, "lines")
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
                query = Writer(gateway.address, "lines", run=2, committed=2)
                await query.write(3, batches[3])
                await sink.restart()
                await query.write(4, batches[4])
                assert await sink.end(signal.SIGTERM) == 0, sink.log
                await query.close()
    shown = {path.name: sorted(json.loads(line).encode() for line in path.open()) for path in (folder / "visible").iterdir()}
    assert shown == {f"query~{batch}": sorted(values) for batch, values in enumerate(batches)}
    assert [*(folder / "staged").iterdir(), *(folder / "prepared").iterdir()] == []


async def test_a_newer_session_of_an_instance_takes_over(package: Package, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\n")
    command = (*package.example("follow-source"), path)
    with gateway_process() as gateway:
        query = Reader(gateway.address, "lines/0")
        async with connector(gateway.address, tmp_path / "first", *command) as first:
            await query.read(1)
            async with connector(gateway.address, tmp_path / "second", *command) as second:
                assert await first.end(signal.SIGCONT) == 1, first.log
                assert "SessionTakenOverError" in first.log
                assert await second.end(signal.SIGTERM) == 0, second.log
        await until_gone(gateway.address, "lines")
        await query.close()


async def test_mutual_tls_and_a_token(package: Package, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    server = authority.issue("server")
    authority.issue("client")
    program = tmp_path / "source.mjs"
    program.write_text(SECURE_SOURCE.format(sdk=SDK / "dist" / "src" / "index.js", folder=tmp_path))
    config = tmp_path / "gateway.toml"
    config.write_text(
        f"""
        [tls]
        cert = "{server.cert}"
        key = "{server.key}"
        client_ca = "{authority.cert}"
        [[tokens]]
        name = "secret"
        token = "${{SECRET_TOKEN}}"
        sources = ["secret/*"]
        """
    )
    with gateway_process("--config", config, environ={"SECRET_TOKEN": "known"}) as gateway:
        async with connector(gateway.address, tmp_path / "known", package.node, program, "known") as source:
            async with asyncio.timeout(30):
                while '"text":"connected"' not in source.log:  # noqa: ASYNC110 - there is no event to wait on
                    await asyncio.sleep(0.02)
            assert await source.end(signal.SIGTERM) == 0, source.log
        async with connector(gateway.address, tmp_path / "unknown", package.node, program, "unknown") as source:
            assert await source.end(signal.SIGCONT) == 1, source.log
        assert "UNAUTHENTICATED" in source.log
