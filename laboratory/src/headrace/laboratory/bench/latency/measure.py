"""The latency of single messages from a connector through a query into the files of a sink."""

import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pyspark.sql.streaming.query import StreamingQuery

from headrace.laboratory.bench.latency.observer import observer
from headrace.laboratory.bench.output import LINE_BYTES, Output, Sightings
from headrace.laboratory.bench.rig import KEYED_SOURCES, Restartable, connector, gateway, sink_command

KEYS = 350
_LATE_S = 180.0
"""How long after its due time the last message may be visible, in seconds. A query that is too slow needs more time."""

Query = Callable[[str, Path], AbstractContextManager[StreamingQuery]]
"""Writes the streams `stamps/*` of the gateway at an address to its sink `bench`, with the checkpoint in a folder."""


SinkCommand = Callable[[str, Path], list[str]]
"""Returns the command of a sink that writes lines to the files of a folder, for the gateway at an address."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How messages are sent.

    Attributes:
        rate: Messages per second.
        warm_s: Seconds at this rate that do not count.
        seconds: Seconds that count.
    """

    rate: int
    warm_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Latencies:
    """The times of all messages that count, in seconds, sorted.

    Attributes:
        visible: From when each was due until it could be read in the sink's file.
        acknowledged: From when each was due until its source knew that it was acknowledged.
    """

    visible: Sequence[float]
    acknowledged: Sequence[float]


def latencies(query: Query, pace: Pace, sink: SinkCommand = sink_command) -> Latencies:
    """Sends messages with KEYS different keys through a query. Each key is there before the first message is due.

    Args:
        query: The query.
        pace: How messages are sent.
        sink: Returns the command of the sink.

    Raises:
        RuntimeError: The sink's file does not have every message once, or some were not acknowledged.
    """
    duration = pace.warm_s + pace.seconds
    messages = KEYS + int(pace.rate * duration)
    with tempfile.TemporaryDirectory() as name, gateway() as running:
        folder, address = Path(name), running.address
        with (
            Restartable(sink(address, folder / "out")),
            query(address, folder) as started,
            observer(folder / "out", messages, duration + _LATE_S, folder / "seen.npy") as watching,
            connector(address, "stamps", module=KEYED_SOURCES, keys=KEYS, rate=pace.rate, seconds=duration) as source,
        ):
            seen = watching.sightings(started)
            sent = source.result(timeout_s=60)
        found = Output(folder / "out").size() // LINE_BYTES
    if found != messages:
        raise RuntimeError(f"{messages} messages were sent, and {found} are visible")
    if (told := sent["acknowledged"][-1][1]) != messages:
        raise RuntimeError(f"{messages} messages were sent, and {told} were acknowledged")
    warming = int(pace.rate * pace.warm_s)
    # Between two messages, since stamps are rounded.
    visible = until_visible(seen, sent["begun"] + (warming + 0.5) / pace.rate)
    acknowledged = until_acknowledged(sent["acknowledged"], sent["begun"], pace.rate)[warming:]
    return Latencies(sorted(visible.tolist()), sorted(acknowledged.tolist()))


def until_visible(seen: Sightings, begin: float) -> npt.NDArray[np.float64]:
    """Returns the latencies of the messages that were due after a moment, in seconds."""
    stamps, moments = seen[:, 0], seen[:, 1]
    counted: npt.NDArray[np.float64] = (moments - stamps)[stamps > begin]
    return counted


def until_acknowledged(moments: Sequence[tuple[float, int]], begun: float, rate: float) -> npt.NDArray[np.float64]:
    """Returns the latency of each message at the steady rate, in seconds.

    Args:
        moments: When how many messages were acknowledged, including the KEYS messages before the steady rate.
        begun: When the steady rate began.
        rate: Messages per second.
    """
    times, counts = np.array(moments).T
    last = int(counts[-1]) - KEYS
    numbers = np.arange(1, last + 1)
    latencies: npt.NDArray[np.float64] = times[np.searchsorted(counts, numbers + KEYS)] - (begun + numbers / rate)
    return latencies
