"""The bridge, its preset for PostgreSQL, and what they are compared with, built from the sources of a checkout."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.contract.errors import HeadraceError
from headrace.contract.languages import LANGUAGES
from headrace.laboratory.bench.parts import Say

PRESET = "debezium-postgresql"
_ROOT = Path(__file__).parents[6]
_BRIDGE = _ROOT / "bridges" / "kafka-connect"
_QUIET = ("-DskipTests", "-Dmaven.javadoc.skip", "-Dspotless.check.skip")
HEAP_MB = 256
"""The heap of each Java process that is compared: the default of the presets."""


class ProgramsMissing(HeadraceError):
    """There is nothing to measure; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs, once they are built.

    Attributes:
        connectors: The folder of manifests, for `HEADRACE_CONNECTORS`.
        jars: The folder of jars with `Baseline` and the worker of Connect.
    """

    connectors: Path
    jars: Path

    def java(self, main: str, *arguments: str) -> list[str]:
        """The command of a class in `jars`, with the heap and the collector of the bridge."""
        return ["java", f"-Xmx{HEAP_MB}m", "-XX:+UseSerialGC", "-cp", f"{self.jars}/*", main, *arguments]


def build(say: Say) -> Programs:
    """Builds all of it; downloads what is not there yet.

    Raises:
        ProgramsMissing: This is no checkout, a tool is not installed, or a build failed.
    """
    if not _BRIDGE.is_dir():
        raise ProgramsMissing("bridges/kafka-connect is not here: this benchmark builds it, so run it in a checkout")
    java = LANGUAGES["java"]
    if missing := [tool for tool in java.tools if shutil.which(tool) is None]:
        raise ProgramsMissing(f"{' and '.join(missing)} not found on PATH: install {java.needs}")
    say("building the bridge ...")
    _maven(_ROOT / "sdk" / "java", "install", "-pl", "protocol,sdk", "-am", *_QUIET)
    _maven(_BRIDGE, "install", *_QUIET)
    _maven(_BRIDGE / "presets" / PRESET, "package")
    _maven(_BRIDGE / "benchmarks", "package")
    return Programs(_BRIDGE / "target" / "connectors", _BRIDGE / "benchmarks" / "target" / "lib")


def _maven(project: Path, *arguments: str) -> None:
    """Runs Maven on a project; its output goes to standard error."""
    repository = f"-Dmaven.repo.local={_ROOT / '.build' / 'm2'}"
    command: Sequence[str] = ["mvn", "--batch-mode", "--no-transfer-progress", "--quiet", repository, *arguments]
    done = subprocess.run(command, cwd=project, stdout=sys.stderr, check=False)
    if done.returncode:
        place = project.relative_to(_ROOT)
        raise ProgramsMissing(f"in {place}, mvn {arguments[0]} ended with {done.returncode}; its output is above")
