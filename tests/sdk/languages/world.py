"""A source in one language, a sink in another, a gateway and a query between them, and the judgement on what the sink shows."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.exactly_once.episodes import Death, Faults, play
from tests.faults.processes import Process
from tests.faults.rig import Driver, Rig
from tests.sdk.languages.programs import Command, Language

from headrace.laboratory.chaos.evidence import committed, last_commit
from headrace.laboratory.chaos.validator import ACKED_EARLY, VISIBLE_EARLY, Expected, Finding, check_replayable
from headrace.laboratory.chaos.workload import Content, Row, State, content

OFFERED = 150
"""Lines that are offered for each death: several batches, so that much is still to come when a process dies."""
BATCH = 60
LOOKS_EVERY_S = 0.2
DEADLINE_S = 300.0
"""Spark needs a minute to start on a machine that has much else to do."""
STREAM = "lines/0"
CONFIG = """
[limits]
session_messages = 200    # so that the source always has something left to send
"""


class SharedDriver:
    """The driver that all worlds share, with the file that tells fault points whom to kill."""

    def __init__(self, folder: Path) -> None:
        """Starts it."""
        self._pid_file = folder / "driver.pid"
        self.faults = Faults(folder / "faults", self._pid_file)
        self.process = Driver("driver", folder, "local[2,4]", self.faults.environ)
        self.start()

    def start(self) -> None:
        """Starts it, unless it runs."""
        if not self.process.alive:
            self.process.start()
            self._pid_file.write_text(str(self.process.pid))


class World:
    """The processes and files of one source and one sink."""

    def __init__(self, folder: Path, driver: SharedDriver, source: Command, sink: Command, shows: Language) -> None:
        """Makes the folder, and starts everything.

        Args:
            folder: A new one.
            driver: Who runs the query.
            source: The source's command, to which the file is appended.
            sink: The sink's command, to which its folder is appended.
            shows: The language of the sink.
        """
        self._shows = shows
        self._lines, self._output = folder / "lines" / "0", folder / "output"
        self._lines.parent.mkdir()
        self._output.mkdir()
        self._lines.touch()
        self._expected: list[tuple[str, Content, State]] = []
        self._states: dict[bytes, State] = {}
        self._early: set[Finding] = set()
        self._next_look = 0.0
        self._faults, self._driver = driver.faults, driver
        driver.start()
        self.rig = Rig(folder, CONFIG, driver.process, driver.faults.environ)
        self._processes: dict[str, Process] = {
            "source": self.rig.program("source", [*source, self._lines]),
            "sink": self.rig.program("sink", [*sink, self._output]),
            "gateway": self.rig.gateway,
            "driver": driver.process,
        }
        limits = {"maxMessagesPerTrigger": str(BATCH), "inlineBytes": "0"}
        self.query = self.rig.query(shows.sink_name, "follow", STREAM, limits)
        for role in ("gateway", "source", "sink"):
            self.restart(role)
        self.rig.run(self.query)

    # What happens to it

    def offer(self, lines: int = OFFERED) -> list[str]:
        """Appends lines to the source's file; returns their names."""
        with self._lines.open("ab") as file:
            for number in range(len(self._expected) + 1, len(self._expected) + lines + 1):
                sent = content(STREAM, number)
                line = sent.key + b" " + sent.value.hex().encode()
                file.write(line + b"\n")
                state = self._states[sent.key] = self._states.get(sent.key, State()).after(line)
                self._expected.append((str(file.tell()), Content(sent.key, line), state))
        return [name for name, _, _ in self._expected[-lines:]]

    def play(self, deaths: Sequence[Death]) -> None:
        """Has a process die at each point, each one during the recovery from the death before, and waits until all is well."""
        play(self, deaths)
        self.finish()

    def arm(self, death: Death) -> None:
        """Has the process of a role die when the point is reached."""
        process = self._processes[death.role]
        is_killed_by_another = death.role != death.point.role
        self._faults.arm(death.point, process.pid if is_killed_by_another else None)
        process.expected = False

    def wait_for_death(self, death: Death) -> None:
        """Waits until the process has died there."""
        self.wait_for(f"{death.name} is reached", lambda: self._faults.victim(death.point) is not None)
        process = self._processes[death.role]
        self.wait_for(f"{death.role} has died", lambda: not process.alive)
        assert self._faults.victim(death.point) == process.pid or death.role == "driver"

    def restart(self, role: str) -> None:
        """Starts a process that has died."""
        if role == "driver":
            self._driver.start()
        else:
            self._processes[role].start()

    def finish(self) -> None:
        """Waits until everything is visible and acknowledged, and judges it."""
        self.wait_for("everything is visible", lambda: len(self.visible()) >= len(self._expected))
        self.wait_for("everything is acknowledged", lambda: self._acknowledged() == self._lines.stat().st_size)
        self.wait_for("everything is decided", lambda: not self._undecided())
        assert [str(finding) for finding in self.verdict()] == []

    def wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        """Waits until a condition is true, and looks meanwhile whether anything is visible or acknowledged too early."""

        def holds() -> bool:
            if time.monotonic() >= self._next_look:
                self._look()
                self._next_look = time.monotonic() + LOOKS_EVERY_S
            assert (outcome := self.query.outcome()) is None, f"{what}: the query has ended: {outcome}"
            return condition()

        self.rig.wait_until(what, holds, DEADLINE_S)

    # What it has come to

    def visible(self) -> set[str]:
        """The names of the lines that are visible: where they end in the file."""
        return {row.name for row in self._rows()}

    def verdict(self) -> list[Finding]:
        """The rows that the sink must not show, and the rows that it lacks."""
        self._look()
        expected: Expected = self._expected
        return [*self._early, *check_replayable(self._shows.sink_name, STREAM, list(self._rows()), expected)]

    def _rows(self) -> Iterator[Row]:
        for line in self._shows.shown(self._output):
            stream, sequence, batch, count, checksum, value = line.split(b" ", 5)
            key, state = value.split(b" ")[0], State(int(count), int(checksum))
            yield Row(stream.decode(), sequence.decode(), key, int(batch), state, value)

    def _acknowledged(self) -> int:
        stream = self.rig.gateway.stream(STREAM) if self.rig.gateway.alive else None
        return stream.acknowledged.sequence if stream is not None else 0

    def _undecided(self) -> list[Path]:
        return [path for pattern in self._shows.undecided for path in self._output.glob(pattern)]

    def _look(self) -> None:
        """Compares what is visible and acknowledged with the commit log, which is read last and only grows."""
        acknowledged, batches = self._acknowledged(), {row.batch for row in self._rows()}
        log, last = committed(self.query.checkpoint).get(STREAM, (0, 0))[1], last_commit(self.query.checkpoint)
        if acknowledged > log:
            self._early.add(Finding(ACKED_EARLY, "lines", STREAM, "", str(acknowledged), f"committed was {log}"))
        for batch in batches:
            if last is None or batch > last:
                detail = f"the last one in commits/ was {last}"
                self._early.add(Finding(VISIBLE_EARLY, self._shows.sink_name, "", "", f"batch {batch}", detail))
