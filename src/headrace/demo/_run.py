"""The whole run: three processes, what becomes of them, and whether the figures at the end are right."""

import sys
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.demo._airlines import FIGURES, Airline, Difference, compare, plain_computation, read_table
from headrace.demo._chaos import CONNECTOR, DRIVER, GATEWAY, Kill, Killed
from headrace.demo._errors import DemoError
from headrace.demo._flights import FILE_NAME, unpack_flights
from headrace.demo._gateway import address_in, failed
from headrace.demo._outcome import RunOutcome
from headrace.demo._progress import Observer, Progress
from headrace.demo._view import View
from headrace.processes import OwnedProcess, company, headrace

_SOURCE = "flights"
STREAM = f"{_SOURCE}/{FILE_NAME}"
_LOOK_EVERY_S = 0.04
_STARTS_WITHIN_S = 120.0
_STANDS_STILL_AT_MOST_S = 120.0
_STOPS_WITHIN_S = 10.0


@dataclass(frozen=True)
class Pace:
    """How large the pieces are in which the stream is moved."""

    max_messages: int
    """In a micro-batch."""
    buffer_bytes: str
    """In the gateway."""


FULL_SPEED = Pace(max_messages=50_000, buffer_bytes="16MiB")
CHAOS_PACE = Pace(max_messages=8_000, buffer_bytes="4MiB")
"""Slow enough that kills hit a connector that still sends, and a driver that has batches to come."""


@dataclass(frozen=True, kw_only=True)
class Outcome(RunOutcome):
    """What a run came to."""

    airlines: tuple[Airline, ...]
    differences: tuple[Difference, ...]
    figures_compared: int
    kills: tuple[Killed, ...]

    @property
    def right(self) -> bool:
        """True where every figure is that of a plain computation."""
        return not self.differences


@dataclass
class Run:
    """A run in a work folder; nothing of it runs any more once `to_the_end` has returned or raised."""

    folder: Path
    pace: Pace
    plan: tuple[Kill, ...]
    view: View
    kills: list[Killed] = field(default_factory=list)

    def to_the_end(self) -> Outcome:
        """Runs until the stream has ended; raises DemoError where it cannot."""
        began = time.monotonic()
        with self.view, self._processes() as processes:
            # Spark takes longest to start; what the others need is made meanwhile.
            processes[DRIVER].start()
            processes[GATEWAY].start()
            flights = unpack_flights(self.folder)
            observer = Observer(flights, STREAM, self._table, began)
            try:
                observer.gateway.connect(self._bind(processes))
                self._warm_up(processes, observer)
                processes[CONNECTOR].start()
                self._follow(processes, observer)
                last = observer.look()
                self.view.tell(last, f"the stream has ended, {last.committed:,} messages are acknowledged")
            finally:
                observer.gateway.close()
            processes[DRIVER].ask_to_stop()
            processes[GATEWAY].ask_to_stop()
            plain = plain_computation(flights.path)
            processes[DRIVER].stop(_STOPS_WITHIN_S)
            processes[GATEWAY].stop(_STOPS_WITHIN_S)
        table = read_table(self._table)
        airlines = table.airlines if table is not None else ()
        return Outcome(
            airlines=airlines,
            differences=tuple(compare(airlines, plain)),
            figures_compared=len(plain) * len(FIGURES),
            messages=flights.lines,
            acknowledged=last.committed,
            elapsed_s=time.monotonic() - began,
            stream_s=observer.meter.stream_s,
            ack_latency_p50_s=observer.meter.latency(0.5),
            ack_latency_p99_s=observer.meter.latency(0.99),
            kills=tuple(self.kills),
        )

    @property
    def _table(self) -> Path:
        return self.folder / "table.json"

    @property
    def _gateway_file(self) -> Path:
        return self.folder / "gateway.address"

    def _processes(self) -> AbstractContextManager[dict[str, OwnedProcess]]:
        """The three processes, none started; whatever happens, none is left."""
        return company(self._commands(), self.folder)

    def _commands(self) -> dict[str, list[str]]:
        return {GATEWAY: self._gateway("127.0.0.1:0"), CONNECTOR: [], DRIVER: self._driver()}

    def _gateway(self, listen: str) -> list[str]:
        files = ["--ready-file", str(self._gateway_file)]
        return headrace("gateway", "--listen", listen, "--buffer-bytes", self.pace.buffer_bytes, *files)

    def _connector(self, address: str) -> list[str]:
        what = ["--path", str(self.folder / FILE_NAME), "--source", _SOURCE, "--format", "lines", "--no-follow"]
        return headrace("connector", "run", "file", *what, "--gateway", address, "--instance", "headrace-demo")

    def _driver(self) -> list[str]:
        files = ["--gateway-file", str(self._gateway_file), "--table", str(self._table)]
        state = ["--checkpoint", str(self.folder / "checkpoint")]
        what = ["--stream", f"{_SOURCE}/*", "--max-messages", str(self.pace.max_messages)]
        return [sys.executable, "-m", "headrace.demo._pipeline", *files, *state, *what]

    def _bind(self, processes: dict[str, OwnedProcess]) -> str:
        """Waits for the gateway's address. From now on it is started there, and the connector finds it there."""
        address = address_in(self._gateway_file, processes[GATEWAY], lambda: _check_alive(processes))
        processes[GATEWAY].command = self._gateway(address)
        processes[CONNECTOR].command = self._connector(address)
        return address

    def _warm_up(self, processes: dict[str, OwnedProcess], observer: Observer) -> None:
        """Waits until Spark has run a micro-batch, an empty one, so that what is measured is not how a JVM warms up."""
        deadline = time.monotonic() + _STARTS_WITHIN_S
        while not self._table.exists():
            _check_alive(processes)
            self.view.show(observer.look())
            if time.monotonic() > deadline:
                raise DemoError(f"Spark ran no micro-batch within {_STARTS_WITHIN_S:.0f} s", processes[DRIVER].tail())
            time.sleep(_LOOK_EVERY_S)

    def _follow(self, processes: dict[str, OwnedProcess], observer: Observer) -> None:
        """Shows the progress and kills by plan, until the connector says that everything is acknowledged."""
        plan = list(self.plan)
        committed, since_s = 0, time.monotonic() - observer.began
        while (ended := _check_alive(processes)) is None:
            progress = observer.look()
            self.view.show(progress)
            if progress.committed > committed:
                committed, since_s = progress.committed, progress.elapsed_s
                self._note_recovery(progress)
            if progress.elapsed_s - since_s > _STANDS_STILL_AT_MOST_S:
                tail = processes[DRIVER].tail()
                raise DemoError(f"nothing was committed for {_STANDS_STILL_AT_MOST_S:.0f} s", tail)
            if plan and progress.committed >= plan[0].at * progress.total:
                self._kill(plan.pop(0), processes, progress)
            time.sleep(_LOOK_EVERY_S)
        if ended != 0:
            raise failed(processes[CONNECTOR], f"the connector ended by itself with exit code {ended}")
        if plan:
            raise DemoError(f"the stream ended before {len(plan)} of the {len(self.plan)} kills could happen")

    def _kill(self, kill: Kill, processes: dict[str, OwnedProcess], progress: Progress) -> None:
        victims = [processes[name] for name in kill.victims]
        pids = tuple(victim.pid for victim in victims)
        for victim in victims:
            victim.strike()
        for victim in victims:
            victim.kill()
        self.kills.append(Killed(kill.victims, pids, progress.elapsed_s, progress.received, progress.committed))
        who = " and ".join(f"{name} ({pid})" for name, pid in zip(kill.victims, pids, strict=True))
        self.view.tell(progress, f"kill -9 {who} at {progress.committed:,} committed; restarts")
        for victim in victims:
            victim.start()

    def _note_recovery(self, progress: Progress) -> None:
        if self.kills and self.kills[-1].recovered_s is None:
            killed = self.kills[-1]
            took_s = progress.elapsed_s - killed.elapsed_s
            self.kills[-1] = replace(killed, recovered_s=took_s)
            self.view.tell(progress, f"commits go on {took_s:.1f} s after the kill of {' and '.join(killed.victims)}")


def _check_alive(processes: dict[str, OwnedProcess]) -> int | None:
    """The connector's exit code once it has ended; raises DemoError where another process has."""
    for name in (GATEWAY, DRIVER):
        code = processes[name].exit_code()
        if code is not None:
            raise failed(processes[name], f"the {name} ended by itself with exit code {code}")
    return processes[CONNECTOR].exit_code()
