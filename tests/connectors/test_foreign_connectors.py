"""Connectors in other languages, run as processes: what reaches them, and what becomes of signals and exit codes."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner
from tests.connectors.manifests import DUMP, MANIFEST, add, environ, seen
from tests.fake_gateway.server import until
from tests.gateway.wire import Engine, values_of
from tests.gateway.wire import serve as gateway

from headrace.cli import cli
from headrace.processes import lives

SECRET = "correct horse"
DEADLINE_S = 150.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "connectors"
    folder.mkdir(mode=0o755)
    return folder


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "headrace.cli", "connector", *map(str, words)]


def headrace(folder: Path, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        env=environ(folder, **variables),
        cwd=folder,
    )


@asynccontextmanager
async def running(folder: Path, *words: str | Path, **variables: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *command(*words), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environ(folder, **variables)
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


# What reaches a program


def test_parameters_secrets_and_the_connection_reach_it_in_the_environment(folder: Path) -> None:
    add(folder, run=DUMP)
    done = headrace(
        folder,
        *("run", "acme", "--source", "orders", "--hosts", "a", "--hosts", "b c", "--wait", "90s", "--last", "--verbose"),
        *("--gateway", "far:1", "--instance", "blue", "--tls-ca", sys.executable, "--password", SECRET),
        HEADRACE_TOKEN="the token",
        HEADRACE_SECRET_OTHER="of another connector",
    )
    got = seen(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert got["argv"] == [str(folder / "acme/./run"), "--from", f"{folder}/acme/x y"]
    assert got["cwd"] == str(folder)
    variables = {name: value for name, value in got["environ"].items() if name.startswith("HEADRACE_")}
    assert json.loads(variables.pop("HEADRACE_PARAMETERS")) == {
        "source": "orders",
        "hosts": ["a", "b c"],
        "prefetch": 100,
        "buffer": 64 << 20,
        "wait": 90.0,
        "order": "old",
        "last": True,
    }
    assert variables == {
        "HEADRACE_SECRET_PASSWORD": SECRET,
        "HEADRACE_GATEWAY": "far:1",
        "HEADRACE_TOKEN": "the token",
        "HEADRACE_INSTANCE": "blue",
        "HEADRACE_TLS": "1",
        "HEADRACE_TLS_CA": sys.executable,
        "HEADRACE_LOG_FORMAT": "console",
        "HEADRACE_VERBOSE": "1",
        "HEADRACE_CONNECTORS": str(folder),
    }
    assert SECRET not in " ".join(got["argv"])


def test_a_file_sets_everything_and_what_is_not_given_is_not_there(folder: Path, tmp_path: Path) -> None:
    add(folder, run=DUMP)
    file = tmp_path / "c.toml"
    file.write_text('connector = "acme"\nsource = "orders"\nfolder = "data"\n[gateway]\naddress = "far:1"\n')
    variables = seen(headrace(folder, "run", "-c", file, HEADRACE_TLS_CA="", HEADRACE_VERBOSE="false").stdout)["environ"]
    parameters = json.loads(variables["HEADRACE_PARAMETERS"])
    assert (parameters["folder"], "wait" in parameters, "password" in parameters) == (str(tmp_path / "data"), False, False)
    assert (variables["HEADRACE_GATEWAY"], variables["HEADRACE_INSTANCE"]) == ("far:1", "orders")
    assert variables["HEADRACE_VERBOSE"] == "0"
    assert not {"HEADRACE_TOKEN", "HEADRACE_TLS", "HEADRACE_TLS_CA", "HEADRACE_SECRET_PASSWORD"} & set(variables)


async def test_no_secret_is_in_a_command_line_or_a_log(folder: Path, tmp_path: Path) -> None:
    add(folder, run=f"{DUMP}sys.stdin.close(); import time; time.sleep(600)\n")
    file = tmp_path / "c.toml"
    file.write_text('connector = "acme"\nsource = "orders"\npassword = "${PASSWORD}"\n')
    async with running(folder, "run", "-c", file, "--verbose", PASSWORD=SECRET) as process:
        assert process.stdout is not None
        got = seen(await asyncio.wait_for(process.stdout.readline(), DEADLINE_S))
        assert got["environ"]["HEADRACE_SECRET_PASSWORD"] == SECRET
        # It has replaced the command: the same process, with the command line of the manifest.
        assert got["pid"] == process.pid
        words = psutil.Process(process.pid).cmdline()
        assert "--from" in words
        assert SECRET not in " ".join(words)
        process.kill()
        _, errors = await process.communicate()
    assert SECRET not in errors.decode()
    assert SECRET not in json.dumps({name: value for name, value in got["environ"].items() if name == "HEADRACE_PARAMETERS"})


# Signals and exit codes

WAITS = """#!/bin/sh
trap 'echo stopped; exit 7' TERM
echo ready
while :; do sleep 0.05; done
"""


async def test_signals_and_exit_codes_pass_through(folder: Path) -> None:
    add(folder, run=WAITS)
    add(folder, "dies", run="#!/bin/sh\nkill -KILL $$\n")
    async with running(folder, "run", "acme", "--source", "s") as process:
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), DEADLINE_S) == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.stdout.readline(), DEADLINE_S) == b"stopped\n"
        assert await asyncio.wait_for(process.wait(), DEADLINE_S) == 7
    assert headrace(folder, "run", "dies", "--source", "s").returncode == -signal.SIGKILL


def test_a_program_inherits_that_sighup_is_ignored(folder: Path) -> None:
    add(folder, run="#!/bin/sh\nkill -HUP $$\necho runs on\n")
    done = headrace(folder, "run", "acme", "--source", "s")
    assert (done.returncode, done.stdout) == (0, "runs on\n")


def test_a_broken_pipe_ends_it_as_in_a_shell(folder: Path) -> None:
    add(folder, run="#!/bin/sh\nkill -PIPE $$\nexit 5\n")
    assert headrace(folder, "run", "acme", "--source", "s").returncode == -signal.SIGPIPE


# What cannot be executed

BROKEN = {
    "absent": (
        "./run",
        {},
        "there is no program {folder}/acme/run: install it, or correct {folder}/acme/headrace-",
    ),
    "mode": ("./check", {"check": "x"}, "{folder}/acme/check is not executable: chmod +x {folder}/acme/check"),
    "path": ("no-such-program", {}, "there is no program no-such-program in PATH: install it, or correct "),
    "format": ("./run", {"run": "\x00\x01\x02"}, "./run does not start: Exec format error; does it begin with #! and"),
    "others": ("./open", {"open": "#!/bin/sh\n"}, "{folder}/acme/open is writable by everybody: chmod go-w {folder}/acme/open"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_program_that_cannot_be_executed_is_told_with_exit_code_3(folder: Path, name: str) -> None:
    word, programs, told = BROKEN[name]
    manifest = add(folder, text=MANIFEST.replace("./run", word).replace('check = ["./check"]\n', ""), **programs)
    if name == "mode":
        (manifest.parent / "check").chmod(0o644)
    if name == "others":
        (manifest.parent / "open").chmod(0o757)
    done = headrace(folder, "run", "acme", "--source", "s", "--password", SECRET)
    assert done.returncode == 3
    assert done.stderr.startswith(f"Error: connector acme of {manifest} cannot be used: ")
    assert told.format(folder=folder) in done.stderr
    assert SECRET not in done.stderr
    if name != "format":
        checked = headrace(folder, "check", "acme", "--source", "s")
        assert (checked.returncode, told.format(folder=folder) in checked.stderr) == (3, True)
    assert headrace(folder, "describe", "acme").returncode == 0


def test_parameters_that_the_system_does_not_take(folder: Path) -> None:
    add(folder, run=DUMP)
    file = folder / "c.toml"
    file.write_text(f'connector = "acme"\nsource = "s"\npassword = "{SECRET}\\u0000"\n')
    done = headrace(folder, "run", "-c", file)
    assert done.returncode == 3
    assert "./run does not start: embedded null byte" in done.stderr
    assert SECRET not in done.stderr
    file.write_text(f'connector = "acme"\nsource = "{"s" * (1 << 20)}"\n')
    assert "./run does not start: Argument list too long" in headrace(folder, "run", "-c", file).stderr


# Checks

CHECK = """#!/bin/sh
echo "[$HEADRACE_PARAMETERS]" >seen
echo "token:$HEADRACE_TOKEN" >>seen
echo
echo "3 messages for $HEADRACE_SECRET_PASSWORD"
echo more
echo warning >&2
"""


def test_a_check_shows_the_first_line_of_its_command(folder: Path) -> None:
    add(folder, run=DUMP, check=CHECK)
    done = headrace(folder, "check", "acme", "--source", "s", HEADRACE_ACME_PASSWORD=SECRET, HEADRACE_TOKEN="t")
    assert (done.returncode, done.stdout, done.stderr) == (0, "acme is valid: 3 messages for ***\n", "")
    assert (folder / "seen").read_text().splitlines()[1] == "token:"
    file = folder / "c.toml"
    file.write_text('connector = "acme"\nsource = "s"\n')
    shown = json.loads(headrace(folder, "check", "-c", file, "--json").stdout)
    assert shown["result"] == {"connector": "acme", "finding": "3 messages for"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("echo found; echo 'nothing listens; start it' >&2; exit 1", "acme: nothing listens; start it"),
        ("echo on standard output; exit 9", "acme: on standard output"),
        ("exit 2", "acme: the check command ended with exit code 2, and said nothing"),
        ("kill -ABRT $$", "acme: the check command ended with SIGABRT, and said nothing"),
        ("printf 'a\\033[31mb\\nc' >&2; exit 1", "acme: a[31mb"),
        ("echo $HEADRACE_SECRET_PASSWORD; exit 1", "acme: ***"),
    ],
)
def test_a_check_that_fails_says_why(folder: Path, text: str, told: str) -> None:
    add(folder, run=DUMP, check=f"#!/bin/sh\n{text}\n")
    done = headrace(folder, "check", "acme", "--source", "s", HEADRACE_ACME_PASSWORD=SECRET)
    assert (done.returncode, done.stderr) == (1, f"Error: {told}\n")


def test_a_check_has_a_deadline_and_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environ(folder).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("headrace.connectors.manifests.checking.CHECK_S", 0.5)
    # It floods its output, and what it has started holds the pipes open.
    add(folder, run=DUMP, check=f"#!/bin/sh\nsleep 600 & echo $! >{folder}/pid\nyes\n")
    result = CliRunner().invoke(cli, ["connector", "check", "acme", "--source", "s"])
    assert (result.exit_code, result.stderr) == (1, "Error: acme: the check command did not end within 0.5 s\n")
    child = int((folder / "pid").read_text())
    until_deadline = time.monotonic() + DEADLINE_S
    while lives(child):
        assert time.monotonic() < until_deadline


def test_a_connector_without_a_check_says_so(folder: Path) -> None:
    add(folder, text=MANIFEST.replace('check = ["./check"]\n', ""), run=DUMP)
    done = headrace(folder, "check", "acme", "--source", "s")
    assert done.stdout == "acme is valid: it declares no check command, so its system was not contacted\n"


# With a gateway

SQUARES = """
import json
import os
import sys
from headrace.sdk import Message, Source, run


class Squares(Source):
    def __init__(self, parameters):
        self.name, self.until = parameters["source"], parameters["until"]

    def read(self, partition, position):
        first = position.sequence + 1 if position else 1
        for number in range(first, self.until + 1):
            yield Message(b"%d" % number**2, sequence=number)


sys.exit(run(Squares(json.loads(os.environ["HEADRACE_PARAMETERS"])), instance=os.environ["HEADRACE_INSTANCE"]))
"""

OF_SQUARES = f"""
manifest_version = 1
name = "{{name}}"
kind = "source"
replayable = true
summary = "squares"
version = "1"
language = "Python"
command = [{json.dumps(sys.executable)}, "{{{{folder}}}}/squares.py"]

[parameters.source]
type = "text"
required = true
description = "The stream is named SOURCE/0."

[parameters.until]
type = "integer"
default = 100
description = "The last number."
"""


async def test_a_program_streams_through_a_gateway_until_all_is_acknowledged(folder: Path) -> None:
    manifest = add(folder, "squares", OF_SQUARES)
    (manifest.parent / "squares.py").write_text(SQUARES)
    async with gateway() as (_, address):
        words = ("run", "squares", "--source", "orders", "--until", "200", "--gateway", address, "--instance", "blue")
        async with running(folder, *words) as process:
            engine = Engine(address)
            await engine.attach()
            plan = await engine.plan_until("orders/0", 200)
            assert values_of(await engine.fetch("orders/0", None, plan.end)) == [b"%d" % n**2 for n in range(1, 201)]
            assert process.returncode is None
            await engine.plan({"orders/0": plan.end}, wait_ms=0)
            await until(lambda: process.returncode is not None)
            assert process.returncode == 0
            await engine.close()
