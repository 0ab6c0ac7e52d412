"""Where the time of a message goes in real-time mode: every process notes when it has got how far, and the notes make one table.

`python -m headrace.laboratory.bench.latency.hops -m MODULE ...` runs a program of Python that notes it.
"""

import importlib
import json
import os
import runpy
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.laboratory.bench.rig import wrapped
from headrace.laboratory.bench.sources import quantile_ms

_ROLES = {"pipelines.connectors": "source", "connector run": "source", "latency.lines": "sink", "connectors.produced": "sink"}
"""The processes other than the gateway, by words of their commands."""
MODULE = "headrace.laboratory.bench.latency.hops"
_FOLDER = "HEADRACE_BENCH_HOPS"
_ENGINE = "headrace.engine.applications.real_time"
_Moments = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Hop:
    """A place that messages pass, in order.

    Attributes:
        name: Its name.
        role: The process.
        module: The module of the function.
        function: Its qualified name.
        number: Returns the number of the last message that has passed, from the arguments and the result; None if none has.
        returns: Whether messages have passed when it returns; otherwise when it is called.
        adds: Whether `number` returns how many messages have passed with this call.
    """

    name: str
    role: str
    module: str
    function: str
    number: Callable[[Sequence[Any], Any], int | None]
    returns: bool = True
    adds: bool = False


def _of_frames(frames: Sequence[Any]) -> int | None:
    return frames[-1].last + 1 if frames else None


def _of_request(request: Any) -> int | None:
    return None if request is None else request.frame.first_sequence + request.frame.count


def _of_arrived(arguments: Sequence[Any], _: Any) -> int | None:
    return _of_frames([each.frame for each in arguments[1]])


def _of_part(part: Any) -> int | None:
    return None if part is None else sum(row.messages for row in part.rows)


HOPS = (
    Hop("read", "source", "headrace.sdk.sources.gather", "Gather.add", lambda given, _: given[1].sequences[-1] + 1),
    Hop("gathered", "source", "headrace.sdk.sources.stream", "Stream.frame", lambda _, request: _of_request(request)),
    Hop("at_gateway", "gateway", "headrace.gateway.core.streams.stream", "Stream.append", lambda given, _: given[1].last + 1),
    Hop("followed", "gateway", "headrace.gateway.core.batches.following", "_after", lambda _, frames: _of_frames(frames)),
    Hop("at_driver", "driver", f"{_ENGINE}.worker", "RealTimeWorker._take_over", _of_arrived, returns=False),
    Hop("begun", "driver", f"{_ENGINE}.worker", "RealTimeWorker._process", _of_arrived, returns=False),
    Hop("processed", "driver", f"{_ENGINE}.worker", "RealTimeWorker._process", _of_arrived),
    Hop("sent", "driver", f"{_ENGINE}.at_once", "AtOnce._next", lambda _, part: _of_part(part), adds=True),
    Hop(
        "passed_on", "gateway", "headrace.gateway.core.sinks.session", "SinkSession.deliver", lambda given, _: given[2],
        returns=False, adds=True,
    ),
    Hop(
        "at_sink", "sink", "headrace.sdk.sinks.in_order", "AtLeastOnceHandler.rows", lambda given, _: len(given[2]),
        returns=False, adds=True,
    ),
)  # fmt: skip
"""The hops of a message, after it was due; the last one ends when it is visible."""
TEXTS = {
    "read": "the source yields it (due until then)",
    "gathered": "the SDK cuts its frame (linger)",
    "at_gateway": "it arrives at the gateway",
    "followed": "the gateway hands it on",
    "at_driver": "it arrives at the driver",
    "begun": "the worker begins its slice",
    "processed": "all steps have run",
    "sent": "the sink's thread takes its result",
    "passed_on": "the gateway passes the result on",
    "at_sink": "the sink writes it",
    "visible": "it can be read at its target",
}


class _Notes:
    """The notes of one process."""

    def __init__(self) -> None:
        self.by_hop: dict[str, list[tuple[float, int]]] = {}
        self.processor_s: list[float] = []
        """The processor time of the process at its first and its last note."""

    def note(self, hop: Hop, number: int | None) -> None:
        if number is not None:
            self.by_hop.setdefault(hop.name, []).append((time.time(), number))
            self.processor_s[1:] = [time.process_time()]

    def document(self) -> dict[str, Any]:
        """The notes, for a file."""
        return {"hops": self.by_hop, "processor_s": self.processor_s}

    def wrap(self, hop: Hop, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with notes; for a coroutine, they are made when it is called."""

        @wraps(function)
        def noting(*arguments: Any, **named: Any) -> Any:
            if not hop.returns:
                self.note(hop, hop.number(arguments, None))
            result = function(*arguments, **named)
            if hop.returns:
                self.note(hop, hop.number(arguments, result))
            return result

        return noting


@contextmanager
def _noting(role: str, notes: _Notes) -> Iterator[None]:
    """Has the functions of a role make notes."""
    with ExitStack() as undone:
        for hop in HOPS:
            if hop.role == role:
                *path, last = hop.function.split(".")
                owner: Any = importlib.import_module(hop.module)
                for part in path:
                    owner = getattr(owner, part)
                before = getattr(owner, last)
                setattr(owner, last, notes.wrap(hop, before))
                undone.callback(setattr, owner, last, before)
        yield


@dataclass(frozen=True, slots=True)
class Noted:
    """The notes of all processes, once the others have ended."""

    folder: Path
    of_driver: _Notes

    def seconds(
        self, due: _Moments, visible: _Moments, numbers: npt.NDArray[np.int64], *, first: int = 0
    ) -> Mapping[str, Sequence[float]]:
        """Returns how long each hop has taken, in seconds, sorted, by its name.

        Args:
            due: When each of some messages was due.
            visible: When each was visible.
            numbers: Their numbers; the first message has 1.
            first: The first sequence of the stream, whose sequences are dense.

        Raises:
            RuntimeError: A process has noted nothing.
        """
        passed = {
            "": due,
            **{hop.name: self._moments(hop, numbers if hop.adds else numbers + first) for hop in HOPS},
            "visible": visible,
        }
        return {name: sorted((after - before).tolist()) for (_, before), (name, after) in pairwise(passed.items())}

    def processor_us(self, messages: int) -> Mapping[str, float]:
        """Returns the processor time of each process for a message, in microseconds, by its role; without the JVM."""
        found = {file.name.partition("-")[0]: json.loads(file.read_text())["processor_s"] for file in self.folder.iterdir()}
        found["driver"] = self.of_driver.processor_s
        return {role: 1e6 * (times[-1] - times[0]) / messages for role, times in sorted(found.items())}

    def _moments(self, hop: Hop, numbers: npt.NDArray[np.int64]) -> _Moments:
        files = self.folder.glob(f"{hop.role}-*.json")
        notes = [tuple(note) for file in files for note in json.loads(file.read_text())["hops"].get(hop.name, ())]
        notes += self.of_driver.by_hop.get(hop.name, [])
        if not notes:
            raise RuntimeError(f"no message has passed the hop {hop.name}; the errors of its process are above")
        times, counts = np.array(sorted(notes)).T
        reached = np.cumsum(counts) if hop.adds else np.maximum.accumulate(counts)
        found: _Moments = times[np.minimum(np.searchsorted(reached, numbers), len(times) - 1)]
        return found


@contextmanager
def noted() -> Iterator[Noted]:
    """Has all processes that the rig starts in the block make notes, and the worker of real-time mode in this process."""
    notes = _Notes()
    with tempfile.TemporaryDirectory() as name, ExitStack() as ended:
        os.environ[_FOLDER] = name
        ended.callback(os.environ.pop, _FOLDER)
        with wrapped("-m", MODULE), _noting("driver", notes):
            yield Noted(Path(name), notes)


def table(seconds: Mapping[str, Sequence[float]]) -> list[str]:
    """The lines of the table: what each hop takes, in milliseconds."""
    lines = [f"  {'hop':<42} {'p50':>8} {'p99':>8} {'p99.9':>8}  ms"]
    for name, values in seconds.items():
        p50, p99, p999 = (quantile_ms(values, q) for q in (0.5, 0.99, 0.999))
        lines.append(f"  {TEXTS[name]:<42} {p50:8.2f} {p99:8.2f} {p999:8.2f}")
    return lines


def main() -> None:
    """Runs what the arguments name."""
    _, _, module, *arguments = sys.argv
    words = " ".join((module, *arguments[:4]))
    role = next((role for part, role in _ROLES.items() if part in words), "gateway")
    notes = _Notes()
    sys.argv = [module, *arguments]
    with _noting(role, notes):
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        finally:
            (Path(os.environ[_FOLDER]) / f"{role}-{os.getpid()}.json").write_text(json.dumps(notes.document()))


if __name__ == "__main__":
    main()
