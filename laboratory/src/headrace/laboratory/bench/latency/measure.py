"""The latency of single messages from a connector through a query into the files of a sink."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pyspark.sql.streaming.query import StreamingQuery

from headrace.laboratory.bench.latency.hops import noted
from headrace.laboratory.bench.latency.observer import observer
from headrace.laboratory.bench.output import LINE_BYTES, Output, Sightings
from headrace.laboratory.bench.rig import KEYED_SOURCES, Restartable, connector, gateway, sink_command
from headrace.laboratory.bench.schedule import Schedule

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
        window_s: Seconds at this rate that count.
        burst: Whether there is a burst in the middle of them.
    """

    rate: int
    warm_s: float
    window_s: float
    burst: bool = False

    @property
    def schedule(self) -> Schedule:
        """When the messages are due."""
        return Schedule(self.rate, self.warm_s + self.window_s, self.warm_s + self.window_s / 2 if self.burst else None)


@dataclass(frozen=True, slots=True)
class Latencies:
    """The times of all messages that count, in seconds, sorted.

    Attributes:
        visible: From when each was due until it could be read in the sink's file.
        acknowledged: From when each was due until its source knew that it was acknowledged.
        due: When each was due, in seconds after the first message was; in the order in which they were visible.
        took: The times of `visible`, in this order.
        hops: The time of each hop, by its name, if they were noted.
        processor_us: The processor time of each process for a message, in microseconds, by its role, if it was noted.
    """

    visible: Sequence[float]
    acknowledged: Sequence[float]
    due: npt.NDArray[np.float64]
    took: npt.NDArray[np.float64]
    hops: Mapping[str, Sequence[float]]
    processor_us: Mapping[str, float]


def latencies(query: Query, pace: Pace, sink: SinkCommand = sink_command, *, noting: bool = False) -> Latencies:
    """Sends messages with KEYS different keys through a query. Each key is there before the first message is due.

    Args:
        query: The query.
        pace: How messages are sent.
        sink: Returns the command of the sink.
        noting: Whether all processes note the hops of messages.

    Raises:
        RuntimeError: The sink's file does not have every message once, or some were not acknowledged.
    """
    schedule = pace.schedule
    messages = KEYS + schedule.total
    burst = {} if schedule.burst_at is None else {"burst-at": schedule.burst_at}
    with tempfile.TemporaryDirectory() as name, noted() if noting else nullcontext() as notes:
        folder = Path(name)
        with (
            gateway() as running,
            Restartable(sink(running.address, folder / "out")),
            query(running.address, folder) as started,
            observer(folder / "out", messages, schedule.seconds + _LATE_S, folder / "seen.npy") as watching,
            connector(
                running.address, "stamps", module=KEYED_SOURCES, keys=KEYS, rate=pace.rate, seconds=schedule.seconds, **burst
            ) as source,
        ):
            seen = watching.sightings(started)
            sent = source.result(timeout_s=60)
        found = Output(folder / "out").size() // LINE_BYTES
        numbers = np.arange(int(pace.rate * pace.warm_s) + 1, schedule.total + 1)
        due = sent["begun"] + schedule.moments(numbers)
        seen_at = np.sort(seen[:, 1])[KEYS + numbers - 1] if found == messages else due
        hops = {} if notes is None else notes.seconds(due, seen_at, KEYS + numbers)
        processor_us = {} if notes is None else notes.processor_us(messages)
    if found != messages:
        raise RuntimeError(f"{messages} messages were sent, and {found} are visible")
    if (told := sent["acknowledged"][-1][1]) != messages:
        raise RuntimeError(f"{messages} messages were sent, and {told} were acknowledged")
    warming = int(pace.rate * pace.warm_s)
    # Between two messages, since stamps are rounded.
    begin = sent["begun"] + (warming + 0.5) / pace.rate
    visible = until_visible(seen, begin)
    acknowledged = until_acknowledged(sent["acknowledged"], sent["begun"], schedule)[warming:]
    stamps = seen[:, 0][seen[:, 0] > begin] - sent["begun"]
    return Latencies(sorted(visible.tolist()), sorted(acknowledged.tolist()), stamps, visible, hops, processor_us)


def until_visible(seen: Sightings, begin: float) -> npt.NDArray[np.float64]:
    """Returns the latencies of the messages that were due after a moment, in seconds."""
    stamps, moments = seen[:, 0], seen[:, 1]
    counted: npt.NDArray[np.float64] = (moments - stamps)[stamps > begin]
    return counted


def until_acknowledged(moments: Sequence[tuple[float, int]], begun: float, schedule: Schedule) -> npt.NDArray[np.float64]:
    """Returns the latency of each message at the steady rate, in seconds.

    Args:
        moments: When how many messages were acknowledged, including the KEYS messages before the steady rate.
        begun: When the steady rate began.
        schedule: When messages are due from then on.
    """
    times, counts = np.array(moments).T
    last = int(counts[-1]) - KEYS
    numbers = np.arange(1, last + 1)
    latencies: npt.NDArray[np.float64] = times[np.searchsorted(counts, numbers + KEYS)] - (begun + schedule.moments(numbers))
    return latencies
