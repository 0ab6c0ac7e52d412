"""The status of a deployment, for people and for programs."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from headrace.deploy import Condition, JsonView, Kind, LinesView, LiveView, ProcessStatus, State, Status
from headrace.deploy.view import table

GATEWAY = ProcessStatus("gateway", Kind.GATEWAY, "", State.RUNS, 10, 0, 5.0, None, None, "", "run/gateway.log")
LINES = ProcessStatus("lines", Kind.SOURCE, "file", State.RUNS, 11, 1, 5.0, None, None, "2 streams", "run/lines.log")
FAILS = replace(LINES, state=State.FAILS, pid=None, uptime_s=None, next_start_s=3.25, reason="ended with exit code 1: no")
RUNS = Status("deploy.toml", Condition.RUNS, None, "127.0.0.1:7433", 9.0, 12_000, 340, 5, (GATEWAY, LINES))
DEGRADED = replace(RUNS, condition=Condition.DEGRADED, cause="lines: ended with exit code 1: no", processes=(GATEWAY, FAILS))


def test_lines_say_what_is_new() -> None:
    written: list[str] = []
    view = LinesView(written.append)
    for status in (RUNS, RUNS, DEGRADED, DEGRADED, RUNS):
        view(status)
    assert [line.split("  ", 1)[1] for line in written] == [
        "gateway runs",
        "lines runs",
        "deploy.toml runs",
        "lines fails: ended with exit code 1: no; restarts in 3.2 s (log: run/lines.log)",
        "deploy.toml degraded: lines: ended with exit code 1: no",
        "lines runs",
        "deploy.toml runs",
    ]


def test_that_there_are_no_figures_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.deploy.view._FIGURES_EVERY_S", 0.0)
    written: list[str] = []
    view = LinesView(written.append, stamps=False)
    for _ in range(3):
        view(replace(RUNS, acknowledged=None, rate=0, lag=None))
    view(RUNS)
    view(RUNS)
    assert written[3:] == ["the gateway does not report figures", *["12,000 messages acknowledged, 340 a second, lag 5"] * 2]


def test_documents_come_with_every_change() -> None:
    written: list[str] = []
    view = JsonView(written.append)
    for status in (RUNS, replace(RUNS, lag=6), DEGRADED):
        view(status)
    first, second = map(json.loads, written)
    assert (first["condition"], first["acknowledged"], first["rate"], first["lag"]) == ("runs", 12_000, 340, 5)
    assert second["cause"] == "lines: ended with exit code 1: no"
    assert second["processes"][1] == {
        "name": "lines",
        "kind": "source",
        "what": "file",
        "state": "fails",
        "pid": None,
        "restarts": 1,
        "uptime_s": None,
        "next_start_s": 3.25,
        "reason": "ended with exit code 1: no",
        "detail": "2 streams",
        "log": "run/lines.log",
    }


def test_a_table_on_a_terminal() -> None:
    console = Console(width=160, force_terminal=True, color_system=None, record=True)
    with LiveView(console) as view:
        view(DEGRADED)
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert "deploy.toml degraded: lines: ended with exit code 1: no" in lines
    assert "12,000 messages acknowledged, 340 a second, lag 5" in lines
    rows = [" ".join(line.split()) for line in lines]
    assert "gateway 127.0.0.1:7433 runs 10 0" in rows
    assert "lines file fails - 1 ended with exit code 1: no; restarts in 3.2 s (log: run/lines.log)" in rows


def test_lines_of_a_log_have_no_time_of_their_own() -> None:
    written: list[str] = []
    LinesView(written.append, stamps=False)(RUNS)
    assert written[0] == "gateway runs"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_live_view_fits_with_long_names_and_wide_numbers(width: int) -> None:
    long = replace(FAILS, name="returns-of-the-northern-region", what="postgresql-outbox", restarts=10**9)
    status = replace(DEGRADED, acknowledged=10**15, rate=10**9, lag=10**15, processes=(replace(GATEWAY, pid=4_194_304), long))
    console = Console(width=width, color_system=None, record=True, file=io.StringIO())
    console.print(table(status))
    lines = [line.strip() for line in console.export_text().splitlines()]
    assert max(map(len, lines)) <= width
    text = " ".join(lines)
    for name in (long.name, long.what, "127.0.0.1:7433", "4194304", "1000000000", f"{10**15:,}", "exit code 1: no"):
        assert name in text, (name, lines)


def test_a_usual_deployment_is_a_table_of_a_line_for_each_process_that_runs() -> None:
    console = Console(width=80, color_system=None, record=True, file=io.StringIO())
    console.print(table(RUNS))
    assert [line.split() for line in console.export_text().splitlines()[2:]] == [
        ["process", "what", "state", "pid", "restarts"],
        ["gateway", "127.0.0.1:7433", "runs", "10", "0"],
        ["lines", "file", "runs", "11", "1", "2", "streams"],
    ]
