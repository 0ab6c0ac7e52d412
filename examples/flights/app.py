"""Flights: departure delays by the hour at each airport, by the day for each airline, and the worst of the last hours.

A flight belongs to the time at which it was due to leave, and is told of when it has left. So a flight that is very late is
late here, too: each of the three windows does something else with it.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.pipelines import Aggregation, Late, Pipeline, Window, maximum, sliding, tumbling

DELAY, CARRIER, AIRPORT, MINUTE, HOUR = 5, 9, 12, 17, 18
"""Columns of the file: departure delay, airline, airport, and the minute and hour (UTC) at which it was due to leave."""
BAD_DAY = 45
"""Minutes of mean delay."""

Sums = tuple[int, int]
"""A number of flights, and the sum of their delays in minutes."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A flight that has left. Its delay is in minutes, below 0 where it was early."""

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
        """In minutes."""
        return self.minutes / self.flights


class Summed(Aggregation[Flight, Sums, Delays]):
    """Adds up delays."""

    def initial(self) -> Sums:
        """No flights."""
        return 0, 0

    def update(self, accumulator: Sums, value: Flight) -> Sums:
        """One more."""
        flights, minutes = accumulator
        return flights + 1, minutes + value.delay

    def output(self, key: str, accumulator: Sums, window: Window | None) -> Delays:
        """What there was in the window."""
        assert window is not None, "only windows that count have no time"
        return Delays(key, window.start_time, *accumulator)


def decode(line: bytes) -> Flight | None:
    """A flight; None for one that was cancelled, which never left."""
    fields = line.decode().split(",")
    if fields[DELAY] == "NA":
        return None
    due = datetime.fromisoformat(fields[HOUR]) + timedelta(minutes=int(fields[MINUTE]))
    return Flight(due, fields[CARRIER], fields[AIRPORT], int(fields[DELAY]))


def write(delays: Delays) -> bytes:
    """A line."""
    return f"{delays.start:%Y-%m-%dT%H:%M},{delays.of},{delays.flights},{delays.minutes},{delays.mean:.1f}".encode()


def worst(airport: str, delay: int, window: Window) -> str:
    """A line."""
    return f"{window.start_time:%Y-%m-%dT%H:%M},{airport},{delay}"


app = Pipeline("flights")
flights = app.source("flights/*", decode=decode).event_time(lambda flight: flight.due)
airports = flights.key_by(lambda flight: flight.airport, name="by-airport")
airlines = flights.key_by(lambda flight: flight.carrier, name="by-airline")

# Each flight counts, a late one in the oldest hour that is still open.
hours = airports.window(tumbling("1 hour"), delay="30 minutes", late=Late.PLACE_IN_OLDEST)
hours.aggregate(Summed(), name="hours").sink("airports", encode=write)

# Only flights that left within six hours after their day count.
days = airlines.window(tumbling("1 day"), delay="6 hours", late=Late.DROP).aggregate(Summed(), name="days")
days.sink("airlines", encode=write)
days.filter(lambda day: day.mean >= BAD_DAY).sink("bad_days", encode=write)

# A flight that is too late for all its windows is told of at once, by itself.
recent = airports.window(sliding("3 hours", every="1 hour"), delay="30 minutes", late=Late.FIRE)
recent.aggregate(maximum(lambda flight: flight.delay), output=worst, name="worst").sink("worst")
