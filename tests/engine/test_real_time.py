"""Real-time mode on one Spark: the same results, states that both modes continue, and errors that end the query."""

import json as standard
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.engine.backlog import sums_of_tens
from tests.engine.levels import two_levels
from tests.examples.rig import records, rig

from headrace.connectors import FileSink, FileSource, SinkFormat
from headrace.engine import OptionError, start
from headrace.engine.applications.batches.commits import LOOKS_EVERY_S
from headrace.pipelines import Message as SentMessage
from headrace.pipelines import OnError, Pipeline, Trial
from headrace.pipelines.formats import Contract, json
from headrace.sdk import GONE, WRITTEN, Batch, Message, Outcomes, Position, Refused, Rows, Settings, Sink, Source, SourceKind

OURS = ("headrace-real-time", "headrace-following", "headrace-planner", "headrace-sink")
DEADLINE_S = 150.0
QUICK = {"real_time": True, "trigger_interval": "200ms"}


def numbers(folder: Path) -> Path:
    """A new file of numbers."""
    file = folder / "n" / "0"
    file.parent.mkdir(exist_ok=True)
    return file


def test_both_modes_continue_from_each_others_states(spark: SparkSession, tmp_path: Path) -> None:
    file = numbers(tmp_path)
    results: list[bytes] = []
    for workers in (1, 2, 0, 2):
        with file.open("a") as lines:
            lines.writelines(f"{n}\n" for n in range(20))
        with rig(spark, tmp_path) as running:
            words = {**QUICK, "real_time_workers": workers} if workers else {"available_now": True}
            results += running.run(two_levels(), FileSource("n", [file], follow=False), **words)["out"]
    assert sorted(results) == sorted(f"{key}:{seen}:{seen}".encode() for key in range(5) for seen in range(1, 17))


class Told(Sink):
    """Writes at least once, and refuses odd numbers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.values: list[bytes] = []

    def write(self, rows: Rows) -> Outcomes:
        values = [message.value or b"" for message in rows.messages()]
        self.values += [value for value in values if not int(value) % 2]
        return [Refused("odd") if int(value) % 2 else WRITTEN for value in values]


def test_what_an_at_least_once_sink_refuses_is_a_dead_letter_once_it_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    app = Pipeline("real-time-told")
    app.source("n/*", decode=int).map(str).sink("told")
    file = numbers(tmp_path)
    file.write_text("".join(f"{n}\n" for n in range(40)))
    told, dead = Told("told"), FileSink("dead", tmp_path / "dead", SinkFormat.LENGTH_PREFIXED)
    with rig(spark, tmp_path) as running:
        source = FileSource("n", [file], follow=False)
        running.run(app, source, sinks={"told": told, "dead": dead}, options={"deadLetters": "dead"}, **QUICK)
    assert told.values == [b"%d" % n for n in range(0, 40, 2)]
    assert records(tmp_path / "dead") == [b"%d" % n for n in range(1, 40, 2)]


@dataclass
class Order:
    id: int
    note: str | None = None


def orders(name: str) -> Pipeline:
    """An application with two contracts, which shuffles what one of them permits."""
    app = Pipeline(name, on_error=OnError.DEAD_LETTER, dead_letters="dead")
    contract = {"n/0": Contract("evolve", {"note": "discard"}), "n/1": Contract("freeze")}
    source = app.source("n/*", decode=json(Order), contract=contract, name="orders")
    source.key_by(lambda order: order.id).map(lambda order: f"{order.id} {order.note}").sink("out")
    return app


@pytest.mark.parametrize("workers", [1, 2])
def test_contracts_decide_and_count_in_real_time_as_in_a_trial(spark: SparkSession, tmp_path: Path, workers: int) -> None:
    app, trial = orders("real-time-contract"), Trial(orders("trial"))
    documents: list[dict[str, Any]] = [{"id": 1}, {"id": 2, "new": 1}, {"id": 3, "note": 4}, {"id": "x"}, {"id": 5, "note": "n"}]
    lines = [standard.dumps(document).encode() for document in documents * 20]
    for partition in ("0", "1"):
        (numbers(tmp_path).parent / partition).write_bytes(b"\n".join(lines) + b"\n")
        trial.send(*(SentMessage(line, stream=f"n/{partition}") for line in lines))
    with rig(spark, tmp_path) as running:
        source = FileSource("n", [numbers(tmp_path), numbers(tmp_path).parent / "1"], follow=False)
        found = running.run(app, source, real_time_workers=workers, **QUICK)
        observed = [each["observedMetrics"].get("headrace") for each in running.query.recentProgress]
    assert sorted(found["out"]) == sorted(trial.values("out"))
    assert len(found["dead"]) == len(trial.failed) == 20 + 60
    counts = Counter[str]()
    for row in filter(None, observed):
        counts.update(row.asDict())
    expected = {f"{what}:{step}": count for (what, step), count in trial.counts.items() if count}
    assert expected == {
        "further:orders n/0": 20,
        "discarded:orders n/0": 20,
        "violated:orders n/0": 20,
        "violated:orders n/1": 60,
    }
    assert +counts == expected


class Slow(Told):
    """Writes its rows later than others do."""

    def write(self, rows: Rows) -> None:
        time.sleep(10 * LOOKS_EVERY_S)
        self.values += [message.value or b"" for message in rows.messages()]


class InParts(Source):
    """Numbers in parts of ten; each part once a sink has all before it."""

    name = "n"

    def __init__(self, parts: int, sink: Told) -> None:
        self._last, self._sink = 10 * parts, sink

    def partitions(self) -> list[str]:
        return ["0"]

    def read(self, partition: str, position: Position | None):  # type: ignore[no-untyped-def]
        number = 0 if position is None else position.sequence
        while number < self._last:
            if number % 10 == 0 and len(self._sink.values) < number:
                yield None
                continue
            number += 1
            yield Message(b"%d" % number, sequence=number)


def test_dead_letters_of_one_sink_wait_for_the_results_of_another(spark: SparkSession, tmp_path: Path) -> None:
    app = Pipeline("real-time-two-told")
    texts = app.source("n/*", decode=int).map(str)
    texts.sink("refusing")
    texts.sink("slow")
    refusing, slow = Told("refusing"), Slow("slow")
    sinks = {"refusing": refusing, "slow": slow, "dead": FileSink("dead", tmp_path / "dead", SinkFormat.LENGTH_PREFIXED)}
    with rig(spark, tmp_path) as running:
        running.run(app, InParts(4, slow), sinks=sinks, options={"deadLetters": "dead"}, **QUICK)
    assert sorted(map(int, slow.values)) == list(range(1, 41))
    assert records(tmp_path / "dead") == [b"%d" % n for n in range(1, 41, 2)]


def test_windows_close_when_their_stream_ends(spark: SparkSession, tmp_path: Path) -> None:
    file = numbers(tmp_path)
    file.write_text("".join(f"{n}\n" for n in range(25)))
    with rig(spark, tmp_path) as running:
        source = FileSource("n", [file], follow=False)
        found = running.run(sums_of_tens(), source, until=lambda folder: len(records(folder / "out")) == 3, finish=True, **QUICK)[
            "out"
        ]
    assert found == [b"0:45", b"10:145", b"20:110"]


def test_a_function_that_raises_ends_the_query_with_its_step_and_sequence(spark: SparkSession, tmp_path: Path) -> None:
    app = Pipeline("real-time-raises")
    app.source("n/*", decode=int).map(lambda n: 1 // (n - 7), name="divide").map(str).sink("out")
    file = numbers(tmp_path)
    with rig(spark, tmp_path) as running:
        file.write_text("1\n")
        running.run(app, FileSource("n", [file], follow=False), **QUICK)
        with file.open("a") as lines:
            lines.write("7\n")
        with pytest.raises(StreamingQueryException, match=r"step divide, stream n/0, sequence .*: ZeroDivisionError"):
            running.run(app, FileSource("n", [file], follow=False), **QUICK)


class Redelivering(Source):
    """Cannot send the same messages again."""

    name = "n"
    kind = SourceKind.REDELIVERING

    def partitions(self) -> list[str]:
        return ["0"]

    def read(self, partition: str, position: Position | None):  # type: ignore[no-untyped-def]
        yield Batch([b"1"])
        while True:
            yield None

    def acknowledged(self, partition: str, position: Position) -> None:
        pass


def test_a_redelivering_source_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    app = Pipeline("real-time-queue")
    app.source("n/*", decode=int).map(str).sink("out")
    with rig(spark, tmp_path) as running, pytest.raises(StreamingQueryException, match="real-time mode needs replayable sources"):
        running.run(app, Redelivering(), **QUICK)


def test_a_bounded_run_is_refused_before_anything_is_written(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="available_now and real_time cannot be combined"):
        start(two_levels(), spark, tmp_path / "checkpoint", available_now=True, real_time=True)
    assert not (tmp_path / "checkpoint").exists()


class Days(Source):
    """Three messages for each day; the name of the first one is used again, for other messages."""

    name = "days"

    def __init__(self) -> None:
        self.read_from: list[tuple[str, Position | None]] = []
        self._acknowledged: list[str] = []
        self._is_listed = False

    def partitions(self) -> list[str]:
        if len(self._acknowledged) < 2:
            return ["2"] if self._acknowledged else ["1"]
        # A partition that is gone is forgotten at the first listing without it.
        self._is_listed = len(self.read_from) == 3 or not self._is_listed
        return ["1"] if self._is_listed else []

    def acknowledged(self, partition: str, position: Position) -> None:
        if position.sequence == 3:
            self._acknowledged.append(partition)

    def read(self, partition: str, position: Position | None):  # type: ignore[no-untyped-def]
        self.read_from.append((partition, position))
        first = {"1": 0, "2": 10}[partition] + 100 * sum(name == partition for name, _ in self.read_from)
        for number in range(3):
            yield Message(b"%d" % (first + number), sequence=number + 1)
        yield GONE


class Counted(Told):
    """Knows when it has `count` rows."""

    def __init__(self, name: str, expected: int) -> None:
        super().__init__(name)
        self._expected, self._complete = expected, threading.Event()

    def write(self, rows: Rows) -> None:
        self.values += [message.value or b"" for message in rows.messages()]
        if len(self.values) >= self._expected:
            self._complete.set()

    def stop_then(self, spark: SparkSession) -> threading.Thread:
        """Stops the query once it has them, or after the deadline."""

        def stop() -> None:
            self._complete.wait(DEADLINE_S)
            for query in spark.streams.active:
                query.stop()

        thread = threading.Thread(target=stop)
        thread.start()
        return thread


def test_a_stream_whose_name_is_used_again_is_read_from_its_first_message(spark: SparkSession, tmp_path: Path) -> None:
    app = Pipeline("real-time-days")
    app.source("days/*", decode=int).map(str).sink("told")
    days, told = Days(), Counted("told", 9)
    with rig(spark, tmp_path) as running:
        running.settings = Settings(partition_poll_seconds=0.05)
        stopping = told.stop_then(spark)
        running.run(app, days, sinks={"told": told}, **QUICK)
        stopping.join()
    assert [*map(int, told.values)] == [100, 101, 102, 110, 111, 112, 200, 201, 202]
    assert days.read_from == [("1", None), ("2", None), ("1", None)]


class Hanging(Told):
    """Writes nothing until it may, and tells that it was asked to, and whether nobody ever allowed it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.asked, self.may = threading.Event(), threading.Event()
        self.gave_up = False

    def write(self, rows: Rows) -> Outcomes:
        self.asked.set()
        self.gave_up = not self.may.wait(DEADLINE_S)
        return super().write(rows)


def test_a_query_stops_although_a_sink_hangs(spark: SparkSession, tmp_path: Path) -> None:
    app = Pipeline("real-time-hangs")
    app.source("n/*", decode=int).map(str).sink("told")
    file, told = numbers(tmp_path), Hanging("told")
    file.write_text("2\n")
    hung: list[bool] = []

    def stop() -> None:
        told.asked.wait(DEADLINE_S)
        told.may.set()
        told.may.clear()
        told.asked.clear()
        with file.open("a") as lines:
            lines.write("4\n")
        told.asked.wait(DEADLINE_S)
        (query,) = spark.streams.active
        query.stop()
        hung.append(not told.gave_up)
        told.may.set()

    stopping = threading.Thread(target=stop)
    with rig(spark, tmp_path) as running:
        stopping.start()
        running.run(app, FileSource("n", [file]), sinks={"told": told}, **QUICK)
        stopping.join()
    assert hung == [True]


def folders() -> set[Path]:
    return set(Path("/tmp").glob("headrace-real-time-*"))


def test_a_query_that_ends_leaves_no_thread_and_no_folder(spark: SparkSession, tmp_path: Path) -> None:
    file, before = numbers(tmp_path), folders()
    file.write_text("1\n2\n")
    with rig(spark, tmp_path) as running:
        running.run(two_levels(), FileSource("n", [file], follow=False), **QUICK)
    # Spark tells of the end of a query later, from another thread.
    deadline = time.monotonic() + DEADLINE_S
    while (left := [each.name for each in threading.enumerate() if each.name.startswith(OURS)]) or folders() - before:
        assert time.monotonic() < deadline, (left, folders() - before)
