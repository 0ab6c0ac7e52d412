"""Alerts from temperature sensors: on one reading, on the trend of a device, and on the mean of its minute."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from headrace.pipelines import OnError, Pipeline, Window, tumbling

TOO_HOT = 95.0
"""The limit of a single reading, in degrees Celsius."""
HOT_MINUTE = 80.0
"""The limit of a minute's mean, in degrees Celsius."""
RISES = 4
"""The number of consecutive rises that make a trend."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A measurement of a device."""

    time: datetime
    device: str
    celsius: float


@dataclass(slots=True)
class Trend:
    """The state of a device."""

    last: float | None = None
    rises: int = 0


def decode(line: bytes) -> Reading:
    """Parses a line such as `2024-05-01T12:00:00Z,boiler-1,71.3`."""
    time, device, celsius = line.decode().split(",")
    return Reading(datetime.fromisoformat(time), device, float(celsius))


def too_hot(reading: Reading) -> str | None:
    """Stateless: a single reading is sufficient."""
    return f"{reading.device} is too hot: {reading.celsius:.1f} C" if reading.celsius >= TOO_HOT else None


def rising(reading: Reading, trend: Trend) -> str | None:
    """Stateful: needs the device's earlier readings."""
    rises = trend.last is not None and reading.celsius > trend.last
    trend.last = reading.celsius
    trend.rises = trend.rises + 1 if rises else 0
    return f"{reading.device} rises: {reading.celsius:.1f} C" if trend.rises == RISES else None


def hot_minute(device: str, celsius: Sequence[float], window: Window | None) -> str | None:
    """Windowed: needs all readings of a device within a minute."""
    assert window is not None, "only windows that count have no time"
    mean = fmean(celsius)
    return f"{device} had a hot minute: {mean:.1f} C at {window.start_time:%H:%M}" if mean >= HOT_MINUTE else None


app = Pipeline("alerts", dead_letters="unreadable")
readings = app.source("sensors/*", decode=decode, on_error=OnError.DEAD_LETTER)
devices = readings.event_time(lambda reading: reading.time).key_by(lambda reading: reading.device)
minutes = devices.map(lambda reading: reading.celsius).window(tumbling("1 minute"), delay="30 seconds")

readings.map(too_hot).sink("alerts")
devices.stateful(rising, Trend, name="trends").sink("alerts")
minutes.collect(hot_minute, name="minutes").sink("alerts")
