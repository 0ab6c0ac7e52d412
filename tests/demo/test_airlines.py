"""The independent computation against what is known of the data set, and the comparison against itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.laboratory.demo.airlines import Airline, Difference, Table, compare, plain_computation, read_table, write_table
from headrace.laboratory.demo.flights import FlightFile, airline_names, unpack_flights


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> FlightFile:
    return unpack_flights(tmp_path_factory.mktemp("flights"))


@pytest.fixture(scope="module")
def plain(flights: FlightFile) -> tuple[Airline, ...]:
    return plain_computation(flights.path)


def test_the_stream_is_every_line_of_the_file(flights: FlightFile) -> None:
    assert flights.lines == 336_776 + 1
    assert flights.line_ends[-1] == flights.path.stat().st_size
    assert flights.lines_through(0) == 0
    assert flights.lines_through(flights.line_ends[0]) == 1
    assert flights.lines_through(flights.line_ends[41] - 1) == 41


def test_the_plain_computation_finds_what_is_published(plain: tuple[Airline, ...]) -> None:
    # summary(flights) and count(flights, carrier) of the R package of the same name, which many a textbook prints.
    assert len(plain) == 16
    assert sum(airline.flights for airline in plain) == 336_776
    assert sum(airline.cancelled for airline in plain) == 8_255
    assert sum(airline.delays for airline in plain) == 328_521
    assert {airline.carrier: airline.flights for airline in plain} == {
        "9E": 18460, "AA": 32729, "AS": 714, "B6": 54635, "DL": 48110, "EV": 54173, "F9": 685, "FL": 3260,
        "HA": 342, "MQ": 26397, "OO": 32, "UA": 58665, "US": 20536, "VX": 5162, "WN": 12275, "YV": 601,
    }  # fmt: skip
    by_carrier = {airline.carrier: airline for airline in plain}
    assert by_carrier["HA"].worst_delay == 1301
    assert by_carrier["F9"].mean_delay == pytest.approx(20.2155, abs=1e-4)
    total = sum(airline.delay_minutes or 0 for airline in plain)
    assert total / 328_521 == pytest.approx(12.63907, abs=1e-5)


def test_every_airline_has_a_name(plain: tuple[Airline, ...]) -> None:
    assert airline_names().keys() == {airline.carrier for airline in plain}


def test_an_airline_that_never_flew_has_no_delays(tmp_path: Path) -> None:
    file = tmp_path / "flights.csv"
    file.write_text("dep_time,dep_delay,carrier\nNA,NA,XX\n517,-3,YY\n")
    assert plain_computation(file) == (Airline("XX", 1, 1, 0, None, None), Airline("YY", 1, 0, 1, -3, -3))
    assert Airline("XX", 1, 1, 0, None, None).mean_delay is None


def test_equal_figures_do_not_differ(plain: tuple[Airline, ...]) -> None:
    assert compare(reversed(plain), plain) == []


def test_every_kind_of_difference_is_found(plain: tuple[Airline, ...]) -> None:
    wrong = replace(plain[0], cancelled=plain[0].cancelled + 1)
    assert compare([wrong, *plain[1:]], plain) == [Difference("9E", "cancelled", wrong.cancelled, plain[0].cancelled)]
    assert [difference.plain for difference in compare(plain[1:], plain)] == [
        plain[0].flights,
        plain[0].cancelled,
        plain[0].delays,
        plain[0].delay_minutes,
        plain[0].worst_delay,
    ]
    assert {difference.plain for difference in compare(plain, plain[1:])} == {None}


def test_a_table_is_read_as_it_was_written(tmp_path: Path, plain: tuple[Airline, ...]) -> None:
    path = tmp_path / "table.json"
    assert read_table(path) is None
    for batch_id in (3, 4, 4):
        write_table(path, Table(batch_id, plain))
        assert read_table(path) == Table(batch_id, plain)
    assert list(tmp_path.iterdir()) == [path]
