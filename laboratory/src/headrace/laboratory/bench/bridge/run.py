"""`headrace bench bridge`: Debezium for PostgreSQL through the bridge, beside its own engine and a worker of Connect."""

import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from headrace.laboratory.bench.bridge.commit import change_to_commit
from headrace.laboratory.bench.bridge.contenders import Contender, Job, Speed, bridge, engine, worker
from headrace.laboratory.bench.bridge.memory import bridge_rss_mb
from headrace.laboratory.bench.bridge.programs import HEAP_MB, Programs, build
from headrace.laboratory.bench.bridge.server import Server, server
from headrace.laboratory.bench.connectors.brokers import BrokersMissing, addresses
from headrace.laboratory.bench.figures import Figure, Progress, itself, machine, measured

_ROWS, _QUICK_ROWS = 100_000, 2_000
_ROUNDS = 5
_OF_ENGINE, _OF_WORKER = 0.95, 1.0
_OTHER_PARTS_S = 150.0
"""About how long the parts after the speeds take, in seconds."""


def run(parts: Sequence[str], quick: bool, say: Progress, *, kafka: str | None = None) -> tuple[list[Figure], dict[str, Any]]:
    """Measures parts. Returns their figures and the conditions.

    Args:
        parts: Names of `PARTS`.
        quick: Whether to only check that everything works.
        say: Called with lines of progress.
        kafka: The address of a Kafka for the worker of Connect; None to start the one of this checkout.

    Raises:
        ProgramsMissing: There is nothing to measure.
    """
    load = os.getloadavg()[0]
    programs, figures, left_out = build(say), list[Figure](), dict[str, str]()
    snapshots = [name for name in parts if name in _SNAPSHOTS]
    with ExitStack() as stack:
        database = stack.enter_context(server())
        contenders: dict[str, Contender] = {"bridge": bridge, "engine": engine}
        if snapshots:
            try:
                given = {} if kafka is None else {"kafka": kafka}
                contenders["worker"] = worker(stack.enter_context(addresses(["kafka"], given))["kafka"])
            except BrokersMissing as error:
                left_out["worker"] = str(error)
                say(f"the worker of Connect is left out: {error}")
        for name in parts:
            if name in _SNAPSHOTS:
                part = partial(_speeds, name, contenders, programs, database, quick, say, snapshots[-1] == name)
            else:
                part = partial(_OTHERS[name], programs, database, say, quick)
            if say.begins(name):
                say(f"{name} ...")
                figures += measured(name, part, say)
    conditions = {
        "load_average_before": load,
        "quick": quick,
        "left_out": left_out,
        "heap_mb": HEAP_MB,
        "processes": "connector, gateway, far end and PostgreSQL share all cores",
    }
    return figures, machine() | conditions


_SNAPSHOTS = {"debezium_snapshot": "initial", "debezium_stream": "no_data"}
"""The parts that measure speed, with what the connector reads."""
_OTHERS: Mapping[str, Callable[[Programs, Server, Progress, bool], Iterator[Figure]]] = {
    "bridge_rss_mb": bridge_rss_mb,
    "change_to_commit": change_to_commit,
}
PARTS = (*_SNAPSHOTS, *_OTHERS)


def _speeds(
    name: str,
    contenders: Mapping[str, Contender],
    programs: Programs,
    database: Server,
    quick: bool,
    say: Progress,
    is_last: bool,
) -> Iterator[Figure]:
    """Has all contenders read the same, in turns. Yields the figures of all rounds after each."""
    rows = _QUICK_ROWS if quick else _ROWS
    found: dict[str, list[Speed]] = {contender: [] for contender in contenders}
    for number in range(1 if quick else _ROUNDS):
        # What remains is for the other parts.
        if number and not say.begins(f"round {number + 1} of {name}", takes_s=_OTHER_PARTS_S * (1 if is_last else 2)):
            break
        for contender, read in contenders.items():
            speed = _speed(read, programs, Job.of(database, rows, _SNAPSHOTS[name]))
            found[contender].append(speed)
            say(f"  {contender}: {speed.rate:,.0f} records/s, {speed.cpu_us:.0f} us of CPU each")
        yield from _figures(name, found)


def _speed(read: Contender, programs: Programs, job: Job) -> Speed:
    """Makes the table anew, and the slot before the rows if they are to be changes."""
    job.server.make_table()
    if job.snapshot == "no_data":
        job.server.make_slot(job.slot)
    job.server.insert(job.rows)
    try:
        return read(programs, job)
    finally:
        job.server.drop_slot(job.slot)


def _figures(name: str, found: Mapping[str, Sequence[Speed]]) -> Iterator[Figure]:
    """Yields the medians of the bridge beside the medians of the others."""
    rates = {contender: [speed.rate for speed in speeds] for contender, speeds in found.items()}
    rate = statistics.median(rates["bridge"])
    for contender, least in (("engine", _OF_ENGINE), ("worker", _OF_WORKER)):
        if contender in rates:
            other = statistics.median(rates[contender])
            figure = name if contender == "engine" else f"{name}_of_worker"
            yield Figure(figure, rate, "records/s", other, f">= {least:g} of the {contender}", rate >= least * other)
    cpu, cpu_of_engine = (statistics.median(speed.cpu_us for speed in found[one]) for one in ("bridge", "engine"))
    yield Figure(f"{name}_cpu", cpu, "us", cpu_of_engine)
    yield from itself(name, rates["bridge"], "records/s")
