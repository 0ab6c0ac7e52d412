import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.absent import absent
from tests.sdk.java.programs import QUICK, QUICK_START, Programs, archived

from headrace.contract.languages import LANGUAGES

ROOT = Path(__file__).resolve().parents[3]
SDK = ROOT / "sdk" / "java"
JDBC = ROOT / "sdk" / "examples" / "java-jdbc"
BRIDGE = ROOT / "bridges" / "kafka-connect"
REPOSITORY = ROOT / ".build" / "m2"
VERSION = version("headrace")
"""The version of the jars, too."""


@dataclass(frozen=True)
class Toolchain:
    """Maven and Java, with a local repository in the checkout."""

    maven: str
    java: str

    def build(self, project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs Maven on a project."""
        environ = {**os.environ, "MAVEN_OPTS": " ".join([os.environ.get("MAVEN_OPTS", ""), *QUICK_START]).strip()}
        command = [
            self.maven,
            "--batch-mode",
            "--no-transfer-progress",
            "--quiet",
            f"-Dmaven.repo.local={REPOSITORY}",
            *arguments,
        ]
        return subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    """Maven and Java."""
    found = {name: shutil.which(name) for name in LANGUAGES["java"].tools}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        text = f"{', '.join(missing)} is not installed; install {LANGUAGES['java'].needs} to test sdk/java"
        absent(text)
    assert found["mvn"] is not None
    assert found["java"] is not None
    return Toolchain(found["mvn"], found["java"])


@pytest.fixture(scope="session")
def built(toolchain: Toolchain) -> subprocess.CompletedProcess[str]:
    """What one build of the SDK printed, which checks nothing, and also installs it for the programs that use it."""
    return toolchain.build(SDK, "install", "-DskipTests", "-Dspotless.check.skip", "-Dmaven.javadoc.skip")


@pytest.fixture(scope="session")
def example(
    toolchain: Toolchain, built: subprocess.CompletedProcess[str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., list[str]]:
    """The command that runs an example of the SDK, by the name of its class, with its arguments."""
    assert built.returncode == 0, built.stdout
    target = SDK / "examples" / "target"
    programs = Programs(toolchain.java, f"{target}/headrace-examples-{VERSION}.jar:{target}/lib/*", "io.headrace.examples")
    folder = tmp_path_factory.mktemp("examples")
    (folder / "lines").touch()
    return archived(programs, folder, "Lines", folder / "lines").command


@pytest.fixture(scope="session")
def built_jdbc(toolchain: Toolchain, built: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """What one build of sdk/examples/java-jdbc printed."""
    assert built.returncode == 0, built.stdout
    return toolchain.build(JDBC, "verify")


@pytest.fixture(scope="session")
def jdbc(
    toolchain: Toolchain, built_jdbc: subprocess.CompletedProcess[str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., list[str]]:
    """The command that runs JdbcSource or JdbcSink, with its arguments."""
    assert built_jdbc.returncode == 0, built_jdbc.stdout
    target = JDBC / "target"
    folder = tmp_path_factory.mktemp("jdbc")
    # The driver of SQLite unpacks a library, and leaves it if it is killed.
    flags = (*QUICK, f"-Dorg.sqlite.tmpdir={folder}")
    programs = Programs(toolchain.java, f"{target}/java-jdbc-{VERSION}.jar:{target}/lib/*", "io.headrace.examples.jdbc", flags)
    # The catalogue is the one table of a new database.
    options = ["--url", f"jdbc:sqlite:{folder}/new.db", "--table", "sqlite_master", "--value-column", "sql", "--sink", "new"]
    return archived(programs, folder, "JdbcSink", *options).command


@pytest.fixture(scope="session")
def built_bridge(toolchain: Toolchain, built: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """What one build of bridges/kafka-connect printed, which checks nothing."""
    assert built.returncode == 0, built.stdout
    return toolchain.build(BRIDGE, "package", "-DskipTests", "-Dspotless.check.skip")


@pytest.fixture(scope="session")
def bridge(built_bridge: subprocess.CompletedProcess[str]) -> list[str]:
    """The command that has headrace find the bridge."""
    assert built_bridge.returncode == 0, built_bridge.stdout
    variables = (f"HEADRACE_CONNECTORS={BRIDGE}/target/connectors", "HEADRACE_JAVA_OPTIONS=-XX:TieredStopAtLevel=1")
    return ["env", *variables, str(Path(sys.executable).with_name("headrace"))]


@pytest.fixture(scope="session")
def file_plugin(bridge: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of plugins with the connectors of Kafka that read and write files."""
    assert bridge
    folder = tmp_path_factory.mktemp("plugins") / "file"
    folder.mkdir()
    for jar in (REPOSITORY / "org" / "apache" / "kafka" / "connect-file").rglob("*.jar"):
        shutil.copy(jar, folder)
    return folder.parent


@pytest.fixture(scope="session")
def debezium(toolchain: Toolchain, bridge: list[str]) -> list[str]:
    """The command that has headrace find the preset for Debezium, with its jars."""
    fetched = toolchain.build(BRIDGE / "presets" / "debezium-postgresql", "package")
    assert fetched.returncode == 0, fetched.stdout
    return bridge


@pytest.fixture(scope="session")
def debezium_mariadb(toolchain: Toolchain, bridge: list[str]) -> list[str]:
    """The command that has headrace find the preset for MariaDB, with its jars."""
    fetched = toolchain.build(BRIDGE / "presets" / "debezium-mariadb", "package")
    assert fetched.returncode == 0, fetched.stdout
    return bridge


@pytest.fixture(scope="session")
def jdbc_plugin(toolchain: Toolchain, bridge: list[str]) -> Path:
    """A folder of plugins with Debezium's connector that writes to databases."""
    assert bridge
    fetched = toolchain.build(BRIDGE / "plugins" / "debezium-jdbc", "package")
    assert fetched.returncode == 0, fetched.stdout
    return BRIDGE / "target" / "plugins"
