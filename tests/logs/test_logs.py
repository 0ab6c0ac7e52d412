"""The one schema of the logs, and lines that repeat."""

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.virtual_clock import VirtualClock

from headrace.contract import clock
from headrace.logs.context import log_fields
from headrace.logs.output import (
    FIELDS,
    HEAD,
    ConsoleFormatter,
    JsonFormatter,
    LogFormatError,
    configure_from_environment,
    is_verbose,
)
from headrace.logs.repeats import Repeats, RepeatsFilter


def record(text: str, *args: object, level: int = logging.WARNING, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("headrace.sdk", level, __file__, 1, text, args, None)
    vars(made).update(fields)
    return made


def formatted(made: logging.LogRecord) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(JsonFormatter().format(made))
    return document


@pytest.fixture
def passes() -> Iterator[Callable[[float], None]]:
    """Lets time pass, in seconds."""
    with clock.use(VirtualClock()) as now:
        yield now.advance


def test_a_line_has_the_head_and_its_own_fields() -> None:
    document = formatted(record("stream %s: %s", "orders/0", "gone", stream="orders/0", batch=7))
    assert list(document)[:4] == list(HEAD)
    assert document["timestamp"].endswith("Z")
    del document["timestamp"]
    assert document == {
        "level": "warning",
        "logger": "headrace.sdk",
        "event": "stream orders/0: gone",
        "stream": "orders/0",
        "batch": 7,
    }


async def test_fields_of_a_session_are_those_of_its_tasks_only() -> None:
    async def logged() -> dict[str, Any]:
        return formatted(record("it reads"))

    async def session(name: str) -> dict[str, Any]:
        with log_fields(session=name):
            return await asyncio.create_task(logged())

    one, other = await asyncio.gather(session("s1"), session("s2"))
    assert (one["session"], other["session"], "session" in formatted(record("no session"))) == ("s1", "s2", False)


def test_an_error_has_its_traceback_in_one_line() -> None:
    try:
        raise ValueError("it is full")
    except ValueError:
        made = record("a sink failed")
        made.exc_info = sys.exc_info()
    line = JsonFormatter().format(made)
    assert "\n" not in line
    assert json.loads(line)["exception"].splitlines()[-1] == "ValueError: it is full"


@pytest.mark.parametrize("name", ["token", "password", "authorization", "sha256"])
def test_fields_for_secrets_are_hidden(name: str) -> None:
    assert formatted(record("it connects", **{name: "planted"}))[name] == "(hidden)"


def test_lines_for_people_say_how_often_they_came() -> None:
    line = ConsoleFormatter().format(record("no route", repeats=3))
    assert line.endswith("Z WARNING: no route (3 more like this)")


def test_a_warning_is_not_repeated_until_its_time_and_then_says_how_often_it_came(passes: Callable[[float], None]) -> None:
    seldom = RepeatsFilter(every_s=5.0)
    assert [seldom.filter(record("no route to %s", host)) for host in "aababb"] == [True, False, True, False, False, False]
    passes(5.0)
    again = record("no route to %s", "a")
    assert seldom.filter(again)
    assert formatted(again)["repeats"] == 2
    first = record("no route to %s", "c")
    assert seldom.filter(first)
    assert "repeats" not in formatted(first)


def test_a_caller_who_tries_again_from_another_port_repeats_itself() -> None:
    seldom = RepeatsFilter()
    lines = [record("session ended", peer=f"ipv4:10.0.0.7:{port}", session=str(port), error="no token") for port in range(100)]
    assert [seldom.filter(line) for line in lines] == [True, *[False] * 99]
    assert seldom.filter(record("session ended", peer="ipv4:10.0.0.7:1", error="a frame is broken"))


def test_the_same_line_of_another_part_of_the_process_is_no_repetition() -> None:
    seldom, admitted = RepeatsFilter(), []
    for sink in ("alerts", "counts", "alerts"):
        with log_fields(sink=sink):
            admitted.append(seldom.filter(record("the disk is full")))
    assert admitted == [True, True, False]


def test_what_is_normal_or_was_requested_by_somebody_is_always_logged() -> None:
    seldom = RepeatsFilter()
    normal = [record("session opened", level=logging.INFO) for _ in range(3)]
    requested = [record("change refused", by="operator", error="no such stream") for _ in range(3)]
    assert all(seldom.filter(line) for line in (*normal, *requested))


def test_kinds_are_bounded(passes: Callable[[float], None]) -> None:
    seldom = Repeats(every_s=1000.0)
    assert all(seldom.admit(kind) == 0 for kind in range(5000))
    # The newest are still known, the oldest are not.
    assert (seldom.admit(4999), seldom.admit(0)) == (None, 0)
    seldom.forget(4999)
    assert seldom.admit(4999) == 0


def test_a_format_that_does_not_exist_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_LOG_FORMAT", "xml")
    with pytest.raises(LogFormatError, match="HEADRACE_LOG_FORMAT: 'xml' is not console or json") as caught:
        configure_from_environment()
    assert caught.value.exit_code == 2


PROGRAM = """
import logging, sys
from headrace.sdk import Message, Source, run

{own}
class Lines(Source):
    name = "lines"

    def read(self, partition, position):
        yield Message(b"planted", sequence=1)

sys.exit(run(Lines(), gateway="127.0.0.1:1"))
"""


@pytest.mark.parametrize(
    ("form", "own", "line"),
    [
        ("json", "", '"level": "error"'),
        ("console", "", "Z ERROR: connector stopped: "),
        ("xml", "", "HEADRACE_LOG_FORMAT: 'xml' is not console or json"),
        # A program that has configured logging itself keeps it.
        ("json", "logging.basicConfig(format='mine %(message)s')", "mine connector stopped: "),
    ],
)
def test_a_program_on_the_sdk_logs_in_the_format_of_the_variable(form: str, own: str, line: str) -> None:
    # A file that does not exist ends it at once.
    environ = {"HEADRACE_LOG_FORMAT": form, "HEADRACE_TLS_CA": "/nowhere/ca.pem"}
    command = [sys.executable, "-c", PROGRAM.format(own=own)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2, done.stderr
    assert line in done.stderr
    if form == "json" and not own:
        (document,) = map(json.loads, done.stderr.splitlines())
        assert set(document) <= {*HEAD, *FIELDS}


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, False), ("", False), ("0", False), ("false", False), ("No", False), ("off", False), ("1", True), ("TRUE", True)],
)
def test_a_program_is_verbose_if_the_variable_says_so(value: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_VERBOSE", raising=False)
    if value is not None:
        monkeypatch.setenv("HEADRACE_VERBOSE", value)
    assert is_verbose() is expected
