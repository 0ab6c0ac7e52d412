"""Measures one program: what arrives at the far end, and what it costs."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from headrace.laboratory.bench.rig import STOP_S, RunningGateway, gateway
from headrace.laboratory.bench.sdks.far_end import arrivals

_ENDS_WITHIN_S = 30.0


@dataclass(frozen=True)
class Measured:
    """One run of a program, after the first quarter of its messages.

    Attributes:
        rate: Messages per second that reached the far end.
        cpu_us: Processor time of the program per message, in microseconds.
        gateway_cores: How busy the gateway was: 1 is one core.
        far_end_cores: How busy the far end was.
        peak_mb: The largest resident memory of the program, in MB of 10^6 bytes.
        result: The measurements of the program itself.
    """

    rate: float
    cpu_us: float
    gateway_cores: float
    far_end_cores: float
    peak_mb: float
    result: dict[str, Any]


@dataclass(frozen=True)
class _Moment:
    """The processor time used by a moment, in seconds, and how many messages had arrived."""

    time_s: float
    arrived: int
    sent: int
    program_s: float
    gateway_s: float
    far_end_s: float


def measure(language: str, command: Sequence[str], total: int, *arguments: str, every_s: float = 0.0) -> Measured:
    """Runs a program that sends `total` messages to a new gateway, and reads them at its other end.

    Args:
        language: The language.
        command: The program.
        total: The number of messages.
        arguments: Further arguments of the program.
        every_s: How often the far end reads at most, in seconds.

    Raises:
        RuntimeError: The program failed, or not every message arrived once.
    """
    with gateway() as running, program([*command, str(total), *arguments], running.address) as running_program:
        pid = running_program.pid
        begin: _Moment | None = None
        for arrived in arrivals(running.address, stream(language), total, every_s):
            if begin is None and arrived >= total // 4:
                begin = _moment(running, pid, arrived)
            if arrived == total:
                end = _moment(running, pid, arrived)
                peak = peak_mb(pid)
        result = running_program.finished()
    assert begin is not None
    if begin.arrived == total:
        raise RuntimeError(f"{total:,} messages arrived at once; send more of them")
    took = end.time_s - begin.time_s
    return Measured(
        rate=(end.arrived - begin.arrived) / took,
        cpu_us=(end.program_s - begin.program_s) / max(1, end.sent - begin.sent) * 1e6,
        gateway_cores=(end.gateway_s - begin.gateway_s) / took,
        far_end_cores=(end.far_end_s - begin.far_end_s) / took,
        peak_mb=peak,
        result=result,
    )


def stream(language: str) -> str:
    """Returns the name of the stream that the program of a language sends."""
    return f"numbers-{language}/0"


@dataclass(frozen=True)
class Program:
    """A running program, and what it logs."""

    process: "subprocess.Popen[str]"
    log: IO[str]

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def finished(self) -> dict[str, Any]:
        """Waits until it has ended, and returns what it measured.

        Raises:
            RuntimeError: It failed.
        """
        output, _ = self.process.communicate(timeout=_ENDS_WITHIN_S)
        if self.process.returncode:
            self.log.seek(0)
            raise RuntimeError(f"{self.process.args!r} ended with {self.process.returncode}: {self.log.read()}")
        result: dict[str, Any] = json.loads(output)
        return result


@contextmanager
def program(command: Sequence[str], address: str) -> Iterator[Program]:
    """Runs a program, and kills it if it has not ended when the block ends."""
    environ = {**os.environ, "HEADRACE_GATEWAY": address}
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            yield Program(process, log)
        finally:
            process.kill()
            process.communicate(timeout=STOP_S)


def peak_mb(pid: int) -> float:
    """Returns the largest resident memory that a process has had, or has now where the system does not know it."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        peaks = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
        if peaks:
            return int(peaks[0]) * 1024 / 1e6
    return float(psutil.Process(pid).memory_info().rss) / 1e6


def _moment(running: RunningGateway, pid: int, arrived: int) -> _Moment:
    # The program is ahead of the far end by what the gateway holds.
    sent = sum(one.received_messages for one in running.status().streams)
    used, own = psutil.Process(pid).cpu_times(), os.times()
    return _Moment(time.monotonic(), arrived, sent, used.user + used.system, running.cpu_s(), own.user + own.system)
