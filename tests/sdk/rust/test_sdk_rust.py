"""The SDK for Rust: its own tests, and the programs of its README at a real gateway, which lose and repeat nothing."""

import asyncio
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conformance.kit import judged
from tests.conformance.support import assert_as_published
from tests.gateway.certificates import Authority
from tests.gateway.processes import gateway_process
from tests.sdk.crashes import BATCHES, LINES, kill_a_sink, kill_a_source, take_over
from tests.sdk.processes import DEADLINE_S, connector
from tests.sdk.rust.conftest import SDK, Toolchain
from tests.sdk.tokens import replace_a_token
from tests.sdk.tunnel import TunnelProxy

pytestmark = pytest.mark.timeout(900)  # The first build compiles gRPC.

Example = Callable[[str], Path]


def test_its_own_tests_pass(cargo: Toolchain) -> None:
    done = cargo.run("test", "--release", "--all-features")
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_formatted_and_checked(cargo: Toolchain) -> None:
    clippy = ["clippy", "--release", "--all-features", "--all-targets", "--", "-D", "warnings"]
    for command in (["fmt", "--check"], clippy):
        done = cargo.run(*command)
        assert done.returncode == 0, done.stdout + done.stderr


def test_its_documentation_has_no_warnings(cargo: Toolchain) -> None:
    done = cargo.run("doc", "--release", "--all-features", "--no-deps", RUSTDOCFLAGS="-D warnings")
    assert done.returncode == 0, done.stderr


def test_the_readme_has_the_programs_that_are_tested() -> None:
    quoted = re.findall(r"```rust\n(.*?)```", (SDK / "README.md").read_text(), re.DOTALL)
    source, sink = ((SDK / "examples" / name).read_text() for name in ("lines.rs", "files.rs"))
    assert quoted[0] == source
    assert len(quoted) == 2
    assert quoted[1].startswith("impl TwoPhaseSink for Files {")
    assert f"\n{quoted[1]}" in sink


@pytest.mark.parametrize(("kind", "name", "path"), [("source", "lines", "{work}/lines"), ("sink", "files", "{work}/out")])
def test_its_examples_keep_the_rules_of_the_protocol(example: Example, kind: str, name: str, path: str) -> None:
    verdict = judged(kind, SDK / "examples" / f"{name}.conformance.toml", [example(name), path])
    assert verdict.exit_code == 0, verdict.explained()
    assert_as_published("rust", kind, verdict)
    assert not verdict.named("known failure")


async def test_a_source_loses_and_repeats_nothing(example: Example, tmp_path: Path) -> None:
    assert await kill_a_source([example("lines"), tmp_path / "lines"], tmp_path / "lines") == LINES


async def test_a_sink_shows_each_batch_once(example: Example, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    await kill_a_sink([example("files"), folder], "files", tmp_path / "log")
    shown = {path.name: sorted(line for part in path.iterdir() for line in part.read_bytes().splitlines())
             for path in folder.glob("batch-*")}  # fmt: skip
    assert shown == {f"batch-{batch}-of-query": sorted(values) for batch, values in enumerate(BATCHES)}
    assert [*(folder / ".staged").glob("*/*"), *(folder / ".prepared").glob("*/*")] == []


async def test_a_token_that_is_replaced_ends_no_connector(example: Example, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"a\n")
    await replace_a_token([example("lines"), tmp_path / "lines"], tmp_path)


async def test_a_newer_session_of_an_instance_takes_over(example: Example, tmp_path: Path) -> None:
    await take_over([example("lines"), tmp_path / "lines"], tmp_path, "a newer session of the same instance took over")


@pytest.mark.parametrize("told", ["arguments", "environment"])
async def test_mutual_tls(example: Example, tmp_path: Path, told: str) -> None:
    program = example("secured")
    authority, stranger = Authority(tmp_path, "authority"), Authority(tmp_path, "stranger")
    server, client = authority.issue("server"), authority.issue("client")
    arguments = ("--tls-cert", server.cert, "--tls-key", server.key, "--tls-client-ca", authority.cert)
    with gateway_process(*arguments) as gateway:
        for ca, wanted in ((authority.cert, "connected"), (stranger.cert, "trying again")):
            files = {"CA": ca, "CERT": client.cert, "KEY": client.key}
            variables = [f"HEADRACE_TLS_{name}={path}" for name, path in files.items()]
            command = [program, *files.values()] if told == "arguments" else ["env", *variables, program]
            async with connector(gateway.address, tmp_path / wanted, *command) as source:
                async with asyncio.timeout(DEADLINE_S):
                    while wanted not in source.log:  # noqa: ASYNC110 - a log has no event
                        await asyncio.sleep(0.02)
                assert await source.end(signal.SIGTERM) == 0, source.log


async def test_tls_goes_through_the_proxy_of_the_environment(example: Example, tmp_path: Path) -> None:
    """The gateway has an address that is not this machine's, where clients use no proxy: only the proxy reaches it."""
    program, host = example("secured"), "192.0.2.1"
    authority, stranger = Authority(tmp_path, "authority"), Authority(tmp_path, "stranger")
    server, client = authority.issue("server", host), authority.issue("client")
    arguments = ("--tls-cert", server.cert, "--tls-key", server.key, "--tls-client-ca", authority.cert)
    with gateway_process(*arguments) as gateway:
        async with TunnelProxy(int(gateway.address.rpartition(":")[2])) as proxy:
            named = f"through the proxy {proxy.url} (grpc_proxy)"
            for ca, wanted in ((authority.cert, "connected"), (stranger.cert, named)):
                command = ["env", f"grpc_proxy={proxy.url}", "no_grpc_proxy=", program, ca, client.cert, client.key]
                log = tmp_path / f"{ca.stem}.log"
                async with connector(f"{host}:7433", log, *command) as source:
                    async with asyncio.timeout(DEADLINE_S):
                        while wanted not in source.log:  # noqa: ASYNC110 - a log has no event
                            await asyncio.sleep(0.02)
                    assert await source.end(signal.SIGTERM) == 0, source.log
            assert {*proxy.requests} == {f"CONNECT {host}:7433 HTTP/1.1"}
            # Each tunnel begins with a handshake of TLS.
            assert {first[:1] for first in proxy.tunnels} == {b"\x16"}
