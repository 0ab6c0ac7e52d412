"""A soak: a gateway, a source, an application on Spark and a sink at a steady rate, whose memory is measured over time."""

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from headrace.laboratory.demo.gateway import GatewayStatus, address_in, failed
from headrace.laboratory.errors import DemoError
from headrace.laboratory.soak import application
from headrace.laboratory.soak.memory import Memory, alive_mb, memory_of, named_processes, settings
from headrace.laboratory.soak.series import Judged, Record
from headrace.laboratory.soak.slope import Verdict
from headrace.laboratory.soak.source import DRAINS_WITHIN_S
from headrace.processes import OwnedProcess, headrace, process_group

GATEWAY, DRIVER, SINK, SOURCE = "gateway", "driver", "sink", "source"
JVM = "driver's JVM"
_HEAP_MIB = 768
_SAMPLES = 1200
"""The approximate number of measurements, which are at least half a second apart."""
_LOOK_EVERY_S = 0.25
_SAY_EVERY_S = 5.0
_STARTS_WITHIN_S = 300.0
_MAX_STANDSTILL_S = 120.0
_STOPS_WITHIN_S = 30.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What to run.

    Attributes:
        seconds: The duration, from the first acknowledgement on.
        warm_up_s: The part of it that is not evaluated, in seconds.
        bound: The allowed growth of a process, in MB of 10^6 bytes per hour.
        rate: Messages per second.
        keys: The number of keys with a state.
        master: Spark master URL, on this machine.
    """

    seconds: float
    warm_up_s: float
    bound: float
    rate: float
    keys: int
    master: str


@dataclass(frozen=True)
class Outcome:
    """The result of a run.

    Attributes:
        judged: The verdict on each process, and on all together.
        measured_s: How long it ran, from the first acknowledgement on.
        messages: The number of acknowledged messages.
        unacknowledged: The number of messages that were sent but not acknowledged.
        micro_batches: The number of committed micro-batches.
        stopped: Whether it was stopped early.
    """

    judged: tuple[Judged, ...]
    measured_s: float
    messages: int
    unacknowledged: int
    micro_batches: int
    stopped: bool

    @property
    def growing(self) -> list[Judged]:
        """The series that grow."""
        return [judged for judged in self.judged if judged.verdict is Verdict.GROWS]


@dataclass
class Soak:
    """A run in a work folder. All of its processes have ended once `to_the_end` returns or raises.

    Attributes:
        stop: Set to end the run early and cleanly.
    """

    folder: Path
    plan: Plan
    say: Say
    stop: threading.Event
    record: Record = field(default_factory=Record)
    _gateway: GatewayStatus = field(default_factory=GatewayStatus)

    def to_the_end(self) -> Outcome:
        """Runs everything, and returns the outcome.

        Raises:
            DemoError: A process ended unexpectedly, or there was no progress for too long.
        """
        commands: dict[str, list[str]] = {name: [] for name in (DRIVER, SINK, SOURCE)}
        with process_group({GATEWAY: self._gateway_command(), **commands}, self.folder) as processes:
            processes[GATEWAY].start()
            address = address_in(self._address_file, processes[GATEWAY], lambda: _check_alive(processes))
            processes[DRIVER].command = self._driver_command(address)
            processes[SINK].command = self._sink_command(address)
            processes[SOURCE].command = self._source_command(address)
            for name in (DRIVER, SINK, SOURCE):
                processes[name].start()
            self._gateway.connect(address)
            try:
                if not self._sees_first(processes):
                    return Outcome((), 0.0, 0, 0, 0, stopped=True)
                measured_s = self._measure(processes)
                self.say("stopping the source; waiting for the messages that it sent")
                # The source itself waits for its acknowledgements.
                processes[SOURCE].stop(DRAINS_WITHIN_S + _STOPS_WITHIN_S)
                acknowledged, waiting = self._messages()
            finally:
                self._gateway.close()
            for name in (DRIVER, SINK, GATEWAY):
                processes[name].stop(_STOPS_WITHIN_S)
        judged = tuple(self.record.judged(self.plan.warm_up_s, self.plan.bound))
        stopped = measured_s < self.plan.seconds
        return Outcome(judged, measured_s, acknowledged, waiting, self._micro_batches(), stopped)

    @property
    def _address_file(self) -> Path:
        return self.folder / "gateway.address"

    @property
    def _heap_log(self) -> Path:
        return self.folder / "heap.log"

    def _gateway_command(self) -> list[str]:
        return headrace("gateway", "--listen", "127.0.0.1:0", "--ready-file", str(self._address_file), "--log-level", "warning")

    def _driver_command(self, address: str) -> list[str]:
        app = str(Path(application.__path__[0], "app.py"))
        state = ["--checkpoint", str(self.folder / "checkpoint"), "--master", self.plan.master]
        conf = [word for name, value in settings(self._heap_log, _HEAP_MIB).items() for word in ("--conf", f"{name}={value}")]
        return headrace("run", app, "--gateway", address, *state, *conf)

    def _sink_command(self, address: str) -> list[str]:
        what = ["--path", str(self.folder / "results"), "--sink", "soak", "--format", "lines"]
        return headrace("connector", "run", "file-sink", *what, "--gateway", address)

    def _source_command(self, address: str) -> list[str]:
        what = ["--rate", str(self.plan.rate), "--keys", str(self.plan.keys)]
        return [sys.executable, "-m", "headrace.laboratory.soak.source", "--gateway", address, *what]

    def _sees_first(self, processes: dict[str, OwnedProcess]) -> bool:
        """Waits for the first acknowledgement, since startup is not measured. Returns False if `stop` is set before."""
        self.say("Spark is starting")
        deadline = time.monotonic() + _STARTS_WITHIN_S
        while not self._messages()[0]:
            _check_alive(processes)
            if time.monotonic() > deadline:
                raise DemoError(f"nothing was acknowledged within {_STARTS_WITHIN_S:.0f} s", processes[DRIVER].tail())
            if self.stop.wait(_LOOK_EVERY_S):
                return False
        return True

    def _measure(self, processes: dict[str, OwnedProcess]) -> float:
        """Measures until the time is over or `stop` is set. Returns how long it measured, in seconds."""
        began, every_s = time.monotonic(), max(0.5, self.plan.seconds / _SAMPLES)
        wall_began = time.time()
        due = said = moved = 0.0
        acknowledged = -1
        while (now := time.monotonic() - began) < self.plan.seconds:
            _check_alive(processes)
            if now >= due:
                self.record.note(now, _memories(processes))
                due = now + every_s
            if now >= said:
                before, acknowledged = acknowledged, self._messages()[0]
                moved = now if acknowledged != before else moved
                self.say(self._progress(now, acknowledged))
                said = now + _SAY_EVERY_S
            if now - moved > _MAX_STANDSTILL_S:
                raise DemoError(f"no progress for {_MAX_STANDSTILL_S:.0f} s", processes[DRIVER].tail())
            if self.stop.wait(_LOOK_EVERY_S):
                break
        self.record.note_heap(self._heap(wall_began))
        return min(now, self.plan.seconds)

    def _heap(self, wall_began: float) -> list[tuple[float, float]]:
        """Returns how much of the heap was alive, with times in seconds since the measurement began."""
        jvm = next((pid for pid, series in self.record.processes.items() if series.name == JVM), None)
        if jvm is None:
            return []
        started_s = psutil.Process(jvm).create_time() - wall_began
        return [(started_s + uptime_s, alive) for uptime_s, alive in alive_mb(self._heap_log)]

    def _progress(self, now: float, acknowledged: int) -> str:
        together = self.record.together
        counting = len(together.since(self.plan.warm_up_s).times_s)
        phase = f"measured {counting} times" if counting else "warm-up"
        memory = f"{together.own[-1]:,.0f} MB"
        return f"{now / 60:6.1f} of {self.plan.seconds / 60:g} min, {phase}: {memory}, {acknowledged:,} acknowledged"

    def _messages(self) -> tuple[int, int]:
        """Returns the numbers of acknowledged and of unacknowledged messages, as far as the gateway knows."""
        status = self._gateway.get()
        streams = [] if status is None else status.streams
        return sum(stream.acknowledged_messages for stream in streams), sum(stream.lag_messages for stream in streams)

    def _micro_batches(self) -> int:
        commits = [int(entry.name) for entry in (self.folder / "checkpoint" / "commits").glob("*") if entry.name.isdigit()]
        return max(commits, default=-1) + 1


def _memories(processes: dict[str, OwnedProcess]) -> dict[int, tuple[str, Memory]]:
    named = named_processes((name, process.pid) for name, process in processes.items())
    found = {pid: (name, memory_of(pid)) for pid, name in named.items()}
    return {pid: (name, memory) for pid, (name, memory) in found.items() if memory is not None}


def _check_alive(processes: dict[str, OwnedProcess]) -> None:
    """Raises DemoError if a process has ended."""
    for process in processes.values():
        code = process.exit_code()
        if code is not None:
            raise failed(process, f"the {process.name} ended unexpectedly with exit code {code}")
