"""What a run shows, on a terminal and in a log."""

import io

from rich.console import Console

from headrace.laboratory.demo.airlines import Airline
from headrace.laboratory.demo.flights_progress import FlightsProgress
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
