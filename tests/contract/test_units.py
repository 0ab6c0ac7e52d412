"""Sizes and durations mean the same everywhere."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contract.units import UnitError, format_duration, format_size, parse_duration, parse_size

SUFFIXES = {
    "": 1,
    "b": 1,
    **dict.fromkeys(("k", "kb", "kib"), 2**10),
    **dict.fromkeys(("m", "mb", "mib"), 2**20),
    **dict.fromkeys(("g", "gb", "gib"), 2**30),
    **dict.fromkeys(("t", "tb", "tib"), 2**40),
}
UNITS = {
    **dict.fromkeys(("us", "microsecond", "microseconds"), timedelta(microseconds=1)),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), timedelta(milliseconds=1)),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), timedelta(seconds=1)),
    **dict.fromkeys(("m", "min", "minute", "minutes"), timedelta(minutes=1)),
    **dict.fromkeys(("h", "hour", "hours"), timedelta(hours=1)),
    **dict.fromkeys(("d", "day", "days"), timedelta(days=1)),
}
DURATIONS = st.timedeltas(min_value=timedelta(0))


@pytest.mark.parametrize(("suffix", "factor"), SUFFIXES.items())
def test_every_suffix_of_a_size_in_any_case_and_spacing(suffix: str, factor: int) -> None:
    for text in (f"3{suffix}", f" 3 {suffix.upper()} ", f"3.0{suffix.capitalize()}"):
        assert parse_size(text) == 3 * factor


@pytest.mark.parametrize(
    ("text", "size"),
    [("64mb", 67_108_864), ("64MB", 67_108_864), ("64m", 67_108_864), ("64MiB", 67_108_864), ("1.5 GiB", 3 * 2**29)],
)
def test_units_of_sizes_are_powers_of_1024_as_in_spark(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_a_fraction_of_a_byte_is_dropped_and_large_sizes_are_exact() -> None:
    assert parse_size("1.3kb") == 1331
    assert parse_size("9007199254740993") == 2**53 + 1
    assert parse_size("8191.999999999999999999tb") == 2**53 - 1


@pytest.mark.parametrize(
    "text", ["", " ", "-1", "mb", "1 mx", "1e3", "64 mi b", "1,5mb", "1.mb", ".5mb", "0x10", "٣mb", "1mb 1kb", "inf"]
)
def test_what_is_not_a_size_is_named_with_the_units_that_there_are(text: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_size(text)
    assert str(caught.value).startswith(f"{text!r} is not a size; ")
    for unit in ("b", "kb", "mb", "gb", "tb", "1024"):
        assert f" {unit}" in str(caught.value)


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 5000 + "tb", "1." + "3" * 5000 + "s", "5 " + "x" * 5000])
@pytest.mark.parametrize("parse", [parse_size, parse_duration])
def test_a_number_of_thousands_of_digits_is_refused_in_one_line(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(UnitError, match=r"\.\.\.' is not a .*; write for instance") as caught:
        parse(text)
    assert len(str(caught.value)) < 300


@given(st.integers(0, 2**70))
def test_a_size_that_was_formatted_is_read_as_the_same(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.integers(1, 1023), st.integers(0, 4))
def test_a_size_is_formatted_in_its_largest_whole_unit(number: int, power: int) -> None:
    assert format_size(number * 1024**power) == f"{number}{['b', 'kb', 'mb', 'gb', 'tb'][power]}"


@pytest.mark.parametrize(("unit", "length"), UNITS.items())
def test_every_unit_of_a_duration_in_any_case_and_spacing(unit: str, length: timedelta) -> None:
    for text in (f"3{unit}", f" 3 {unit.upper()} ", f"3.0{unit.capitalize()}"):
        assert parse_duration(text) == 3 * length


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0.1 s", 0.1), ("1.5h", 5400), ("1 hour 30 minutes", 5400), ("1h30m", 5400), ("1m 500ms", 60.5), ("5 5s", None)],
)
def test_parts_of_a_duration_are_added(text: str, seconds: float | None) -> None:
    if seconds is None:
        with pytest.raises(UnitError):
            parse_duration(text)
    else:
        assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", " ", "minutes", "5 parsecs", "-5s", "5s ago", "1e3s", "1,5s", "5 cows", "٣s", "soon"])
@pytest.mark.parametrize("unit_required", [False, True])
def test_what_is_not_a_duration_is_named_with_the_units_that_there_are(text: str, unit_required: bool) -> None:
    with pytest.raises(UnitError) as caught:
        parse_duration(text, unit_required=unit_required)
    assert str(caught.value).startswith(f"{text!r} is not a duration; ")
    for unit in ("us", "ms", "s", "m (minutes)", "h", "d"):
        assert f" {unit}" in str(caught.value)


def test_a_bare_number_is_seconds_unless_a_unit_is_required() -> None:
    assert parse_duration("5") == timedelta(seconds=5)
    with pytest.raises(UnitError, match="'5' is not a duration; write for instance 30s"):
        parse_duration("5", unit_required=True)


def test_a_duration_that_is_too_long_is_refused() -> None:
    assert parse_duration("999999999d") == timedelta(days=999_999_999)
    with pytest.raises(UnitError, match="'1000000000d' is too long; a duration has at most 999999999 days"):
        parse_duration("1000000000d")


@given(DURATIONS)
def test_a_duration_that_was_formatted_is_read_as_the_same(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration
    assert parse_duration(format_duration(duration), unit_required=True) == duration


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(microseconds=1), "1us"),
        (timedelta(milliseconds=500), "500ms"),
        (timedelta(seconds=90), "90s"),
        (timedelta(minutes=5), "5m"),
        (timedelta(hours=24), "1d"),
    ],
)
def test_a_duration_is_formatted_in_its_largest_whole_unit(duration: timedelta, text: str) -> None:
    assert format_duration(duration) == text


def test_there_is_no_text_for_a_negative_duration() -> None:
    with pytest.raises(ValueError, match="negative"):
        format_duration(timedelta(seconds=-1))
