"""The SDK for Rust: its own tests, and the programs of its README at a real gateway, which lose and repeat nothing."""

import asyncio
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conformance.kit import judged
from tests.gateway.certificates import Authority
from tests.gateway.processes import gateway_process
from tests.sdk_go.processes import DEADLINE_S, connector
from tests.sdk_go.queries import Reader, Writer
from tests.sdk_rust.conftest import SDK, TARGET, Toolchain

pytestmark = pytest.mark.timeout(900)  # The first build compiles gRPC.

Example = Callable[[str], Path]


def test_its_own_tests_pass(cargo: Toolchain) -> None:
    done = cargo.run("test")
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_formatted_and_checked(cargo: Toolchain) -> None:
    for command in (["fmt", "--check"], ["clippy", "--all-targets", "--", "-D", "warnings"]):
        done = cargo.run(*command)
        assert done.returncode == 0, done.stdout + done.stderr


def test_its_documentation_has_no_warnings(cargo: Toolchain) -> None:
    done = cargo.run("doc", "--no-deps", RUSTDOCFLAGS="-D warnings")
    assert done.returncode == 0, done.stderr


def test_the_readme_has_the_programs_that_are_tested() -> None:
    quoted = re.findall(r"```rust\n(.*?)```", (SDK / "README.md").read_text(), re.DOTALL)
    assert quoted == [(SDK / "examples" / name).read_text() for name in ("lines.rs", "files.rs")]


@pytest.mark.parametrize(("kind", "name", "path"), [("source", "lines", "{work}/lines"), ("sink", "files", "{work}/out")])
def test_its_examples_keep_the_rules_of_the_protocol(example: Example, kind: str, name: str, path: str) -> None:
    verdict = judged(kind, SDK / "examples" / f"{name}.conformance.toml", [example(name), path])
    assert verdict.exit_code == 0, verdict.explained()
    assert len(verdict.named("passed")) >= 30


async def test_a_source_loses_and_repeats_nothing(example: Example, tmp_path: Path) -> None:
    lines = [b"line %d" % number for number in range(1500)]
    path = tmp_path / "lines"
    path.write_bytes(b"".join(line + b"\n" for line in lines[:1000]))
    with gateway_process() as gateway:
        async with connector(gateway.address, tmp_path / "log", example("lines"), path) as source:
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


async def test_a_sink_shows_each_batch_once(example: Example, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    batches = [[b"%d of batch %d" % (number, batch) for number in range(10)] for batch in range(5)]
    with gateway_process() as gateway:
        async with connector(gateway.address, tmp_path / "log", example("files"), folder) as sink:
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
    shown = {path.name: sorted(line for part in path.iterdir() for line in part.read_bytes().splitlines())
             for path in folder.glob("batch-*")}  # fmt: skip
    assert shown == {f"batch-{batch}-of-query": sorted(values) for batch, values in enumerate(batches)}
    assert [*(folder / ".staged").glob("*/*"), *(folder / ".prepared").glob("*/*")] == []


async def test_mutual_tls(cargo: Toolchain, tmp_path: Path) -> None:
    done = cargo.run("build", "--features", "tls", "--example", "secured")
    assert done.returncode == 0, done.stderr
    program = TARGET / "debug" / "examples" / "secured"
    authority, stranger = Authority(tmp_path, "authority"), Authority(tmp_path, "stranger")
    server, client = authority.issue("server"), authority.issue("client")
    arguments = ("--tls-cert", server.cert, "--tls-key", server.key, "--tls-client-ca", authority.cert)
    with gateway_process(*arguments) as gateway:
        for ca, wanted in ((authority.cert, "connected"), (stranger.cert, "trying again")):
            async with connector(gateway.address, tmp_path / wanted, program, ca, client.cert, client.key) as source:
                async with asyncio.timeout(DEADLINE_S):
                    while wanted not in source.log:  # noqa: ASYNC110 - a log has no event
                        await asyncio.sleep(0.02)
                assert await source.end(signal.SIGTERM) == 0, source.log
