"""The SDK for Java: its own tests, and the programs of its README at a real gateway, which lose and repeat nothing."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conformance.kit import judged
from tests.conformance.support import assert_as_published
from tests.sdk.crashes import BATCHES, LINES, kill_a_sink, kill_a_source, take_over
from tests.sdk.java.conftest import SDK, VERSION, Toolchain
from tests.sdk.java.programs import QUICK
from tests.sdk.proxies import names_its_proxy
from tests.sdk.tokens import replace_a_token

pytestmark = pytest.mark.timeout(900)  # The first build fetches what it needs, and compiles the protocol.

Command = Callable[..., list[str]]


def test_it_compiles_without_a_warning(built: subprocess.CompletedProcess[str]) -> None:
    assert built.returncode == 0, built.stdout
    assert "WARNING" not in built.stdout


@pytest.mark.in_turn(3)
def test_it_is_formatted_linted_documented_and_its_own_tests_pass(
    toolchain: Toolchain, built: subprocess.CompletedProcess[str]
) -> None:
    assert built.returncode == 0, built.stdout
    verified = toolchain.build(SDK, "install")
    assert verified.returncode == 0, verified.stdout
    reports = list((SDK / "sdk" / "target" / "surefire-reports").glob("TEST-*.xml"))
    assert len(reports) >= 5
    assert "WARNING" not in verified.stdout


def test_the_readme_has_the_programs_that_are_tested() -> None:
    readme = (SDK / "README.md").read_text()
    sources = "\n".join(path.read_text() for path in (SDK / "examples").rglob("*.java"))
    quoted = [text for text in re.findall(r"```java\n(.*?)```", readme, re.DOTALL) if text.startswith(("/**", "  @Override"))]
    assert len(quoted) == 2
    for text in quoted:
        assert text.strip() in sources


@pytest.mark.in_turn(1)
def test_sources_keep_the_rules_of_the_protocol(example: Command) -> None:
    verdict = judged("source", SDK / "examples" / "lines.toml", example("Lines", "{work}/lines"))
    assert verdict.exit_code == 0, verdict.explained()
    assert_as_published("java", "source", verdict)


@pytest.mark.in_turn(2)
def test_sinks_keep_the_rules_of_the_protocol(example: Command) -> None:
    verdict = judged("sink", SDK / "examples" / "file-sink.toml", example("FileSink", "{work}/out"))
    assert verdict.exit_code == 0, verdict.explained()
    assert_as_published("java", "sink", verdict)


async def test_a_source_loses_and_repeats_nothing(example: Command, tmp_path: Path) -> None:
    assert await kill_a_source([*example("Lines"), tmp_path / "lines"], tmp_path / "lines") == LINES


async def test_a_source_on_the_module_path_loses_and_repeats_nothing(
    toolchain: Toolchain, example: Command, tmp_path: Path
) -> None:
    assert example("Lines")
    target = SDK / "examples" / "target"
    modules = ("--module-path", f"{target}/headrace-examples-{VERSION}.jar:{target}/lib", "--add-modules", "io.headrace.sdk")
    command = [toolchain.java, *QUICK, *modules, "--module", "headrace.examples/io.headrace.examples.Lines"]
    assert await kill_a_source([*command, tmp_path / "lines"], tmp_path / "lines") == LINES


async def test_a_sink_shows_each_batch_once(example: Command, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    await kill_a_sink([*example("FileSink"), folder], "files", tmp_path / "log")
    shown = {path.name: sorted(path.read_bytes().splitlines()) for path in folder.glob("visible/query/*")}
    assert shown == {str(batch): sorted(values) for batch, values in enumerate(BATCHES)}
    assert list((folder / "staged").glob("*/*")) == []


async def test_a_token_that_is_replaced_ends_no_connector(example: Command, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"a\n")
    await replace_a_token([*example("Lines"), tmp_path / "lines"], tmp_path)


async def test_an_error_names_the_proxy_that_is_its_cause(example: Command, tmp_path: Path) -> None:
    def command(host: str, port: int) -> list[str | Path]:
        proxy = f"JAVA_TOOL_OPTIONS=-Dhttps.proxyHost={host} -Dhttps.proxyPort={port} -Dhttp.nonProxyHosts="
        return ["env", proxy, *example("Lines"), tmp_path / "lines"]

    (tmp_path / "lines").touch()
    await names_its_proxy(command, "through the proxy {host}:{port} (https.proxyHost)", tmp_path / "log")


async def test_a_newer_session_of_an_instance_takes_over(example: Command, tmp_path: Path) -> None:
    await take_over([*example("Lines"), tmp_path / "lines"], tmp_path, "TAKEN_OVER")
