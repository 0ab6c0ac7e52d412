"""The validator reports each fault that is planted in the product's processes, and nothing where none is."""

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.exactly_once import plants
from tests.gateway.sink_wire import SinkClient, part

from headrace.laboratory.chaos import IDEMPOTENT, TWO_PHASE, Finding, Role, World
from headrace.laboratory.chaos.evidence import JournalReader, VisibleRecords, committed
from headrace.laboratory.chaos.workload import PARTITIONS, TIMERS, WINDOWS, Row, sequence_of
from headrace.protocol.v1 import sink_pb2

OFFERED = 60

pytestmark = [pytest.mark.timeout(600), pytest.mark.in_turn(3, 6)]


class Garden:
    """A world in whose processes faults are planted, which do nothing until they are armed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "plants"
        for name in ("armed", "taken"):
            (self._folder / name).mkdir(parents=True)
        path = os.pathsep.join(filter(None, (str(Path(plants.__file__).with_suffix("")), os.environ.get("PYTHONPATH"))))
        self.world = World(folder / "world", environ={"PYTHONPATH": path, "HEADRACE_PLANTS": str(self._folder)}, instances=2)

    def arm(self, *names: str) -> None:
        """Has plants do what they do."""
        for name in names:
            (self._folder / "armed" / name).touch()

    def taken(self, name: str) -> bool:
        """Whether a plant that acts once has done so."""
        return (self._folder / "taken" / name).exists()

    def offer(self) -> None:
        """Has the senders send more, and waits until some of it is visible, with more to come."""
        visible = self.world.progress()
        self.world.offer(OFFERED)
        self.world.wait_for("some is visible", lambda: self.world.progress() > visible)

    def failures(self) -> list[str]:
        """Why queries have failed."""
        return [entry["error"] for entry in JournalReader(self.world.layout.failures).new()]

    def rows_of_the_last_batch(self) -> list[bytes]:
        """The visible messages of the two-phase sink's last batch."""
        shown = [record for folder in self.world.layout.outputs() for record in VisibleRecords(folder).new()]
        records = {record: Row.decode(record) for record in shown}
        messages = {record: row for record, row in records.items() if row.stream not in (WINDOWS, TIMERS)}
        last = max(row.batch for row in messages.values())
        return [record for record, row in messages.items() if row.batch == last]

    async def come_back(self, rows: Sequence[bytes]) -> str:
        """Plays an instance of the two-phase sink that has rows of an earlier run; obeys and returns its order."""
        checkpoint = self.world.layout.checkpoint(TWO_PHASE)
        query = json.loads((checkpoint / "metadata").read_text())["id"]
        left = part(Row.decode(rows[0]).batch, attempt="an-earlier-run/1", pipeline=query)
        sink = SinkClient(self.world.gateway)
        try:
            await sink.hello("one-that-was-away", TWO_PHASE, staged=[left], prepared=[left.transaction])
            told = str((await sink.receive()).WhichOneof("message"))
            if told == "commit":
                framed = b"".join(len(row).to_bytes(4, "big") + row for row in rows)
                folder = self.world.layout.output_of(3)
                folder.mkdir()
                (folder / "two-phase-000001.bin").write_bytes(framed)
                await sink.send(committed=sink_pb2.Committed(transaction=left.transaction))
            await sink.send(goodbye=sink_pb2.SinkGoodbye())
            await sink.ended()
            return told
        finally:
            await sink.close()

    def disarm(self, *names: str) -> None:
        """Has plants do nothing more."""
        for name in names:
            (self._folder / "armed" / name).unlink(missing_ok=True)

    def harvest(self, *names: str) -> None:
        """Waits until everything is visible and acknowledged, and disarms plants."""
        self.world.rest()
        self.disarm(*names)


class Report:
    """The validator's findings since the test began."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._before = set(world.verdict())

    def new(self) -> list[Finding]:
        """The findings that were not there before."""
        return [finding for finding in self._world.verdict() if finding not in self._before]

    def kinds(self) -> set[tuple[str, str]]:
        """The change, and its place."""
        return {(finding.what, finding.where) for finding in self.new()}

    def known(self) -> set[tuple[str, str]]:
        """What was there before: a state that has been wrong once continues to be wrong."""
        return {(finding.what, finding.where) for finding in self._before}


@pytest.fixture(scope="module")
def garden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Garden]:
    garden = Garden(tmp_path_factory.mktemp("planted"))
    try:
        garden.world.start()
        yield garden
    finally:
        garden.world.dispose()


@pytest.fixture
def report(garden: Garden) -> Report:
    return Report(garden.world)


def test_an_early_acknowledgement_is_reported(garden: Garden, report: Report) -> None:
    garden.arm(plants.ACK_EARLY)
    garden.offer()
    garden.harvest(plants.ACK_EARLY)
    kind = "acknowledged before it was committed"
    assert report.kinds() == {(kind, "replayable"), (kind, "redelivering")}


def test_a_commit_without_the_log_is_reported(garden: Garden, report: Report) -> None:
    garden.arm(plants.COMMIT_WITHOUT_LOG)
    garden.offer()
    garden.harvest()
    assert garden.taken(plants.COMMIT_WITHOUT_LOG)
    (finding,) = report.new()
    assert (finding.what, finding.where) == ("visible before it was committed", TWO_PHASE)


def test_a_batch_that_a_sink_writes_again_is_reported(garden: Garden, report: Report) -> None:
    garden.arm(plants.WRITE_AGAIN, plants.KILL_DRIVER)
    garden.world.offer(OFFERED)
    garden.world.wait_for("the driver dies", lambda: garden.world.ended(Role.DRIVER))
    garden.world.restart(Role.DRIVER)
    garden.harvest(plants.WRITE_AGAIN)
    assert report.kinds() == {("doubled", IDEMPOTENT)}


@pytest.mark.parametrize(("plant", "sink"), [(plants.DROP_UPDATE, IDEMPOTENT), (plants.DROP_DELTA, TWO_PHASE)])
def test_a_lost_update_of_the_state_is_reported(garden: Garden, report: Report, plant: str, sink: str) -> None:
    garden.arm(plant)
    garden.offer()
    garden.harvest()
    assert garden.taken(plant)
    garden.offer()
    garden.harvest()
    assert report.kinds() - report.known() == {("wrong state", sink)}


def test_messages_that_are_read_twice_are_reported(garden: Garden, report: Report) -> None:
    garden.arm(plants.READ_AGAIN)
    garden.offer()
    garden.harvest(plants.READ_AGAIN)
    doubled = {("doubled", TWO_PHASE), ("doubled", IDEMPOTENT)}
    assert doubled <= report.kinds() <= doubled | {("wrong state", TWO_PHASE), ("wrong state", IDEMPOTENT)}


@pytest.mark.parametrize("planted", [False, True], ids=["as it should be", "planted"])
def test_a_leftover_of_a_run_whose_batch_another_one_committed_is_reported_once_it_is_visible(
    garden: Garden, report: Report, planted: bool
) -> None:
    """An instance of the two-phase sink comes back with a part of the last batch that it prepared for an earlier run."""
    garden.offer()
    garden.harvest()
    if planted:
        garden.arm(plants.BELIEVE_ANY_RUN)
    rows = garden.rows_of_the_last_batch()
    told = asyncio.run(garden.come_back(rows))
    garden.harvest(plants.BELIEVE_ANY_RUN)
    assert told == ("commit" if planted else "abort")
    doubled = {finding.name for finding in report.new() if (finding.what, finding.where) == ("doubled", TWO_PHASE)}
    assert doubled == ({Row.decode(row).name for row in rows} if planted else set())
    assert planted or report.kinds() <= report.known()


def test_parts_of_a_transaction_that_are_spread_over_instances_are_reported(garden: Garden, report: Report) -> None:
    """The messages that it loses never become visible, and so the world never rests again."""
    garden.arm(plants.SPREAD_PARTS)
    garden.world.offer(OFFERED)
    garden.world.wait_for("everything is acknowledged", garden.world.is_acknowledged)
    garden.disarm(plants.SPREAD_PARTS)
    lost = ("lost", IDEMPOTENT)
    # What follows a lost row of the queue in its key does not follow from what is there.
    assert {lost} <= report.kinds() - report.known() <= {lost, ("wrong state", IDEMPOTENT)}


def test_a_start_that_is_found_out_anew_is_reported(garden: Garden, report: Report) -> None:
    """The messages that it loses never become visible, and so the world never rests again."""
    garden.world.kill(Role.REPLAYABLE)
    garden.arm(plants.BEGIN_ANEW)
    garden.world.offer(OFFERED)
    garden.world.restart(Role.REPLAYABLE)
    begun = [f"{plants.BEGIN_ANEW} {partition}" for partition in PARTITIONS]
    garden.world.wait_for("all logs are read from their ends", lambda: all(map(garden.taken, begun)))
    garden.world.offer(OFFERED)
    last = str(sequence_of(garden.world.offered))
    found: list[Finding] = []

    def the_rest_is_visible() -> bool:
        found[:] = [finding for finding in report.new() if finding.what == "lost" and finding.stream.startswith("replayable/")]
        return not any(finding.name == last for finding in found)

    garden.world.wait_for("what came later is visible", the_rest_is_visible)
    streams = {f"replayable/{partition}" for partition in PARTITIONS}
    assert {(finding.where, finding.stream) for finding in found} == {
        (sink, stream) for sink in (TWO_PHASE, IDEMPOTENT) for stream in streams
    }


def test_a_commit_report_of_an_older_run_is_found(garden: Garden, report: Report) -> None:
    """The last test here: what is lost makes the product stop the query, too."""
    # The next batch that is voted for is one of what is offered now, and has messages of the source that is looked at below.
    garden.world.wait_for("everything is acknowledged", garden.world.is_acknowledged)
    garden.world.kill(Role.REDELIVERING)
    garden.arm(plants.BELIEVE_OLDER_RUN)
    garden.world.offer(OFFERED)
    garden.world.wait_for("the commit report is believed", lambda: garden.taken(plants.BELIEVE_OLDER_RUN))
    garden.world.wait_for("the query stops", lambda: any("has come back without it" in e for e in garden.failures()))
    in_log = committed(garden.world.layout.checkpoint(TWO_PHASE))
    lost = [f for f in report.new() if (f.what, f.where) == ("lost", TWO_PHASE) and f.stream.startswith("replayable/")]
    assert [f for f in lost if int(f.name) <= in_log[f.stream][1]], "what is in the commit log, and will never be visible"
