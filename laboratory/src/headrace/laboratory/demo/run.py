"""A run of a demo: its processes, how far it is, and what becomes of it. What is computed, and of what, is the demo's own."""

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
    """A run in a work folder. None of its processes is left once `to_the_end` has returned or raised."""

    folder: Path
    view: View
    began: float = field(default_factory=time.monotonic)

    def to_the_end(self) -> RunOutcome:
        """Runs until the source has ended, and checks the results.

        Raises:
            DemoError: a process ended by itself, or nothing moved for too long.
        """
        with self.view, self.processes() as processes:
            for name in self.starts_first():
                processes[name].start()
            # Spark takes longest to start; the data is made meanwhile.
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
            # What is committed is handed to a sink before the driver ends.
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
        """The command of each process, by name; GATEWAY, DRIVER and CONNECTOR among them.

        Args:
            address: Where the gateway listens; None while it has not started: commands that need it are empty then.
        """

    def starts_first(self) -> Iterable[str]:
        """The processes that do not need the gateway's address."""
        return (GATEWAY,)

    @abstractmethod
    def observer(self) -> Observer[Any]:
        """Makes the data, and what looks at its progress."""

    def is_ready(self) -> bool:
        """Whether the connector can start: where Spark is to have done something before."""
        return True

    def note(self, progress: RunProgress, processes: Processes) -> None:
        """Called for each look while the connector runs."""
        return None

    def unfinished(self) -> str | None:
        """What should have happened before the connector ended; None where all has."""
        return None

    @abstractmethod
    def expected(self) -> Any:
        """The results of a plain computation, which is done while the processes end."""

    @abstractmethod
    def outcome(self, expected: Any, **figures: Any) -> RunOutcome:
        """Compares the results with the expected ones; called when no process runs any more."""

    def processes(self) -> AbstractContextManager[Processes]:
        """The processes, none started; whatever happens, none is left."""
        return process_group(self.commands(None), self.folder)

    def gateway(self, address: str | None, *options: str) -> list[str]:
        """The gateway's command, with options of the demo's own."""
        ready = ["--ready-file", str(self.gateway_file)]
        return headrace("gateway", "--listen", address or "127.0.0.1:0", *ready, *options)

    @property
    def gateway_file(self) -> Path:
        """The file that has the gateway's address once it listens."""
        return self.folder / "gateway.address"

    def _start_others(self, processes: Processes, observer: Observer[Any]) -> None:
        """Tells all processes the gateway's address, and starts those that wait for it, the connector last."""
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
        """Shows the progress, until the connector says that everything is acknowledged."""
        moved, since_s = 0, time.monotonic() - self.began
        while (ended := _check_alive(processes)) is None:
            progress = observer.look()
            self.view.show(progress)
            if progress.moved > moved:
                moved, since_s = progress.moved, progress.elapsed_s
            if progress.elapsed_s - since_s > _STALLED_AFTER_S:
                raise DemoError(f"nothing moved for {_STALLED_AFTER_S:.0f} s", processes[DRIVER].tail())
            self.note(progress, processes)
            time.sleep(_LOOK_EVERY_S)
        if ended != 0:
            raise failed(processes[CONNECTOR], f"the connector ended by itself with exit code {ended}")
        unfinished = self.unfinished()
        if unfinished is not None:
            raise DemoError(unfinished)


def _check_alive(processes: Processes) -> int | None:
    """The connector's exit code once it has ended; raises DemoError where another process has."""
    for name, process in processes.items():
        code = process.exit_code() if name != CONNECTOR else None
        if code is not None:
            raise failed(process, f"the {name} ended by itself with exit code {code}")
    return processes[CONNECTOR].exit_code()
