"""sdk/examples/go-log-tail: its own tests, and the program at a real gateway, while its logs are rotated and both are killed."""

import signal
from pathlib import Path

import pytest
from tests.conformance.kit import judged, some_of
from tests.gateway.processes import gateway_process
from tests.sdk.go.toolchain import ROOT, STATICCHECK, Toolchain
from tests.sdk.processes import connector
from tests.sdk.queries import Reader

from headrace.conformance.sources import SOURCE_CHECKS

pytestmark = [pytest.mark.timeout(600), pytest.mark.in_turn(3, 6)]  # The first build compiles gRPC.

LOG_TAIL = ROOT / "sdk" / "examples" / "go-log-tail"


class Log:
    """A log that is written and rotated."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / name
        self.lines: list[bytes] = []

    def write(self, count: int) -> None:
        """Adds lines."""
        more = [b"%s: line %d" % (self._path.name.encode(), len(self.lines) + n) for n in range(count)]
        with self._path.open("ab") as file:
            file.writelines(line + b"\n" for line in more)
        self.lines += more

    def rotate(self) -> None:
        """Renames it, and the files that were renamed before."""
        for number in (2, 1):
            old = self._path.with_name(f"{self._path.name}.{number}")
            if old.exists():
                old.rename(old.with_name(f"{self._path.name}.{number + 1}"))
        self._path.rename(self._path.with_name(f"{self._path.name}.1"))


def test_its_own_tests_pass(go: Toolchain) -> None:
    done = go.test(LOG_TAIL)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_formatted_vetted_and_checked(go: Toolchain) -> None:
    assert go.unformatted(LOG_TAIL) == ""
    for command in (["vet", "./..."], ["run", STATICCHECK, "./..."], ["mod", "verify"]):
        done = go.run(*command, folder=LOG_TAIL)
        assert done.returncode == 0, done.stdout + done.stderr


def test_it_keeps_the_rules_of_the_protocol(go: Toolchain, pytestconfig: pytest.Config) -> None:
    command: list[str | Path] = [go.build(LOG_TAIL), "--max-line=8000000", "{work}"]
    only = some_of(SOURCE_CHECKS, "go-log-tail", pytestconfig)
    verdict = judged("source", LOG_TAIL / "conformance.toml", command, only)
    assert verdict.exit_code == 0, verdict.explained()
    assert len(verdict.named("passed")) >= len(only) - 23


async def test_it_loses_and_repeats_no_line(go: Toolchain, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    app, db = Log(folder, "app.log"), Log(folder, "db.log")
    app.write(300)
    db.write(200)
    command: list[str | Path] = [go.build(LOG_TAIL), "--interval=20ms", folder]
    with gateway_process() as gateway:
        async with connector(gateway.address, tmp_path / "log", *command) as source:
            queries = Reader(gateway.address, "logs/app.log"), Reader(gateway.address, "logs/db.log")
            await queries[0].read(150)
            app.rotate()
            app.write(300)
            await source.restart()
            await queries[0].read(450)
            await queries[1].read(200)
            assert await source.end(signal.SIGKILL) == -signal.SIGKILL
            app.rotate()
            app.write(300)
            db.rotate()
            db.write(100)
            await source.start()
            await queries[0].read(700)
            await queries[1].read(300)
            (folder / "db.log.1").unlink()  # Its lines are in the checkpoint.
            gateway.process.kill()
            gateway.wait()
            with gateway_process("--listen", gateway.address):
                app.rotate()
                app.write(100)
                db.write(50)
                await queries[0].read(1000)
                await queries[1].read(350)
                assert await source.end(signal.SIGTERM) == 0, source.log
            for query in queries:
                await query.close()
    assert queries[0].values == app.lines
    assert queries[1].values == db.lines
