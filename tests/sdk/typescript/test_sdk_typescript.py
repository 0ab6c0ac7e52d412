"""The SDK for TypeScript: its own tests, and the programs of its README at a real gateway, which lose and repeat nothing."""

import asyncio
import json
import signal
from pathlib import Path

import pytest
from tests.conformance.kit import judged
from tests.conformance.support import assert_as_published
from tests.gateway.certificates import Authority
from tests.gateway.processes import gateway_process
from tests.sdk.crashes import BATCHES, LINES, kill_a_sink, kill_a_source, take_over
from tests.sdk.processes import connector
from tests.sdk.queries import Reader
from tests.sdk.tokens import replace_a_token
from tests.sdk.typescript.conftest import SDK, Package

pytestmark = pytest.mark.timeout(600)  # The first build installs packages.

EXAMPLES = SDK / "examples"
SLOW = ("idle", "pace", "backlog", "empty-message", "largest-message")
"""What a source that waits for more lines is judged by."""
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


@pytest.mark.in_turn(2)
def test_it_is_formatted_and_linted(package: Package) -> None:
    package.checked("node_modules/.bin/prettier", "--check", ".")
    package.checked("node_modules/.bin/eslint", ".")


@pytest.mark.in_turn(1)
def test_its_documentation_has_no_warnings(package: Package, tmp_path: Path) -> None:
    package.checked("npx", "typedoc", "--out", tmp_path)
    assert (tmp_path / "index.html").exists()


def test_its_lock_file_names_no_addresses() -> None:
    assert "resolved" not in (SDK / "package-lock.json").read_text()


@pytest.mark.parametrize(
    ("kind", "name", "argument", "only"),
    [
        pytest.param("source", "lines-source", "lines", (), marks=pytest.mark.in_turn(1)),
        pytest.param("source", "follow-source", "lines", SLOW, marks=pytest.mark.in_turn(3)),
        pytest.param("sink", "file-sink", "out", (), marks=pytest.mark.in_turn(2)),
    ],
)
def test_examples_keep_the_rules_of_the_protocol(
    package: Package, kind: str, name: str, argument: str, only: tuple[str, ...]
) -> None:
    verdict = judged(kind, EXAMPLES / f"{name}.toml", [*package.example(name), f"{{work}}/{argument}"], only)
    assert verdict.exit_code == 0, verdict.explained()
    if only:
        assert verdict.named("passed") == set(only)
    else:
        assert_as_published("typescript", kind, verdict)


async def test_a_source_loses_and_repeats_nothing(package: Package, tmp_path: Path) -> None:
    assert await kill_a_source([*package.example("follow-source"), tmp_path / "lines"], tmp_path / "lines") == LINES


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
    await kill_a_sink([*package.example("file-sink"), folder], "lines", tmp_path / "log")
    shown = {path.name: sorted(json.loads(line).encode() for line in path.open()) for path in (folder / "visible").iterdir()}
    assert shown == {f"query~{batch}": sorted(values) for batch, values in enumerate(BATCHES)}
    assert [*(folder / "staged").iterdir(), *(folder / "prepared").iterdir()] == []


async def test_a_token_that_is_replaced_ends_no_connector(package: Package, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"a\n")
    await replace_a_token([*package.example("lines-source"), tmp_path / "lines"], tmp_path)


async def test_a_newer_session_of_an_instance_takes_over(package: Package, tmp_path: Path) -> None:
    await take_over([*package.example("follow-source"), tmp_path / "lines"], tmp_path, "SessionTakenOverError")


async def test_mutual_tls_and_a_token(package: Package, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    server = authority.issue("server")
    authority.issue("client")
    (tmp_path / "lines").touch()
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
        sources = ["secret/*", "lines/*"]
        """
    )
    environ = [
        f"HEADRACE_TLS_CA={tmp_path / 'authority.pem'}",
        f"HEADRACE_TLS_CERT={tmp_path / 'client.pem'}",
        f"HEADRACE_TLS_KEY={tmp_path / 'client.key'}",
        "HEADRACE_TOKEN=known",
    ]
    with gateway_process("--config", config, environ={"SECRET_TOKEN": "known"}) as gateway:
        commands: dict[str, tuple[str | Path, ...]] = {
            "options": (package.node, program, "known"),
            "environment": ("env", *environ, *package.example("follow-source"), tmp_path / "lines"),
        }
        for name, command in commands.items():
            async with connector(gateway.address, tmp_path / name, *command) as source:
                async with asyncio.timeout(120):
                    while '"event":"connected"' not in source.log:  # noqa: ASYNC110 - there is no event to wait on
                        await asyncio.sleep(0.02)
                assert await source.end(signal.SIGTERM) == 0, source.log
        async with connector(gateway.address, tmp_path / "unknown", package.node, program, "unknown") as source:
            assert await source.end(signal.SIGCONT) == 1, source.log
        assert "UNAUTHENTICATED" in source.log
