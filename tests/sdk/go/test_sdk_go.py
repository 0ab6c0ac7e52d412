"""The SDK for Go: its own tests, and the programs of its README at a real gateway, which lose and repeat nothing."""

import re
import shutil
from pathlib import Path

import pytest
from tests.conformance.kit import judged
from tests.conformance.support import assert_as_published
from tests.sdk.crashes import BATCHES, LINES, kill_a_sink, kill_a_source, take_over
from tests.sdk.go.conftest import SDK
from tests.sdk.go.toolchain import ROOT, STATICCHECK, Toolchain
from tests.sdk.proxies import names_its_proxy
from tests.sdk.tokens import replace_a_token

pytestmark = pytest.mark.timeout(600)  # The first build compiles gRPC.

LINES_SOURCE = SDK / "examples" / "lines-source"
FILE_SINK = SDK / "examples" / "file-sink"


def test_its_own_tests_pass(go: Toolchain) -> None:
    race = ["-race"] if shutil.which("gcc") or shutil.which("cc") else []
    done = go.test(SDK, *race)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_formatted_vetted_and_checked(go: Toolchain) -> None:
    assert go.unformatted(SDK) == ""
    for command in (["vet", "./..."], ["run", STATICCHECK, "./..."], ["mod", "verify"]):
        done = go.run(*command, folder=SDK)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_has_the_programs_that_are_tested() -> None:
    readme = (SDK / "README.md").read_text()
    sources = "\n".join(path.read_text() for path in (SDK / "examples").rglob("*.go"))
    quoted = [text for text in re.findall(r"```go\n(.*?)```", readme, re.DOTALL) if text.startswith("// ")]
    assert len(quoted) == 2
    for text in quoted:
        assert text.strip() in sources


@pytest.mark.parametrize(
    ("folder", "arguments"),
    [
        (SDK / "examples" / "lines-source", ["{work}/lines"]),
        (ROOT / "sdk" / "examples" / "go-source", ["--count=60", "--partitions=3"]),
    ],
)
def test_sources_keep_the_rules_of_the_protocol(go: Toolchain, folder: Path, arguments: list[str]) -> None:
    verdict = judged("source", folder / "conformance.toml", [go.build(folder), *arguments])
    assert verdict.exit_code == 0, verdict.explained()
    assert len(verdict.named("passed")) >= 30
    if folder == LINES_SOURCE:
        assert_as_published("go", "source", verdict)


def test_the_sink_keeps_the_rules_of_the_protocol(go: Toolchain) -> None:
    verdict = judged("sink", FILE_SINK / "conformance.toml", [go.build(FILE_SINK), "{work}/out"])
    assert verdict.exit_code == 0, verdict.explained()
    assert_as_published("go", "sink", verdict)


async def test_a_source_loses_and_repeats_nothing(go: Toolchain, tmp_path: Path) -> None:
    assert await kill_a_source([go.build(LINES_SOURCE), tmp_path / "lines"], tmp_path / "lines") == LINES


async def test_a_sink_shows_each_batch_once(go: Toolchain, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    await kill_a_sink([go.build(FILE_SINK), folder], "files", tmp_path / "log")
    shown = {path.name: sorted(line for part in path.iterdir() for line in part.read_bytes().splitlines())
             for path in folder.glob("batch-*")}  # fmt: skip
    assert shown == {f"batch-{batch}-of-query": sorted(values) for batch, values in enumerate(BATCHES)}
    assert [*(folder / ".staged").glob("*/*"), *(folder / ".prepared").glob("*/*")] == []


async def test_a_token_that_is_replaced_ends_no_connector(go: Toolchain, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"a\n")
    await replace_a_token([go.build(LINES_SOURCE), tmp_path / "lines"], tmp_path)


async def test_an_error_names_the_proxy_that_is_its_cause(go: Toolchain, tmp_path: Path) -> None:
    def command(host: str, port: int) -> list[str | Path]:
        return ["env", f"HTTPS_PROXY=http://{host}:{port}", "NO_PROXY=", "no_proxy=", go.build(LINES_SOURCE), tmp_path / "lines"]

    (tmp_path / "lines").touch()
    await names_its_proxy(command, "through the proxy http://{host}:{port} (HTTPS_PROXY)", tmp_path / "log")


async def test_a_newer_session_of_an_instance_takes_over(go: Toolchain, tmp_path: Path) -> None:
    await take_over([go.build(LINES_SOURCE), tmp_path / "lines"], tmp_path, "a newer session")
