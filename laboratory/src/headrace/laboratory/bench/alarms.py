"""False alarms: what `/readyz` says is wrong while a deployment starts, and while its connectors are restarted in turn."""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.gateway_status.document import NO_FAULTS
from headrace.laboratory.bench.faults.fault import problems
from headrace.laboratory.bench.figures import Figure
from headrace.laboratory.bench.parts import Say
from headrace.laboratory.bench.rig import LINES_TO_COUNTS, owned, wait_for
from headrace.machine.ports import free_address
from headrace.processes import OwnedProcess

_LOOKS_EVERY_S = 0.05
_SETTLES_S = 15.0
"""How long after the last step to look on: the longest time after which something that lacks is named."""
_STARTS_WITHIN_S = 300.0
_STOPS_WITHIN_S = 60.0
_DEPLOYMENT = (
    LINES_TO_COUNTS
    + """

[pipeline]
app = "app.py"
master = "local[1]"
parallelism = 1
conf = {{ "spark.ui.enabled" = false }}
"""
)
_APP = """
from headrace.pipelines import Pipeline

app = Pipeline("counts")
app.source("lines/*", decode=bytes.decode).map(str.upper, name="shout").sink("counts")
"""
_CONNECTORS = ("lines", "counts")


def false_alarms(_: SparkSession, say: Say, quick: bool) -> Iterator[Figure]:
    """How many problems `/readyz` lists in a start of a deployment, and in a restart of each of its connectors in turn.

    A problem counts once for its part and kind, however long it is listed. What tells of a process that starts does not count.
    A quick run restarts nothing.
    """
    with tempfile.TemporaryDirectory() as name:
        folder, http, listen = Path(name), free_address(), free_address()
        (folder / "in").mkdir()
        (folder / "app.py").write_text(_APP)
        (folder / "deploy.toml").write_text(_DEPLOYMENT.format(listen=listen, http=http))
        _append(folder, 0)
        command = [sys.executable, "-m", "headrace.cli", "run", str(folder / "deploy.toml"), "--json"]
        deployed = OwnedProcess("deployment", command, folder, os.environ, ends_with_parent=True)
        with owned(deployed), _watching(f"http://{http}") as found:
            wait_for("the deployment to write a result", partial(_has_results, folder, 1), _STARTS_WITHIN_S)
            time.sleep(0 if quick else _SETTLES_S)
            in_start = set(found)
            for number, connector in enumerate(() if quick else _CONNECTORS, 1):
                _restart(folder, connector)
                _append(folder, number)
                wait_for("the deployment to write a result", partial(_has_results, folder, number + 1), _STARTS_WITHIN_S)
            time.sleep(0 if quick else _SETTLES_S)
            alarms = dict(found)
            deployed.stop(_STOPS_WITHIN_S)
    for key, cause in alarms.items():
        say(f"  in the {'start' if key in in_start else 'restart'}: {' '.join(key)}: {cause}")
    say(f"  {len(in_start)} in the start, {len(alarms) - len(in_start)} in the restarts")
    yield Figure("false_alarms", len(alarms), "problems", None, "0", not alarms)


def _append(folder: Path, number: int) -> None:
    with (folder / "in" / "lines.txt").open("a") as file:
        file.write(f"line {number}\n")


def _has_results(folder: Path, count: int) -> bool:
    return sum(len(path.read_text().splitlines()) for path in (folder / "out").glob("counts-*")) >= count


def _restart(folder: Path, connector: str) -> None:
    """Restarts a connector of the deployment, and waits until it is connected.

    Raises:
        subprocess.CalledProcessError: It could not be restarted.
    """
    command = [sys.executable, "-m", "headrace.cli", "restart", connector, "--deployment", str(folder / "deploy.toml")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def _watching(url: str) -> Iterator[dict[tuple[str, str], str]]:
    """Yields the causes of the problems that a gateway lists meanwhile, by part and kind."""
    found, stop = dict[tuple[str, str], str](), threading.Event()

    def watch() -> None:
        while not stop.wait(_LOOKS_EVERY_S):
            for problem in problems(url) or []:
                if problem["kind"] not in NO_FAULTS:
                    found.setdefault((problem["part"], problem["kind"]), problem["cause"])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        stop.set()
        watcher.join()
