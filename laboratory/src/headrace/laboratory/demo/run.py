"""A run of any demo: its processes, its progress and its outcome. Each demo defines what it computes."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.laboratory.demo.chaos import CONNECTOR, DRIVER, GATEWAY
from headrace.laboratory.demo.gateway import address_in, failed
from headrace.laboratory.demo.observer import Observer
from headrace.laboratory.demo.outcome import RunOutcome
from headrace.laboratory.demo.progress import RunProgress
from headrace.laboratory.demo.view import View
from headrace.laboratory.errors import DemoError
from headrace.processes import OwnedProcess, headrace, process_group

_LOOK_EVERY_S = 0.04
_STARTS_WITHIN_S = 120.0
_STALLED_AFTER_S = 120.0
_STOPS_WITHIN_S = 20.0
Processes = dict[str, OwnedProcess]


@dataclass
class Run(ABC):
    """A run in a work folder. All of its processes have ended once `to_the_end` returns or raises."""

    folder: Path
    view: View
    began: float = field(default_factory=time.monotonic)

    def to_the_end(self) -> RunOutcome:
        """Runs until the source has ended, and checks the results.

        Raises:
            DemoError: A process ended unexpectedly, or there was no progress for too long.
        """
        with self.view, self.processes() as processes:
            for name in self.starts_first():
                processes[name].start()
            # The data is generated while Spark starts.
            observer = self.observer()
            try:
                self._start_others(processes, observer)
                self._follow(processes, observer)
                last = observer.look()
                self.view.tell(last, f"the source has ended, {last.committed:,} messages are acknowledged")
            finally:
                observer.gateway.close()
            processes[DRIVER].ask_to_stop()
            expected = self.expected()
            # The driver first, so that sinks receive everything that is committed.
            for name in sorted(processes.keys() - {CONNECTOR}, key=lambda name: (name == GATEWAY, name != DRIVER)):
                processes[name].stop(_STOPS_WITHIN_S)
        return self.outcome(
            expected,
            messages=last.total,
            acknowledged=last.committed,
            elapsed_s=time.monotonic() - self.began,
            stream_s=observer.meter.stream_s,
            ack_latency_p50_s=observer.meter.latency(0.5),
            ack_latency_p99_s=observer.meter.latency(0.99),
            halves=observer.meter.halves(),
        )

    @abstractmethod
    def commands(self, address: str | None) -> dict[str, list[str]]:
        """Returns the command of each process, by name, including GATEWAY, DRIVER and CONNECTOR.

        Args:
            address: The gateway's address; None before it listens, when commands that need it are empty.
        """

    def starts_first(self) -> Iterable[str]:
        """Returns the processes that do not need the gateway's address."""
        return (GATEWAY,)

    @abstractmethod
    def observer(self) -> Observer[Any]:
        """Prepares the data, and returns the observer of the run."""

    def is_ready(self) -> bool:
        """Whether the connector can start, or must wait for Spark."""
        return True

    def note(self, progress: RunProgress, processes: Processes) -> None:
        """Called with each new progress while the connector runs."""
        return None

    def unfinished(self) -> str | None:
        """Returns what should have happened before the connector ended; None if everything has."""
        return None

    @abstractmethod
    def expected(self) -> Any:
        """Returns the results of a plain computation, which runs while the processes end."""

    @abstractmethod
    def outcome(self, expected: Any, **figures: Any) -> RunOutcome:
        """Compares the results with the expected ones. Called after all processes have ended."""

    def processes(self) -> AbstractContextManager[Processes]:
        """Returns a context manager for the processes, not started. None is left when it exits."""
        return process_group(self.commands(None), self.folder)

    def gateway(self, address: str | None, *options: str) -> list[str]:
        """Returns the gateway's command, with further options."""
        ready = ["--ready-file", str(self.gateway_file)]
        return headrace("gateway", "--listen", address or "127.0.0.1:0", *ready, *options)

    @property
    def gateway_file(self) -> Path:
        """The file that has the gateway's address once it listens."""
        return self.folder / "gateway.address"

    def _start_others(self, processes: Processes, observer: Observer[Any]) -> None:
        """Passes the gateway's address to all processes, and starts the ones that need it, the connector last."""
        address = address_in(self.gateway_file, processes[GATEWAY], lambda: _check_alive(processes))
        for name, command in self.commands(address).items():
            processes[name].command = command
        observer.gateway.connect(address)
        for name, process in processes.items():
            if name != CONNECTOR and not process.runs:
                process.start()
        deadline = time.monotonic() + _STARTS_WITHIN_S
        while not self.is_ready():
            _check_alive(processes)
            self.view.show(observer.look())
            if time.monotonic() > deadline:
                raise DemoError(f"Spark ran no micro-batch within {_STARTS_WITHIN_S:.0f} s", processes[DRIVER].tail())
            time.sleep(_LOOK_EVERY_S)
        processes[CONNECTOR].start()

    def _follow(self, processes: Processes, observer: Observer[Any]) -> None:
        """Shows the progress until the connector ends, since everything is acknowledged."""
        moved, since_s = 0, time.monotonic() - self.began
        while (ended := _check_alive(processes)) is None:
            progress = observer.look()
            self.view.show(progress)
            if progress.moved > moved:
                moved, since_s = progress.moved, progress.elapsed_s
            if progress.elapsed_s - since_s > _STALLED_AFTER_S:
                raise DemoError(f"no progress for {_STALLED_AFTER_S:.0f} s", processes[DRIVER].tail())
            self.note(progress, processes)
            time.sleep(_LOOK_EVERY_S)
        if ended != 0:
            raise failed(processes[CONNECTOR], f"the connector failed with exit code {ended}")
        unfinished = self.unfinished()
        if unfinished is not None:
            raise DemoError(unfinished)


def _check_alive(processes: Processes) -> int | None:
    """Returns the connector's exit code once it has ended; raises DemoError if another process has."""
    for name, process in processes.items():
        code = process.exit_code() if name != CONNECTOR else None
        if code is not None:
            raise failed(process, f"the {name} ended unexpectedly with exit code {code}")
    return processes[CONNECTOR].exit_code()
