"""What is refused on a cluster whose worker is on another host: a checkpoint and a gateway that only the driver's machine has."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.cluster.hosts import OtherHost

from headrace.laboratory.cluster import SparkCluster

DEADLINE_S = 170.0
# One program, since a driver costs most of the time. It says what each attempt ended with.
PROGRAM = """
    import json, sys
    from headrace.engine import build_session, start
    from headrace.pipelines import Pipeline

    gateway = sys.argv[1]
    app = Pipeline("votes")
    app.source("votes/*").map(lambda message: message.value).sink("copy")
    spark = build_session("refusals")
    said = {}

    def attempt(name, action):
        try:
            said[name] = action()
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"

    def plain(checkpoint, **options):
        rows = spark.readStream.format("headrace").options(stream="votes/*", **options).load()
        query = rows.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def written(checkpoint, **options):
        rows = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
        query = rows.writeStream.format("headrace").options(sink="copy", checkpointLocation=checkpoint, **options).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    quick = {"gatewayTimeout": "1s"}
    remote, shared = {"gateway": gateway, **quick}, {"sharedCheckpoint": "true"}
    attempt("application, disk", lambda: start(app, spark, "disk/a", options=remote))
    attempt("application, gateway", lambda: start(app, spark, "disk/b", options=shared))
    attempt("source, disk", lambda: plain("disk/c", **remote))
    attempt("source, gateway", lambda: plain("disk/d", **shared))
    attempt("sink, disk", lambda: written("disk/e", **remote))
    attempt("sink, gateway", lambda: written("disk/f", **quick, **shared))
    attempt("taken", lambda: written("disk/g", **remote, **shared))
    print(json.dumps(said))
"""


def said(other_host: OtherHost, folder: Path) -> dict[str, str]:
    """What each attempt ended with, of a program that runs in a folder."""
    (folder / "program.py").write_text(textwrap.dedent(PROGRAM))
    environ = {"PYSPARK_PYTHON": sys.executable}
    with SparkCluster(folder / "cluster", workers=0, host=other_host.here, environ=environ) as cluster:
        cluster.add_worker(host=other_host.address, enter=other_host.enter)
        # Nobody listens there: what is not refused fails a second later, since the gateway is away.
        command = [*cluster.submit, "program.py", f"{other_host.address}:9"]
        done = subprocess.run(command, env=cluster.environ, cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr + done.stdout
    # Lines of the program's standard error come on the same way.
    words: dict[str, str] = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    return words


def test_a_checkpoint_on_a_local_disk_and_a_gateway_at_a_loopback_address_are_refused_and_nothing_else(
    other_host: OtherHost, tmp_path: Path
) -> None:
    words, folder = said(other_host, tmp_path), tmp_path
    for what in ("application", "source", "sink"):
        assert "is on a local disk, and each machine of spark://" in words[f"{what}, disk"]
        assert "sharedCheckpoint=true (headrace run --shared-checkpoint)" in words[f"{what}, disk"]
        assert "option gateway: 127.0.0.1:7433 is a loopback address, and the executors of spark://" in words[f"{what}, gateway"]
    # An application's checkpoint is not even begun.
    assert not (folder / "disk" / "a").exists()
    assert not (folder / "disk" / "b").exists()
    assert not list((folder / "disk").glob("[a-f]/offsets/[0-9]*"))
    assert "is unavailable" in words["taken"]
    assert "each machine" not in words["taken"]
