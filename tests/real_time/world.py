"""A source, a gateway, `headrace run --real-time` and two sinks, as processes that die, and the judgement on what is visible."""

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.exactly_once.episodes import Death, Faults
from tests.faults.processes import Process
from tests.faults.rig import Rig
from tests.faults.sources import Numbers, number_key, number_sequence, number_value
from tests.real_time.application import KEPT, TOLD

from headrace.laboratory.chaos.evidence import committed, last_commit
from headrace.laboratory.chaos.validator import ACKED_EARLY, VISIBLE_EARLY, Expected, Finding, check_replayable
from headrace.laboratory.chaos.workload import Content, Row, State

APPLICATION = Path(__file__).with_name("application.py")
PARTITIONS = ("0", "1")
OFFERED = 200
"""Messages of each partition that are offered for each death: more than the gateway holds, so that much is still to come."""
LOOKS_EVERY_S = 0.1
DEADLINE_S = 300.0
"""A driver needs a minute to start on a machine that has much else to do."""
CONFIG = "[limits]\nsession_messages = 100\n"
_LINE = re.compile(rb"(numbers/\d+) (\d+) (\w+) (\d+) (\d+) (\d+)")


class World:
    """The processes and files."""

    def __init__(self, folder: Path) -> None:
        self._pid_file = folder / "driver.pid"
        self._faults = Faults(folder / "faults", self._pid_file)
        self.rig = Rig(folder, CONFIG, environ=self._faults.environ)
        self.checkpoint = folder / "checkpoint"
        self._output = folder / "output"
        self._numbers = Numbers(self.rig.source_folder("numbers"))
        self._told = self.rig.stdout_sink(TOLD)
        command = ["-m", "headrace.cli", "run", str(APPLICATION), "--real-time", "--trigger-interval", "200ms"]
        command += ["--real-time-workers", "2"]
        command += ["--checkpoint", str(self.checkpoint), "--master", "local[2]", "--parallelism", "2"]
        driver = Process("driver", [*command, "--gateway", self.rig.gateway.address], folder, self._faults.environ)
        self.rig.processes.append(driver)
        self._roles: dict[str, Sequence[Process]] = {
            "gateway": [self.rig.gateway],
            "source": [self.rig.connector("numbers")],
            "sink": [self.rig.file_sink(KEPT, self._output), self._told],
            "driver": [driver],
            # It ends the query, and so the driver.
            "worker": [driver],
        }
        self.offered = 0
        self.told_early = 0
        """How many messages were seen at the at-least-once sink before they were committed."""
        self._early: set[Finding] = set()
        self._next_look = 0.0

    # What happens to it

    def start(self) -> None:
        """Starts everything, and waits until a micro-batch is committed."""
        for role in self._roles:
            if role != "worker":
                self.restart(role)
        self.wait_until("a micro-batch is committed", lambda: last_commit(self.checkpoint) is not None)

    def restart(self, role: str) -> None:
        """Starts what has died."""
        for process in self._roles[role]:
            process.start()
            if role in ("driver", "worker"):
                self._pid_file.write_text(str(process.pid))

    def offer(self) -> None:
        """Has the source offer more."""
        self.offered += OFFERED
        for partition in PARTITIONS:
            self._numbers.offer(partition, self.offered)

    def finish(self) -> None:
        """Waits until everything is visible and acknowledged, and judges it."""
        for sink in (KEPT, TOLD):
            self.wait_until(f"everything is visible at {sink}", lambda name=sink: self._sequences(name) == self._wanted)  # type: ignore[misc]
        for partition in PARTITIONS:
            self.wait_until("all is acknowledged", lambda name=partition: self._numbers.has_acked(name, self.offered))  # type: ignore[misc]
        assert [str(finding) for finding in self.verdict()] == []

    def wait_until(self, what: str, condition: Callable[[], bool]) -> None:
        """Waits until a condition is true, and looks meanwhile whether anything is visible or acknowledged too early."""

        def holds() -> bool:
            if time.monotonic() >= self._next_look:
                self._look()
                self._next_look = time.monotonic() + LOOKS_EVERY_S
            return condition()

        self.rig.wait_until(what, holds, DEADLINE_S)

    def arm(self, death: Death) -> None:
        """Has the processes of a role die when the point is reached."""
        processes = self._roles[death.role]
        dies_itself = death.role == death.point.role
        self._faults.arm(death.point, None if dies_itself else processes[0].pid)
        for process in processes:
            process.expected = False

    def wait_for_death(self, death: Death) -> None:
        """Waits until they have died there."""
        self.wait_until(f"{death.name} is reached", lambda: self._faults.victim(death.point) is not None)
        first, *others = self._roles[death.role]
        self.wait_until(f"{death.role} has died", lambda: not first.alive)
        for process in others:
            process.kill()

    # What it has come to

    def verdict(self) -> list[Finding]:
        """The rows that the sinks must not show, and the rows that they lack."""
        self._look()
        found = list(self._early)
        for partition in PARTITIONS:
            stream = f"numbers/{partition}"
            expected = self._expected(stream)
            found += check_replayable(KEPT, stream, self._rows(KEPT, stream), expected)
            # What was delivered again is the same: one of each suffices, and nothing else may be there.
            found += check_replayable(TOLD, stream, list(dict.fromkeys(self._rows(TOLD, stream))), expected)
        return found

    @property
    def _wanted(self) -> dict[str, set[int]]:
        sequences = {number_sequence(n) for n in range(1, self.offered + 1)}
        return {f"numbers/{partition}": sequences for partition in PARTITIONS}

    def _expected(self, stream: str) -> Expected:
        states: dict[bytes, State] = {}
        expected = []
        for n in range(1, self.offered + 1):
            key, value = number_key(n), b"%d" % number_value(n)
            states[key] = states.get(key, State()).after(value)
            expected.append((str(number_sequence(n)), Content(key, value), states[key]))
        return expected

    def _lines(self, sink: str) -> list[tuple[bytes, ...]]:
        if sink == TOLD:
            text = self._told.log_file.read_bytes() if self._told.log_file.exists() else b""
        else:
            text = b"".join(path.read_bytes() for path in sorted(self._output.glob("*.lines")))
        return [match.groups() for line in text.split(b"\n") if (match := _LINE.fullmatch(line)) is not None]

    def _rows(self, sink: str, stream: str) -> list[Row]:
        return [
            Row(stream, sequence.decode(), key, -1, State(int(count), int(checksum)), value)
            for name, sequence, key, count, checksum, value in self._lines(sink)
            if name.decode() == stream
        ]

    def _sequences(self, sink: str) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {f"numbers/{partition}": set() for partition in PARTITIONS}
        for name, sequence, *_ in self._lines(sink):
            found[name.decode()].add(int(sequence))
        return found

    def _look(self) -> None:
        """Compares what is visible and acknowledged with the commit log, which is read last and only grows."""
        kept, told = self._sequences(KEPT), self._sequences(TOLD)
        acked = {f"numbers/{partition}": number_sequence(self._numbers.acked(partition)) for partition in PARTITIONS}
        ends = committed(self.checkpoint)
        for stream, sequences in kept.items():
            end = ends.get(stream, (0, 0))[1]
            if early := [sequence for sequence in sequences if sequence > end]:
                self._early.add(Finding(VISIBLE_EARLY, KEPT, stream, "", str(max(early)), f"committed was {end}"))
            if acked[stream] > end:
                self._early.add(Finding(ACKED_EARLY, "numbers", stream, "", str(acked[stream]), f"committed was {end}"))
            self.told_early += sum(sequence > end for sequence in told[stream])
