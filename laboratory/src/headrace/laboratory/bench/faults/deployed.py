"""A deployment of an application and a plain Spark program: faults of their JVMs, their descriptors and their logs."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import grpc
import psutil
from pyspark.sql import SparkSession

from headrace.laboratory.bench.faults.disk import fill, is_missing, own_disk
from headrace.laboratory.bench.faults.fault import Fault, Site
from headrace.laboratory.bench.faults.limits import leave_descriptors, return_descriptors
from headrace.laboratory.bench.rig import LINES_TO_COUNTS, owned, status, wait_for
from headrace.machine.ports import free_address
from headrace.processes import OwnedProcess
from headrace.protocol.v1 import admin_pb2 as pb

_DEADLINE_S = 900.0
"""Two drivers start beside each other, perhaps on two busy cores. No figure contains that."""
_STOPS_WITHIN_S = 60.0
_APPLICATION, _PROGRAM, _SINK = "totals", "prices", "counts"
_MIN_DESCRIPTORS = 200
"""Enough for everything but Spark's JVM."""
_IN_USE = 4
"""Descriptors that the supervisor has in use as long as it runs."""
_DEPLOYMENT = (
    LINES_TO_COUNTS
    + """

[application.totals]
app = "app.py"
checkpoint = "checkpoint"
master = "local[1]"
parallelism = 1
conf = {{ "spark.ui.enabled" = false }}

[query.prices]
program = "prices.py"
pipelines = ["prices"]
reads = ["lines/*"]
master = "local[1]"
conf = {{ "spark.ui.enabled" = false, "spark.sql.pyspark.jvmStacktrace.enabled" = true }}
"""
)
_APP = """
import resource
from pathlib import Path

from headrace.pipelines import Pipeline

if Path({few!r}).exists():
    resource.setrlimit(resource.RLIMIT_NOFILE, ({most}, {most}))
app = Pipeline("totals")
app.source("lines/*", decode=bytes.decode).map(str.upper, name="shout").sink("counts")
"""
_PRICES = """
import os
import time
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.engine import register

spark = SparkSession.builder.getOrCreate()
register(spark)
rows = spark.readStream.format("headrace").options(gateway=os.environ["HEADRACE_GATEWAY"], stream="lines/*", pipeline="prices")
query = rows.load().writeStream.format("noop").option("checkpointLocation", {checkpoint!r}).start()
while not Path({lacks_price!r}).exists():
    print("prices are known", "." * 4096, flush=True)
    time.sleep(0.5)
try:
    spark.range(1).selectExpr("cast(raise_error('no price') as string)").write.format("noop").mode("overwrite").save()
except Exception:
    Path({begun!r}).touch()
    raise
"""
_JAVA = """#!/bin/sh
touch {begun}
exec {java} $(cat {options}) "$@"
"""
_TOO_LARGE = "-Xms100000g"
"""More than the largest heap that Spark asks for, so that the JVM does not start."""


@contextmanager
def _run(_: SparkSession, names: frozenset[str]) -> Iterator[tuple[str, list[Fault]]]:
    """Yields the URL of the gateway, and the faults; both drivers are attached."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        site = _Deployed(Path(name), free_address(), free_address())
        site.write()
        if names & {*_OF_DISK}:
            stack.enter_context(own_disk(site.logs))
        command = [sys.executable, "-m", "headrace.cli", "run", str(site.folder / "deploy.toml"), "--json"]
        environ = {**os.environ, "JAVA_HOME": str(site.folder / "java")}
        supervisor = OwnedProcess("deployment", command, site.folder, environ, ends_with_parent=True)
        stack.enter_context(owned(supervisor))
        for process in (_APPLICATION, _PROGRAM):
            wait_for(f"{process} to run", partial(site.runs, process), _DEADLINE_S)
        faults = [*_faults(site), *_of_supervisor(site, psutil.Process(supervisor.pid)), *_of_logs(site)]
        yield f"http://{site.http}", [fault for fault in faults if fault.name in names]
        supervisor.stop(_STOPS_WITHIN_S)


def _faults(site: "_Deployed") -> list[Fault]:
    fails = frozenset({"pipeline-fails"})

    def exhaust() -> None:
        site.few_descriptors.touch()
        site.kill(_APPLICATION)

    def grant() -> None:
        site.few_descriptors.unlink()
        site.await_run(_APPLICATION)

    def break_java() -> None:
        site.options.write_text(_TOO_LARGE)
        site.kill(_PROGRAM)

    def mend_java() -> None:
        site.options.write_text("")
        site.await_run(_PROGRAM)

    def know_price() -> None:
        site.lacks_price.unlink()
        site.await_run(_PROGRAM)

    return [
        # The cause must tell what the JVM has printed: Python only knows that it has ended.
        Fault("jvm_ends", fails, f"pipeline {_PROGRAM}", break_java, mend_java, "Initial heap size", begins=site.has_begun),
        Fault(
            "trace_of_a_program",
            fails,
            f"pipeline {_PROGRAM}",
            partial(site.begin, site.lacks_price.touch),
            know_price,
            "no price",
            begins=site.has_begun,
        ),
        Fault(
            "descriptors_at_a_driver",
            fails,
            f"pipeline {_APPLICATION}",
            exhaust,
            grant,
            "descriptors",
            begins=site.has_begun,
        ),
    ]


def _of_supervisor(site: "_Deployed", supervisor: psutil.Process) -> list[Fault]:
    def exhaust() -> None:
        leave_descriptors(supervisor, _IN_USE)
        site.kill(_SINK)

    def grant() -> None:
        return_descriptors(supervisor)
        site.await_run(_SINK)

    kinds = frozenset({"connector-away", "connector-fails", "sink-away"})
    return [Fault("descriptors_at_the_supervisor", kinds, "", exhaust, grant, "Too many open files")]


def _of_logs(site: "_Deployed") -> list[Fault]:
    filler = site.logs / "filler"
    # The measurement begins once the disk is full.
    full, kinds = partial(fill, filler), frozenset({"log-fails"})
    return [Fault("logs_full", kinds, "log of process", full, filler.unlink, str(site.logs), begins=filler.exists)]


def _lacks() -> dict[str, str]:
    lacks = is_missing()
    return dict.fromkeys(_OF_DISK, f"{lacks}, for a file system of the logs alone") if lacks else {}


_OF_DISK = ("logs_full",)
DEPLOYED = Site(
    ("jvm_ends", "trace_of_a_program", "descriptors_at_a_driver", "descriptors_at_the_supervisor", *_OF_DISK), _run, _lacks
)


@dataclass(frozen=True)
class _Deployed:
    folder: Path
    address: str
    http: str

    @property
    def logs(self) -> Path:
        """The folder of the logs."""
        return self.folder / "deploy.run"

    @property
    def options(self) -> Path:
        """A file of options for each JVM that starts."""
        return self.folder / "options"

    @property
    def lacks_price(self) -> Path:
        """A file whose presence ends the program with an error."""
        return self.folder / "lacks_price"

    @property
    def few_descriptors(self) -> Path:
        """A file whose presence leaves the application too few descriptors for its JVM."""
        return self.folder / "few_descriptors"

    @property
    def _begun(self) -> Path:
        return self.folder / "begun"

    def write(self) -> None:
        """Writes the deployment, and a Java whose options can be set."""
        java = self.folder / "java" / "bin" / "java"
        for folder in (self.folder / "in", java.parent):
            folder.mkdir(parents=True)
        (self.folder / "in" / "lines.txt").write_text("one\n")
        (self.folder / "deploy.toml").write_text(_DEPLOYMENT.format(listen=self.address, http=self.http))
        (self.folder / "app.py").write_text(_APP.format(few=str(self.few_descriptors), most=_MIN_DESCRIPTORS))
        names = {"lacks_price": str(self.lacks_price), "begun": str(self._begun), "checkpoint": str(self.folder / "prices")}
        (self.folder / "prices.py").write_text(_PRICES.format(**names))
        self.options.write_text("")
        java.write_text(_JAVA.format(begun=self._begun, java=_java(), options=self.options))
        java.chmod(0o755)

    def runs(self, process: str) -> bool:
        """Whether a process is connected."""
        return (found := self._process(process)) is not None and found.state == pb.PROCESS_STATE_KIND_RUNS

    def await_run(self, process: str) -> None:
        """Waits until a process is connected that was started again: a start of Spark takes its time."""
        wait_for(f"{process} to run again", partial(self.runs, process), _DEADLINE_S)

    def kill(self, process: str) -> None:
        """Kills a driver with its JVM, which the supervisor starts again."""
        found = self._process(process)
        assert found is not None, process
        first = psutil.Process(found.pid)
        self.begin(lambda: _kill([first, *first.children(recursive=True)]))

    def begin(self, inject: Callable[[], object]) -> None:
        """Injects a fault which begins later."""
        self._begun.unlink(missing_ok=True)
        inject()

    def has_begun(self) -> bool:
        """Whether a JVM was started since, or the program has met its error."""
        return self._begun.exists()

    def _process(self, name: str) -> pb.ProcessState | None:
        with suppress(grpc.RpcError):
            processes = (one for deployment in status(self.address).deployments for one in deployment.processes)
            return next((one for one in processes if one.name == name), None)
        return None


def _java() -> str:
    """Returns the path of the Java of this machine."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    assert found is not None, "Spark runs here"
    return os.path.realpath(found)


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
