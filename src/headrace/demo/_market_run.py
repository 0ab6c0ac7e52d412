"""A run of Market Spread: a gateway, the application on Spark, its sink and its source, and whether the results are right."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from headrace.demo._errors import DemoError
from headrace.demo._gateway import address_in, failed
from headrace.demo._market import Check, Rejected, check, example_folder, load_feed
from headrace.demo._market_progress import MarketObserver
from headrace.demo._outcome import RunOutcome
from headrace.demo._view import View
from headrace.processes import OwnedProcess, company, headrace

GATEWAY, DRIVER, SINK, CONNECTOR = "gateway", "driver", "sink", "connector"
_LOOK_EVERY_S = 0.04
_STANDS_STILL_AT_MOST_S = 120.0
_STOPS_WITHIN_S = 20.0


@dataclass(frozen=True, kw_only=True)
class MarketOutcome(RunOutcome):
    """What a run came to."""

    rejected: tuple[Rejected, ...]
    checked: Check

    @property
    def right(self) -> bool:
        """True where the rejected orders are those that a plain loop rejects."""
        return self.checked.equal


@dataclass
class MarketRun:
    """A run in a work folder; nothing of it runs any more once `to_the_end` has returned or raised.

    Attributes:
        messages: How many quotes there are, and how many orders.
    """

    folder: Path
    messages: int
    view: View

    def to_the_end(self) -> MarketOutcome:
        """Runs until both streams have ended; raises DemoError where it cannot."""
        example = example_folder()
        observer = MarketObserver(self.messages, self.folder / "rejected")
        commands: dict[str, list[str]] = {name: [] for name in (DRIVER, SINK, CONNECTOR)}
        with self.view, company({GATEWAY: self._gateway(), **commands}, self.folder) as processes:
            processes[GATEWAY].start()
            address = address_in(self._gateway_file, processes[GATEWAY], lambda: _check_alive(processes))
            processes[DRIVER].command = self._driver(example, address)
            processes[SINK].command = self._sink(address)
            processes[CONNECTOR].command = self._connector(example, address)
            for name in (DRIVER, SINK, CONNECTOR):
                processes[name].start()
            observer.gateway.connect(address)
            try:
                self._follow(processes, observer)
            finally:
                observer.gateway.close()
            # What is committed is handed to the sink before the driver ends.
            for name in (DRIVER, SINK, GATEWAY):
                processes[name].stop(_STOPS_WITHIN_S)
        last = observer.look()
        return MarketOutcome(
            messages=last.total,
            acknowledged=last.committed,
            rejected=tuple(observer.rejected),
            checked=check(observer.rejected, load_feed(example), self.messages),
            elapsed_s=last.elapsed_s,
            stream_s=observer.meter.stream_s,
            ack_latency_p50_s=observer.meter.latency(0.5),
            ack_latency_p99_s=observer.meter.latency(0.99),
        )

    @property
    def _gateway_file(self) -> Path:
        return self.folder / "gateway.address"

    def _gateway(self) -> list[str]:
        return headrace("gateway", "--listen", "127.0.0.1:0", "--ready-file", str(self._gateway_file))

    def _driver(self, example: Path, address: str) -> list[str]:
        state = ["--checkpoint", str(self.folder / "checkpoint")]
        return headrace("run", str(example / "app.py"), "--gateway", address, *state)

    def _sink(self, address: str) -> list[str]:
        what = ["--path", str(self.folder / "rejected"), "--sink", "rejected", "--format", "length-prefixed"]
        return headrace("connector", "run", "file-sink", *what, "--gateway", address)

    def _connector(self, example: Path, address: str) -> list[str]:
        return [sys.executable, str(example / "source.py"), "--gateway", address, "--messages", str(self.messages)]

    def _follow(self, processes: dict[str, OwnedProcess], observer: MarketObserver) -> None:
        """Shows the progress, until the connector says that everything is acknowledged."""
        moved, since_s = 0, time.monotonic() - observer.began
        while (ended := _check_alive(processes)) is None:
            progress = observer.look()
            self.view.show(progress)
            if progress.moved > moved:
                moved, since_s = progress.moved, progress.elapsed_s
            if progress.elapsed_s - since_s > _STANDS_STILL_AT_MOST_S:
                raise DemoError(f"nothing moved for {_STANDS_STILL_AT_MOST_S:.0f} s", processes[DRIVER].tail())
            time.sleep(_LOOK_EVERY_S)
        if ended != 0:
            raise failed(processes[CONNECTOR], f"the connector ended by itself with exit code {ended}")
        last = observer.look()
        self.view.tell(last, f"the streams have ended, {last.committed:,} messages are acknowledged")


def _check_alive(processes: dict[str, OwnedProcess]) -> int | None:
    """The connector's exit code once it has ended; raises DemoError where another process has."""
    for name in (GATEWAY, DRIVER, SINK):
        code = processes[name].exit_code()
        if code is not None:
            raise failed(processes[name], f"the {name} ended by itself with exit code {code}")
    return processes[CONNECTOR].exit_code()
