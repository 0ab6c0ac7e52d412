"""The resident memory of the bridge while nobody reads on, and it contains as many records as it may."""

import time
from collections.abc import Iterator

import psutil

from headrace.laboratory.bench.bridge.contenders import Job, Started, bridge_command, started
from headrace.laboratory.bench.bridge.far_end import FarEnd, far_end
from headrace.laboratory.bench.bridge.programs import Programs
from headrace.laboratory.bench.bridge.server import Server
from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.rig import gateway
from headrace.laboratory.bench.sdks.measure import peak_mb

_MEMORY_MB, _QUICK_MEMORY_MB = 128, 8
_HEAP_MB = 260
_ROW_BYTES = 1_000
_ROWS_FOR_MB = 600
"""More rows than one megabyte of the bridge's memory contains, so that it is full before all have come."""
_MAX_MB = 300
_IDLE_S = 3.0
_IDLE_CPU_S = 0.15
_FULL_WITHIN_S = 180.0


def bridge_rss_mb(programs: Programs, server: Server, say: Say, quick: bool) -> Iterator[Figure]:
    """Yields the resident memory at the bound, and the largest while a query then reads everything."""
    memory_mb = _QUICK_MEMORY_MB if quick else _MEMORY_MB
    rows = memory_mb * _ROWS_FOR_MB
    server.make_table()
    server.insert(rows, _ROW_BYTES)
    job = Job.of(server, rows, "initial")
    options = ("--memory", f"{memory_mb}mb", "--heap", f"{_HEAP_MB}mb")
    with (
        gateway() as running,
        started(
            bridge_command(job, *options), HEADRACE_CONNECTORS=str(programs.connectors), HEADRACE_GATEWAY=running.address
        ) as process,
        far_end(running.address, job.stream, FarEnd) as query,
    ):
        _wait_until_full(process, query)
        resident = float(process.java.memory_info().rss) / 1e6
        say(f"  {memory_mb} MB of records in memory: {resident:.0f} MB resident")
        while query.arrived < rows:
            process.must_run()
            query.read()
        peak = peak_mb(process.java.pid)
    server.drop_slot(job.slot)
    target, met = ("", None) if quick else (f"<= {_MAX_MB}", resident <= _MAX_MB)
    yield Figure("bridge_rss_mb", resident, "MB", None, target, met)
    yield Figure("bridge_rss_peak_mb", peak, "MB")


def _wait_until_full(process: Started, query: FarEnd) -> None:
    """Waits until messages can be read, and the bridge has done nothing for some seconds."""
    deadline, used = time.monotonic() + _FULL_WITHIN_S, -1.0
    while True:
        process.must_run()
        if time.monotonic() > deadline:
            raise TimeoutError(f"the bridge still reads after {_FULL_WITHIN_S:.0f} s")
        planned = query.plan()
        before, used = used, _cpu_s(process.java)
        if planned and used - before < _IDLE_CPU_S and before >= 0:
            return
        time.sleep(_IDLE_S)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
