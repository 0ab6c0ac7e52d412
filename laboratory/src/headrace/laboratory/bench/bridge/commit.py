"""From a change in a table to its micro-batch in Spark's commit log, beside a nearly empty micro-batch of Spark's own."""

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from headrace.laboratory.bench.bridge.contenders import Job, bridge_command, started
from headrace.laboratory.bench.bridge.programs import Programs
from headrace.laboratory.bench.bridge.server import TABLE, Server
from headrace.laboratory.bench.figures import Figure, itself
from headrace.laboratory.bench.latency.parts import floor_ms
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.queries import headrace, session, stop
from headrace.laboratory.bench.rig import gateway, wait_for

_ROWS = 100
_CHANGES, _QUICK_CHANGES = 60, 3
_WARMS = 10
_MAX_S = 180.0
_LOOKS_EVERY_S = 0.002


def change_to_commit(programs: Programs, server: Server, say: Say, quick: bool) -> Iterator[Figure]:
    """Yields the median time of single inserts, one after the other, until their micro-batches are committed."""
    server.make_table()
    server.insert(_ROWS)
    job = Job.of(server, _ROWS, "initial")
    changes, warms = (_QUICK_CHANGES, 1) if quick else (_CHANGES, _WARMS)
    spark = session(quick_start=quick)
    try:
        floor = statistics.median(floor_ms(spark, 1, 2) if quick else floor_ms(spark, 20, 50))
        with (
            tempfile.TemporaryDirectory() as name,
            gateway() as running,
            started(
                bridge_command(job), HEADRACE_CONNECTORS=str(programs.connectors), HEADRACE_GATEWAY=running.address
            ) as process,
        ):
            checkpoint = Path(name)
            frame = headrace(spark, running.address, stream=job.stream)
            query = frame.writeStream.format("noop").option("checkpointLocation", name).start()
            try:
                wait_for("the snapshot", lambda: committed(checkpoint, job.stream) >= _ROWS, _MAX_S)
                took = list(_inserts(server, checkpoint, job.stream, warms + changes))[warms:]
                process.must_run()
            finally:
                stop(query)
    finally:
        spark.stop()
    server.drop_slot(job.slot)
    found = 1_000 * statistics.median(took)
    say(f"  from an insert to its commit: {found:.0f} ms (p50), at most {1_000 * max(took):.0f} ms")
    yield Figure("change_to_commit_p50", found, "ms", floor)
    half = len(took) // 2
    halves = [1_000 * statistics.median(part) for part in (took[:half], took[half:])]
    yield from itself("change_to_commit_p50", halves, "ms")


def _inserts(server: Server, checkpoint: Path, stream: str, count: int) -> Iterator[float]:
    """Inserts rows one after the other; yields how long each took until its commit, in seconds."""
    with server.connection() as db:
        for number in range(1, count + 1):
            before = committed(checkpoint, stream)
            begun = time.monotonic()
            db.execute(f"INSERT INTO {TABLE} VALUES (%s, 'one', 1)", [_ROWS + number])
            while committed(checkpoint, stream) <= before:
                if time.monotonic() > begun + _MAX_S:
                    raise TimeoutError(f"an insert was not committed after {_MAX_S:.0f} s")
                time.sleep(_LOOKS_EVERY_S)
            yield time.monotonic() - begun


def committed(checkpoint: Path, stream: str) -> int:
    """Returns the last message of a stream that is in the commit log; 0 if there is none."""
    numbers = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*") if path.name.isdigit()]
    if not numbers:
        return 0
    lines = (checkpoint / "offsets" / str(max(numbers))).read_text().splitlines()
    return int(json.loads(lines[-1])["streams"].get(stream, {}).get("sequence", 0))
