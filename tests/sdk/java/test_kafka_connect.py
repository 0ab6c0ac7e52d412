"""The bridge to Kafka Connect: its own tests, and Kafka's own connector for files, which loses and repeats nothing."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.sdk.crashes import LINES, kill_a_source
from tests.sdk.java.conftest import BRIDGE, Toolchain

pytestmark = pytest.mark.timeout(900)  # The first build fetches what it needs.


def _properties(folder: Path, plugins: Path, *more: str) -> list[str | Path]:
    """Writes a configuration of the connector, and returns the options that name it."""
    text = [
        "name=lines",
        "connector.class=org.apache.kafka.connect.file.FileStreamSourceConnector",
        f"plugin.path={plugins}",
        f"file={folder}/lines",
        "topic=lines",
        "value.converter=org.apache.kafka.connect.storage.StringConverter",
        *more,
    ]
    path = folder / "connector.properties"
    path.write_text("".join(f"{line}\n" for line in text))
    return ["kafka-connect", "--source", "lines", "--config", path]


@pytest.mark.in_turn(1, 6)
def test_the_bridge_is_formatted_linted_and_its_own_tests_pass(
    toolchain: Toolchain, built_bridge: subprocess.CompletedProcess[str]
) -> None:
    assert built_bridge.returncode == 0, built_bridge.stdout
    verified = toolchain.build(BRIDGE, "verify")
    assert verified.returncode == 0, verified.stdout
    assert len(list((BRIDGE / "target" / "surefire-reports").glob("TEST-*.xml"))) >= 6
    assert "WARNING" not in verified.stdout


async def test_a_connector_of_kafka_loses_and_repeats_nothing(bridge: list[str], file_plugin: Path, tmp_path: Path) -> None:
    command = [*bridge, "connector", "run", *_properties(tmp_path, file_plugin)]
    found = await kill_a_source(command, tmp_path / "lines")
    assert found == LINES


def _run(bridge: list[str], *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*bridge, "connector", *words], capture_output=True, text=True, check=False)


def test_a_check_validates_the_properties_as_the_connector_does(bridge: list[str], file_plugin: Path, tmp_path: Path) -> None:
    valid = _run(bridge, "check", *_properties(tmp_path, file_plugin))
    assert valid.returncode == 0, valid.stderr
    assert "FileStreamSourceConnector" in valid.stdout
    assert "replay is exact" in valid.stdout
    for line, told in {
        "batch.size=many": ("batch.size",),
        "transforms=a": ("transforms.a.type",),
        "tasks.max=0": ("tasks.max",),
        "connector.class=com.example.Absent": ("connector.class", "com.example.Absent", "plugin.path"),
        "value.converter.x=${file:/nowhere:y}": ("value.converter.x",),
    }.items():
        invalid = _run(bridge, "check", *_properties(tmp_path, file_plugin, line))
        assert invalid.returncode != 0, line
        assert all(text in invalid.stderr for text in told), (line, invalid.stderr)


def test_the_bridge_is_listed_and_described(bridge: list[str]) -> None:
    listed = json.loads(_run(bridge, "list", "--json").stdout)["result"]["connectors"]
    assert "kafka-connect" in [one["name"] for one in listed]
    described = json.loads(_run(bridge, "describe", "kafka-connect", "--json").stdout)["result"]
    assert {"source", "config", "replay", "memory"} <= {one["name"] for one in described["parameters"]}
