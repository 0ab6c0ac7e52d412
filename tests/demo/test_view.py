"""The view of a run, on a terminal and in a log."""

import io
from typing import Any

import pytest
from rich.console import Console, RenderableType

from headrace.laboratory.demo.airlines import Airline
from headrace.laboratory.demo.flights_outcome import FlightsOutcome, Pace
from headrace.laboratory.demo.flights_progress import FlightsProgress
from headrace.laboratory.demo.market import Check, Rejected
from headrace.laboratory.demo.market_outcome import MarketOutcome
from headrace.laboratory.demo.market_progress import MarketProgress
from headrace.laboratory.demo.meter import Stretch
from headrace.laboratory.demo.outcome import RunOutcome
from headrace.laboratory.demo.view import LineView, ScreenView, SilentView, View, choose_view

AIRLINES = (Airline("HA", 342, 0, 342, 1676, 1301), Airline("XX", 1, 1, 0, None, None))


def _progress(elapsed_s: float, received: int, committed: int) -> FlightsProgress:
    return FlightsProgress(
        elapsed_s=elapsed_s,
        total=1000,
        received=received,
        committed=committed,
        rate=committed / 2,
        ack_latency_s=0.25 if committed else None,
        airlines=AIRLINES if committed else (),
        attached=received > 0,
    )


def _shown(view: View) -> None:
    with view:
        view.show(_progress(0.0, 0, 0))
        view.show(_progress(1.5, 0, 0))
        view.show(_progress(3.0, 400, 0))
        view.show(_progress(3.1, 500, 100))
        view.tell(_progress(3.2, 500, 200), "kill -9 gateway (17) at 200 committed; restarts")
        view.show(_progress(4.0, 1000, 1000))


def test_a_log_gets_a_line_a_second_and_one_for_each_event() -> None:
    out = io.StringIO()
    _shown(LineView(Console(file=out, highlight=False, width=200)))
    assert out.getvalue().splitlines() == [
        "  0.0 s  Spark is starting",
        "  3.0 s  in     400  committed       0 (  0%)         0/s  ack latency        -  airlines  0",
        "  3.2 s  kill -9 gateway (17) at 200 committed; restarts",
        "  4.0 s  in   1,000  committed   1,000 (100%)       500/s  ack latency   250 ms  airlines  2",
    ]


def test_a_terminal_shows_figures_airlines_and_events() -> None:
    out = io.StringIO()
    _shown(ScreenView(Console(file=out, force_terminal=True, highlight=False, width=100, height=40)))
    text = out.getvalue()
    for shown in (
        "Spark is starting",
        "messages in",
        "ack latency",
        "250 ms",
        "kill -9 gateway (17)",
        "HA",
        "4.90 min",
        "1,301 min",
    ):
        assert shown in text


def test_the_output_decides_on_the_view() -> None:
    out = io.StringIO()
    _shown(choose_view(Console(file=out), silent=True))
    assert out.getvalue() == ""
    assert isinstance(choose_view(Console(file=out), silent=True), SilentView)
    assert isinstance(choose_view(Console(file=out), silent=False), LineView)
    assert isinstance(choose_view(Console(file=out, force_terminal=True), silent=False), ScreenView)


def drawn(shown: RenderableType | RunOutcome, width: int) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None)
    if isinstance(shown, RunOutcome):
        shown.print_to(console)
    else:
        console.print(shown)
    return out.getvalue().splitlines()


BILLIONS = 10**12
WIDE: dict[str, Any] = {
    "elapsed_s": 123_456.7,
    "total": BILLIONS,
    "received": BILLIONS,
    "committed": BILLIONS,
    "rate": 10.0**9,
    "attached": True,
}
REJECTED = Rejected(1, 2, b"000042", b"NFX ", 10.0**9, 10.0**9, 10.0**9, 10.0**9 + 0.01, 5)
MARKET = MarketProgress(**WIDE, ack_latency_s=10.0**4, quotes=BILLIONS, orders=BILLIONS, rejected=BILLIONS, latest=(REJECTED,))
FLIGHTS = FlightsProgress(**WIDE, ack_latency_s=10.0**4, airlines=AIRLINES)
HALVES = (Stretch(BILLIONS, 1.0, 10.0**4, 10.0**4), Stretch(BILLIONS, 1.0, None, None))
RESULT: dict[str, Any] = {
    "messages": BILLIONS,
    "acknowledged": BILLIONS,
    "elapsed_s": 123_456.7,
    "stream_s": 1.0,
    "ack_latency_p50_s": 10.0**4,
    "ack_latency_p99_s": 10.0**4,
    "halves": HALVES,
}
PARTS: dict[str, RenderableType | RunOutcome] = {
    "flights": FLIGHTS.screen(),
    "market": MARKET.screen(),
    "flights-outcome": FlightsOutcome(
        **RESULT, airlines=AIRLINES, differences=(), figures_compared=80, kills=(), pace=Pace(1, "1MiB"), seed=None
    ),
    "market-outcome": MarketOutcome(**RESULT, rejected=(REJECTED,) * 30, checked=Check(30, 0, 0)),
}


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("part", PARTS)
def test_what_is_shown_fits_with_wide_numbers(part: str, width: int) -> None:
    lines = drawn(PARTS[part], width)
    assert max(map(len, lines)) <= width
    assert any(f"{BILLIONS:,}" in line for line in lines)


def test_figures_of_a_usual_run_are_two_lines() -> None:
    lines = drawn(_progress(3.1, 500, 100).screen(), 80)
    assert lines[0].split() == ["messages", "in", "committed", "rate", "ack", "latency", "airlines", "elapsed"]
    assert lines[1].split() == ["500", "100", "50/s", "250", "ms", "2", "3.1", "s"]
