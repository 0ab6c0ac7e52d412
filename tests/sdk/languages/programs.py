"""Connectors in each language: the examples of the SDKs, how they are built, and what their sinks show on disk.

Each source follows a file of lines, and numbers them by the byte offset of their ends. Each sink is two-phase and writes lines.
"""

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.absent import absent
from tests.sdk.go.conftest import SDK as GO
from tests.sdk.go.toolchain import toolchain as go_toolchain
from tests.sdk.java.conftest import SDK as JAVA
from tests.sdk.java.conftest import VERSION
from tests.sdk.java.conftest import Toolchain as JavaToolchain
from tests.sdk.rust.conftest import PROGRAMS as RUST_PROGRAMS
from tests.sdk.rust.conftest import Toolchain as RustToolchain
from tests.sdk.typescript.conftest import Package, built

from headrace.contract.languages import LANGUAGES as KNOWN

Command = list[str | Path]


@dataclass(frozen=True)
class Language:
    """The connectors of a language.

    Attributes:
        source: Builds the source; returns its command, to which the path of the file is appended.
        sink: Builds the sink; returns its command, to which the path of its folder is appended.
        sink_name: The name by which queries write to the sink.
        shown: Yields the lines that are visible in the sink's folder, in the order of batches and parts.
        undecided: Patterns of the files of what is staged or prepared in the folder.
    """

    source: Callable[[], Command]
    sink: Callable[[], Command]
    sink_name: str
    shown: Callable[[Path], Iterator[bytes]]
    undecided: tuple[str, ...]


def tools_of(name: str) -> list[str]:
    """The paths of the tools of a language. Without one of them the test is skipped, and fails with CI=true."""
    language = KNOWN[name]
    found = {tool: shutil.which(tool) for tool in language.tools}
    if missing := [tool for tool, path in found.items() if path is None]:
        text = f"{', '.join(missing)} not installed; install {language.needs} to test connectors in {language.title}"
        absent(text)
    return [path for path in found.values() if path is not None]


# What builds them


def _python(*arguments: str) -> Command:
    return [sys.executable, "-m", "headrace.cli", "connector", "run", *arguments]


@cache
def _go(example: str) -> Path:
    return go_toolchain("connectors in Go").build(GO / "examples" / example)


@cache
def typescript() -> Package:
    """The SDK for TypeScript, built."""
    node, *_ = tools_of("typescript")
    return built(node)


@cache
def _java() -> Command:
    maven, java, _ = tools_of("java")
    # What these check is checked by the tests of the SDK.
    skipped = ("-DskipTests", "-Dmaven.javadoc.skip", "-Dspotless.check.skip")
    done = JavaToolchain(maven, java).build(JAVA, "package", "--projects", "examples", "--also-make", *skipped)
    assert done.returncode == 0, done.stdout
    target = JAVA / "examples" / "target"
    flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    return [java, *flags, "-cp", f"{target}/headrace-examples-{VERSION}.jar:{target}/lib/*"]


@cache
def _rust() -> Path:
    (cargo,) = tools_of("rust")
    done = RustToolchain(cargo).run("build", "--release", "--all-features", "--examples")
    assert done.returncode == 0, done.stderr
    return RUST_PROGRAMS / "examples"


# What their sinks show


def _appended(folder: Path) -> Iterator[bytes]:
    """Python: files that are appended to; the last line may be incomplete."""
    for path in sorted(folder.glob("files-*.lines")):
        yield from path.read_bytes().rpartition(b"\n")[0].splitlines()


def _batch_folders(folder: Path) -> Iterator[bytes]:
    """Go and Rust: a folder for each batch, with a file for each part, whose name has the partition first."""
    for batch in _by_number(r"batch-(\d+)-of-", folder):
        for path in _by_number(r"(?:part-)?(\d+)[~-]", batch):
            yield from path.read_bytes().splitlines()


def _json_batches(folder: Path) -> Iterator[bytes]:
    """TypeScript: a file of JSON strings for each batch."""
    for path in _by_number(r".*~(\d+)$", folder / "visible"):
        yield from (json.loads(line).encode() for line in path.read_text().splitlines())


def _batches(folder: Path) -> Iterator[bytes]:
    """Java: a file for each batch, in the folder of its query."""
    for pipeline in (folder / "visible").glob("*"):
        for path in _by_number(r"(\d+)$", pipeline):
            yield from path.read_bytes().splitlines()


def _by_number(pattern: str, folder: Path) -> list[Path]:
    """The files of a folder, by the number in its name."""
    found = [(re.match(pattern, path.name), path) for path in folder.glob("*")]
    return [path for _, path in sorted((int(match[1]), path) for match, path in found if match)]


LANGUAGES: Mapping[str, Language] = {
    "python": Language(
        lambda: [*_python("file"), "--source", "lines", "--names", "base", "--path"],
        lambda: [*_python("file-sink"), "--sink", "files", "--format", "lines", "--path"],
        "files",
        _appended,
        (".headrace/files/staged/*.part", ".headrace/files/staged/*.vote"),
    ),
    "go": Language(
        lambda: [_go("lines-source")], lambda: [_go("file-sink")], "files", _batch_folders, (".staged/*/*", ".prepared/*/*")
    ),
    "typescript": Language(
        lambda: [*typescript().example("follow-source")],
        lambda: [*typescript().example("file-sink")],
        "lines",
        _json_batches,
        ("staged/*", "prepared/*"),
    ),
    "java": Language(
        lambda: [*_java(), "io.headrace.examples.Lines"],
        lambda: [*_java(), "io.headrace.examples.FileSink"],
        "files",
        _batches,
        ("staged/*/*",),
    ),
    "rust": Language(
        lambda: [_rust() / "lines"], lambda: [_rust() / "files"], "files", _batch_folders, (".staged/*/*", ".prepared/*/*")
    ),
}
