"""A run of the flights: three processes, which may be killed while it runs, and a check of the final figures."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.laboratory.demo.airlines import FIGURES, Airline, compare, plain_computation, read_table
from headrace.laboratory.demo.chaos import CONNECTOR, DRIVER, GATEWAY, Kill, Killed
from headrace.laboratory.demo.flights import FILE_NAME, unpack_flights
from headrace.laboratory.demo.flights_outcome import FlightsOutcome, Pace
from headrace.laboratory.demo.flights_progress import FlightsObserver
from headrace.laboratory.demo.progress import RunProgress
from headrace.laboratory.demo.run import Processes, Run
from headrace.processes import headrace

_SOURCE = "flights"
STREAM = f"{_SOURCE}/{FILE_NAME}"
FULL_SPEED = Pace(max_messages=50_000, buffer_bytes="16MiB")
CHAOS_PACE = Pace(max_messages=8_000, buffer_bytes="4MiB")
"""Slow enough that kills hit a connector that is still sending, and a driver that still has batches to process."""


@dataclass
class FlightsRun(Run):
    """A run in a work folder.

    Attributes:
        pace: The sizes that determine how fast the stream moves.
        plan: Which processes are killed, and when.
        seed: The seed of the plan; None without kills.
    """

    pace: Pace = FULL_SPEED
    plan: tuple[Kill, ...] = ()
    seed: int | None = None
    kills: list[Killed] = field(default_factory=list)
    _committed: int = 0

    def commands(self, address: str | None) -> dict[str, list[str]]:
        """Returns the commands of gateway, connector and driver; the driver reads the address from the gateway's file."""
        gateway = self.gateway(address, "--buffer-bytes", self.pace.buffer_bytes)
        return {GATEWAY: gateway, CONNECTOR: [] if address is None else self._connector(address), DRIVER: self.driver()}

    def starts_first(self) -> Iterable[str]:
        """Includes the driver: Spark takes longest to start."""
        return (DRIVER, GATEWAY)

    def observer(self) -> FlightsObserver:
        """Unpacks the flights, and returns their observer."""
        flights = unpack_flights(self.folder)
        return FlightsObserver(began=self.began, total=flights.lines, flights=flights, stream=STREAM, table=self._table)

    def is_ready(self) -> bool:
        """Whether Spark has run its first micro-batch, which is empty."""
        return self._table.exists()

    def note(self, progress: RunProgress, processes: Processes) -> None:
        """Carries out the kills that are due."""
        if progress.committed > self._committed:
            self._committed = progress.committed
            self._note_recovery(progress)
        done = len(self.kills)
        if done < len(self.plan) and progress.committed >= self.plan[done].at * progress.total:
            self.kill(self.plan[done], processes, progress)

    def unfinished(self) -> str | None:
        """Returns a message if the stream ended before all kills; else None."""
        missing = len(self.plan) - len(self.kills)
        return f"the stream ended before {missing} of the {len(self.plan)} kills could happen" if missing else None

    def expected(self) -> tuple[Airline, ...]:
        """Computes the figures with a loop over the same file."""
        return plain_computation(self.folder / FILE_NAME)

    def outcome(self, expected: tuple[Airline, ...], **figures: Any) -> FlightsOutcome:
        """Compares the results, figure by figure."""
        table = read_table(self._table)
        airlines = table.airlines if table is not None else ()
        if self.kills:
            # A restarted driver has a cold JVM again.
            figures["halves"] = None
        return FlightsOutcome(
            **figures,
            airlines=airlines,
            differences=tuple(compare(airlines, expected)),
            figures_compared=len(expected) * len(FIGURES),
            kills=tuple(self.kills),
            pace=self.pace,
            seed=self.seed,
        )

    def driver(self) -> list[str]:
        """Returns the driver's command."""
        files = ["--gateway-file", str(self.gateway_file), "--table", str(self._table)]
        state = ["--checkpoint", str(self.folder / "checkpoint")]
        what = ["--stream", f"{_SOURCE}/*", "--max-messages", str(self.pace.max_messages)]
        return [sys.executable, "-m", "headrace.laboratory.demo.pipeline", *files, *state, *what]

    def kill(self, kill: Kill, processes: Processes, progress: RunProgress) -> None:
        """Kills the processes that `kill` names at the same time, and restarts them."""
        victims = [processes[name] for name in kill.victims]
        pids = tuple(victim.pid for victim in victims)
        for victim in victims:
            victim.send_kill()
        for victim in victims:
            victim.kill()
        self.kills.append(Killed(kill.victims, pids, progress.elapsed_s, progress.received, progress.committed))
        who = " and ".join(f"{name} ({pid})" for name, pid in zip(kill.victims, pids, strict=True))
        self.view.tell(progress, f"kill -9 {who} at {progress.committed:,} committed, and restart")
        for victim in victims:
            victim.start()

    @property
    def _table(self) -> Path:
        return self.folder / "table.json"

    def _connector(self, address: str) -> list[str]:
        what = ["--path", str(self.folder / FILE_NAME), "--source", _SOURCE, "--format", "lines", "--no-follow"]
        return headrace("connector", "run", "file", *what, "--gateway", address, "--instance", "headrace-demo")

    def _note_recovery(self, progress: RunProgress) -> None:
        if self.kills and self.kills[-1].recovered_s is None:
            killed = self.kills[-1]
            took_s = progress.elapsed_s - killed.elapsed_s
            self.kills[-1] = replace(killed, recovered_s=took_s)
            self.view.tell(progress, f"commits resume {took_s:.1f} s after the kill of {' and '.join(killed.victims)}")
