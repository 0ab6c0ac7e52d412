"""Flights: departure delays per hour and airport, per day and airline, and the worst of the last hours.

The event time of a flight is its scheduled departure, but it arrives in the stream when it actually departs. So a very late
flight is a late value too: each of the three windows handles it differently.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.pipelines import Aggregation, Late, Pipeline, Window, maximum, sliding, tumbling

DELAY, CARRIER, AIRPORT, MINUTE, HOUR = 5, 9, 12, 17, 18
"""Columns of the file: departure delay, airline, airport, and minute and hour (UTC) of the scheduled departure."""
BAD_DAY = 45
"""The mean delay of a bad day, in minutes."""

Sums = tuple[int, int]
"""A number of flights, and the sum of their delays in minutes."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A flight that has departed. Its delay is in minutes, negative if it was early."""

    due: datetime
    carrier: str
    airport: str
    delay: int


@dataclass(frozen=True, slots=True)
class Delays:
    """The flights of an airport or airline in a window."""

    of: str
    start: datetime
    flights: int
    minutes: int

    @property
    def mean(self) -> float:
        """The mean delay, in minutes."""
        return self.minutes / self.flights


class Summed(Aggregation[Flight, Sums, Delays]):
    """Adds up delays."""

    def initial(self) -> Sums:
        """Returns sums of no flights."""
        return 0, 0

    def update(self, accumulator: Sums, value: Flight) -> Sums:
        """Adds a flight."""
        flights, minutes = accumulator
        return flights + 1, minutes + value.delay

    def output(self, key: str, accumulator: Sums, window: Window | None) -> Delays:
        """Returns the delays in the window."""
        assert window is not None, "only windows that count have no time"
        return Delays(key, window.start_time, *accumulator)


def decode(line: bytes) -> Flight | None:
    """Parses a flight; returns None for a cancelled one."""
    fields = line.decode().split(",")
    if fields[DELAY] == "NA":
        return None
    due = datetime.fromisoformat(fields[HOUR]) + timedelta(minutes=int(fields[MINUTE]))
    return Flight(due, fields[CARRIER], fields[AIRPORT], int(fields[DELAY]))


def write(delays: Delays) -> bytes:
    """Formats delays as a line."""
    return f"{delays.start:%Y-%m-%dT%H:%M},{delays.of},{delays.flights},{delays.minutes},{delays.mean:.1f}".encode()


def worst(airport: str, delay: int, window: Window) -> str:
    """Formats the worst delay of a window as a line."""
    return f"{window.start_time:%Y-%m-%dT%H:%M},{airport},{delay}"


app = Pipeline("flights")
flights = app.source("flights/*", decode=decode).event_time(lambda flight: flight.due)
airports = flights.key_by(lambda flight: flight.airport, name="by-airport")
airlines = flights.key_by(lambda flight: flight.carrier, name="by-airline")

# Every flight counts, a late one in the oldest hour that is still open.
hours = airports.window(tumbling("1 hour"), delay="30 minutes", late=Late.PLACE_IN_OLDEST)
hours.aggregate(Summed(), name="hours").sink("airports", encode=write)

# Only flights that departed at most six hours after the end of their day count.
days = airlines.window(tumbling("1 day"), delay="6 hours", late=Late.DROP).aggregate(Summed(), name="days")
days.sink("airlines", encode=write)
days.filter(lambda day: day.mean >= BAD_DAY).sink("bad_days", encode=write)

# A flight that is too late for all its windows makes a separate result immediately.
recent = airports.window(sliding("3 hours", every="1 hour"), delay="30 minutes", late=Late.FIRE)
recent.aggregate(maximum(lambda flight: flight.delay), output=worst, name="worst").sink("worst")
