"""Alerts and flights on their feeds, each against a plain computation."""

import csv
import itertools
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.examples.event_time import Windows
from tests.examples.loading import Example

from headrace.pipelines import Message, Trial

FLIGHTS = 30_000
HOUR = timedelta(hours=1)


def run(app: Any, stream: str, lines: list[str], batch: int) -> Trial:
    trial, waiting = Trial(app), [Message(line.encode(), stream=stream) for line in lines]
    for at in range(0, len(waiting), batch):
        trial.send(*waiting[at : at + batch])
    trial.finish()
    return trial


def at_utc(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


@pytest.mark.parametrize("batch", [7, 5000])
def test_alerts_of_each_kind(batch: int) -> None:
    example = Example("alerts")
    lines = example.feed.lines(4000)
    rows = [(fields[1], at_utc(fields[0]), float(fields[2])) for fields in csv.reader(lines) if len(fields) == 3]
    expected = Counter(f"{device} is too hot: {celsius} C" for device, _, celsius in rows if celsius >= 95)

    for device in {row[0] for row in rows}:
        own = [celsius for name, _, celsius in rows if name == device]
        rose = "-" + "".join("+" if after > before else "-" for before, after in itertools.pairwise(own))
        for match in re.finditer(r"-\+{3}(?=\+)", rose):
            expected[f"{device} rises: {own[match.end()]} C"] += 1

    minutes = Windows(timedelta(minutes=1), timedelta(minutes=1), timedelta(seconds=30))
    minutes.take(rows)
    assert not minutes.late, "the feed is out of order by less than the delay"
    for (device, start), values in minutes.values.items():
        if sum(values) / len(values) >= 80:
            expected[f"{device} had a hot minute: {sum(values) / len(values):.1f} C at {start:%H:%M}"] += 1

    trial = run(example.app.app, "sensors/sensors.csv", lines, batch)
    assert Counter(value.decode() for value in trial.values("alerts")) == expected
    kinds = [" is too hot: ", " rises: ", " had a hot minute: "]
    assert all(sum(count for alert, count in expected.items() if kind in alert) >= 10 for kind in kinds), expected


def test_unreadable_readings_go_to_a_sink_of_their_own() -> None:
    example = Example("alerts")
    lines = example.feed.lines(4000)
    trial = run(example.app.app, "sensors/0", lines, 1000)
    offline = [number for number, line in enumerate(lines, 1) if "offline" in line]
    assert offline
    found = [re.findall(r"stream sensors/0, sequence (\d+): ValueError", reason) for reason in trial.failed]
    assert found == [[str(number)] for number in offline]


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """The flights of the first weeks of the year, in the order in which they left."""
    found: list[str] = Example("flights").feed.lines(FLIGHTS)
    return found


@pytest.fixture(scope="module")
def flown(lines: list[str]) -> list[dict[str, Any]]:
    """The same, without cancelled ones."""
    return [
        {
            "due": at_utc(row[18]) + timedelta(minutes=int(row[17])),
            "airline": row[9],
            "airport": row[12],
            "delay": int(row[5]),
        }
        for row in csv.reader(lines)
        if row[5] != "NA"
    ]


@pytest.fixture(scope="module")
def trial(lines: list[str]) -> Trial:
    return run(Example("flights").app.app, "flights/flights.csv", lines, 2500)


def summed(windows: Windows) -> list[str]:
    return sorted(
        f"{start:%Y-%m-%dT%H:%M},{key},{len(delays)},{sum(delays)},{sum(delays) / len(delays):.1f}"
        for (key, start), delays in windows.values.items()
    )


def written(trial: Trial, sink: str) -> list[str]:
    return sorted(value.decode() for value in trial.values(sink))


def test_flights_at_airports_each_count(trial: Trial, flown: list[dict[str, Any]]) -> None:
    hours = Windows(HOUR, HOUR, timedelta(minutes=30), place=True)
    hours.take((flight["airport"], flight["due"], flight["delay"]) for flight in flown)
    assert written(trial, "airports") == summed(hours)
    assert sum(int(line.split(",")[2]) for line in written(trial, "airports")) == len(flown)
    on_time = Windows(HOUR, HOUR, timedelta(days=9))
    on_time.take((flight["airport"], flight["due"], flight["delay"]) for flight in flown)
    assert summed(on_time) != summed(hours), "without late flights nothing would be placed"


def test_flights_of_airlines_that_are_late_by_far_are_dropped(trial: Trial, flown: list[dict[str, Any]]) -> None:
    days = Windows(24 * HOUR, 24 * HOUR, 6 * HOUR)
    days.take((flight["airline"], flight["due"], flight["delay"]) for flight in flown)
    assert days.late
    assert written(trial, "airlines") == summed(days)
    assert written(trial, "bad_days") == [
        line for line in summed(days) if int(line.split(",")[3]) >= 45 * int(line.split(",")[2])
    ]
    assert written(trial, "bad_days")


def test_the_worst_delay_tells_of_late_flights_at_once(trial: Trial, flown: list[dict[str, Any]]) -> None:
    recent = Windows(3 * HOUR, HOUR, timedelta(minutes=30))
    recent.take((flight["airport"], flight["due"], flight["delay"]) for flight in flown)
    alone = [f"{start:%Y-%m-%dT%H:%M},{airport},{delay}" for airport, start, delay in recent.late]
    together = [f"{start:%Y-%m-%dT%H:%M},{airport},{max(delays)}" for (airport, start), delays in recent.values.items()]
    assert len(alone) > 100
    assert written(trial, "worst") == sorted(alone + together)


def test_flights_do_not_depend_on_batches(lines: list[str]) -> None:
    one, other = (run(Example("flights").app.app, "flights/0", lines[:3000], batch) for batch in (11, 3000))
    for sink in ("airports", "airlines", "bad_days", "worst"):
        assert written(one, sink) == written(other, sink)
