"""`headrace bench profile`: the processor time of each part of a message's way, in microseconds for each message and frame."""

import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import headrace.engine.spark
from headrace.laboratory.bench.figures import Figure, Progress
from headrace.laboratory.bench.parts import Part, Say, run_parts
from headrace.laboratory.bench.pipelines.apps import MARKET_SPREAD
from headrace.laboratory.bench.pipelines.queries import running as running_application
from headrace.laboratory.bench.profile.flame import svg
from headrace.laboratory.bench.profile.jvm import Interval, jvm, watching
from headrace.laboratory.bench.profile.parts import PROFILER, seconds_by_part, seconds_by_stack
from headrace.laboratory.bench.profile.process import MODULE
from headrace.laboratory.bench.profile.sampler import FOLDER, sampling
from headrace.laboratory.bench.queries import headrace as source_of
from headrace.laboratory.bench.rig import (
    KEYED_SOURCES,
    SOURCES,
    Restartable,
    connector,
    gateway,
    sink_command,
    wait_for,
    wrapped,
)
from headrace.laboratory.bench.sink import Query, nowhere, to_headrace, to_spark_files
from headrace.terminal.tables import FittingTable, plain_table

_MAX_S = 600.0
_PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


@dataclass(frozen=True, slots=True)
class Case:
    """A run to profile.

    Attributes:
        what: Its description.
        messages: How many messages are sent, in a whole run and in a quick one.
        options: Options of the connector.
        into: Runs the query that reads the messages of a gateway, with a folder for its files.
        source: The kind and the module of the connector.
    """

    what: str
    messages: tuple[int, int]
    options: Mapping[str, int]
    into: "Into"
    source: tuple[str, str] = ("fast", SOURCES)


Into = Callable[[SparkSession, str, Path], AbstractContextManager[StreamingQuery]]


def _plain(query: Query) -> Into:
    """Returns a query of values alone."""
    return lambda spark, address, folder: query(source_of(spark, address), address, folder)


@contextmanager
def _market_spread(spark: SparkSession, address: str, folder: Path) -> Iterator[StreamingQuery]:
    with (
        Restartable(sink_command(address, folder / "out", "length-prefixed")),
        running_application(MARKET_SPREAD.pipeline(), spark, address, folder) as query,
    ):
        yield query


CASES = {
    "large_frames": Case("frames of 10,000 messages, noop sink", (16_000_000, 2_000_000), {"batch": 10_000}, _plain(nowhere)),
    "small_frames": Case("frames of 10 messages, noop sink", (1_200_000, 400_000), {"batch": 10, "frame": 10}, _plain(nowhere)),
    "file_sink": Case("two-phase file sink", (8_000_000, 2_000_000), {}, _plain(to_headrace)),
    "spark_files": Case("Spark's own file sink", (8_000_000, 2_000_000), {}, _plain(to_spark_files)),
    "application": Case(
        "Market Spread, two-phase file sink", (8_000_000, 1_000_000), {}, _market_spread, ("market", KEYED_SOURCES)
    ),
}
"""What is profiled, by name."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The processor time of one run, after the first quarter of its messages."""

    messages: int
    frames: float
    intervals: Sequence[Interval]
    begun: float
    ended: float

    @property
    def seconds(self) -> Mapping[str, float]:
        """The processor time by part, without the profiler's own."""
        return {part: seconds for part, seconds in seconds_by_part(self.intervals).items() if part != PROFILER}

    @property
    def of_profiler(self) -> float:
        """The profiler's own share of all processor time."""
        seconds = seconds_by_part(self.intervals)
        return seconds.get(PROFILER, 0.0) / sum(seconds.values())


def run(parts: Sequence[str], quick: bool, say: Progress, *, flame: Path | None = None) -> tuple[list[Figure], dict[str, Any]]:
    """Profiles the named cases in one session. Returns their figures and the conditions, in which `profile` has each part.

    Args:
        parts: The names of the cases.
        quick: Whether short runs are enough.
        say: Takes the progress.
        flame: A folder for a flame graph of each case; None for none.
    """
    found = dict[str, Any]()
    with tempfile.TemporaryDirectory() as name, _sampled(Path(name)):
        known: dict[str, Part] = {case: partial(_case, case, Path(name), found, flame) for case in CASES}
        figures, conditions = run_parts(known, parts, quick, say, profile=found)
    return figures, conditions


@contextmanager
def _sampled(folder: Path) -> Iterator[None]:
    """Lets every process that starts in the block sample itself, Spark's processes too."""
    inner, outer = folder / "sampled", folder / "python"
    inner.write_text(f'#!/bin/sh\nexec {sys.executable} -m {MODULE} "$@"\n')
    quick = Path(headrace.engine.spark.__file__).with_name("worker_python.sh")
    outer.write_text(f'#!/bin/sh\nHEADRACE_WORKER_PYTHON={inner} exec {quick} "$@"\n')
    for script in (inner, outer):
        script.chmod(stat.S_IRWXU)
    (folder / "samples").mkdir()
    before = {name: os.environ.get(name) for name in (*_PYTHONS, FOLDER)}
    os.environ |= {**dict.fromkeys(_PYTHONS, str(outer)), FOLDER: str(folder / "samples")}
    try:
        with wrapped("-m", MODULE):
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _case(
    name: str, folder: Path, found: dict[str, Any], flame: Path | None, spark: SparkSession, say: Say, quick: bool
) -> Iterator[Figure]:
    """Profiles one case, once to warm up and twice for its figures: the second of these shows what the first is worth."""
    case = CASES[name]
    whole, short = case.messages
    _profile(spark, case, folder, short)
    profiles = [_profile(spark, case, folder, short if quick else whole) for _ in range(2)]
    rows = list(_rows(profiles))
    of_messages, again = (sum(p.seconds.values()) * 1e6 / p.messages for p in profiles)
    first = profiles[0]
    rate = first.messages / (first.ended - first.begun)
    say(f"  {case.what}: {of_messages:.2f} and {again:.2f} us of processor time a message, {rate:,.0f} messages/s while sampled")
    found[name] = {
        "what": case.what,
        "messages": first.messages,
        "messages_of_a_frame": round(first.messages / first.frames, 1),
        "us_per_message": round(of_messages, 4),
        "again": round(again, 4),
        "profiler": round(first.of_profiler, 4),
        "parts": rows,
    }
    if flame is not None:
        flame.mkdir(exist_ok=True)
        per, unit = (first.frames, "frame") if name == "small_frames" else (float(first.messages), "message")
        (flame / f"{name}.svg").write_text(svg(f"Processor time: {case.what}", seconds_by_stack(first.intervals), per, unit))
        say(f"  {flame / name}.svg")
    yield Figure(f"{name}_us", of_messages, "us/message", again)
    for row in rows:
        yield Figure(f"{name}: {row['part']}", row["us_per_message"], "us/message", row["again"])


def _rows(profiles: Sequence[Profile]) -> Iterator[dict[str, Any]]:
    """Yields each part with its processor time in two runs of the same."""
    first, second = profiles
    whole = sum(first.seconds.values())
    for part, seconds in first.seconds.items():
        yield {
            "part": part,
            "us_per_message": round(seconds * 1e6 / first.messages, 4),
            "us_per_frame": round(seconds * 1e6 / first.frames, 2),
            "share": round(seconds / whole, 4),
            "again": round(second.seconds.get(part, 0.0) * 1e6 / second.messages, 4),
        }


def _profile(spark: SparkSession, case: Case, folder: Path, messages: int) -> Profile:
    samples = folder / "samples"
    for file in samples.iterdir():
        file.unlink(missing_ok=True)
    with (
        tempfile.TemporaryDirectory() as name,
        gateway() as running,
        sampling("driver"),
        watching(jvm()) as of_jvm,
    ):
        kind, module = case.source
        with (
            case.into(spark, running.address, Path(name)) as query,
            connector(running.address, kind, module=module, messages=messages, **case.options) as source,
        ):
            moments = source.result(_MAX_S, query)["acknowledged"]
        told = running.status().gateway
        of_frame = told.received_messages / told.received_frames
        begin = next(moment for moment in moments if moment[1] >= moments[-1][1] // 4)
        end = moments[-1]
        # The last samples are written within half a second.
        wait_for("the last samples", lambda: all(_last(file) >= end[0] for file in _alive(samples, running.process.pid)), 60)
    read = [interval for file in samples.iterdir() for interval in _intervals(file)]
    inside = [one for one in (*read, *of_jvm) if begin[0] < one.at <= end[0]]
    sent = end[1] - begin[1]
    return Profile(sent, sent / of_frame, inside, begin[0], end[0])


def _alive(samples: Path, gateway_pid: int) -> list[Path]:
    return [samples / f"{pid}.jsonl" for pid in (os.getpid(), gateway_pid)]


def _last(file: Path) -> float:
    return max((interval.at for interval in _intervals(file)), default=0.0)


def _intervals(file: Path) -> Iterator[Interval]:
    """Reads what a process has written. Of one that was killed, the last line may lack its end."""
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            read = json.loads(line)
        except json.JSONDecodeError:
            continue
        yield Interval(read["at"], read["role"], read["stacks"])


def tables(profile: dict[str, Any]) -> list[FittingTable]:
    """Returns a table of the parts of each case, with what the same run measured again."""
    drawn = []
    for name, case in profile.items():
        title = f"{name}: {case['what']}; {case['profiler']:.0%} beside it for the profiler itself"
        rows = plain_table("part", "#us/message", "#again", "#us/frame", "#share", title=title, title_justify="left")
        for part in case["parts"]:
            us, again, of_frame = part["us_per_message"], part["again"], part["us_per_frame"]
            rows.add_row(part["part"], f"{us:.3f}", f"{again:.3f}", f"{of_frame:,.1f}", f"{part['share']:.1%}")
        of_frame = case["us_per_message"] * case["messages_of_a_frame"]
        rows.add_row("all", f"{case['us_per_message']:.3f}", f"{case['again']:.3f}", f"{of_frame:,.1f}", "")
        drawn.append(rows)
    return drawn
