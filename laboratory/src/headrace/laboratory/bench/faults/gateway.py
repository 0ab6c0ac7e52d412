"""A gateway with an HTTP server, at addresses that it keeps when it is restarted, and with a clock that can be set."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.laboratory.bench.faults.fault import problems
from headrace.laboratory.bench.rig import START_S, Restartable, wait_for
from headrace.machine.ports import free_address

_MODULE = "headrace.laboratory.bench.faults.clock"
_DRAINS_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway.

    Attributes:
        address: The address of its gRPC server.
        url: The URL of its HTTP server.
        process: Its process.
    """

    address: str
    url: str
    process: Restartable
    _shift: Path

    def set_clock(self, by_s: float) -> None:
        """Moves its time of day away from the machine's, by some seconds."""
        # Not in place, since it is read at any time.
        new = self._shift.with_suffix(".new")
        new.write_text(str(by_s))
        new.replace(self._shift)

    def stop(self) -> None:
        """Has it drain and stop, and does not wait."""
        self.process.process.terminate()

    def start_again(self) -> None:
        """Waits until it has stopped, and starts another one at its addresses."""
        self.process.process.wait(_DRAINS_WITHIN_S)
        self.process.start()


@contextmanager
def running(folder: Path, *more: str) -> Iterator[Gateway]:
    """Runs a gateway with more options, whose files are in a folder, until the block ends."""
    shift, address, http = folder / "shift", free_address(), free_address()
    shift.write_text("0")
    options = ["--listen", address, "--http-listen", http, "--log-level", "error", *more]
    with Restartable(["-m", _MODULE, str(shift), "gateway", *options]) as process:
        url = f"http://{http}"
        wait_for("the gateway to serve HTTP", lambda: problems(url) is not None, START_S)
        yield Gateway(address, url, process, shift)
