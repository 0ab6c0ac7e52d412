"""A gateway, connectors and drivers as processes of their own, and what the tests ask about them."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import grpc
from tests.faults.processes import DEADLINE_S, Process, free_port, wait_for
from tests.faults.queries import Query
from tests.faults.sources import SOURCES
from tests.health.site import Site

from headrace.protocol.v1 import admin_pb2
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

_T = TypeVar("_T")


class Gateway(Process):
    """`headrace gateway`, on the same port each time."""

    def __init__(self, name: str, folder: Path, config: str, environ: Mapping[str, str] | None = None) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.http = f"127.0.0.1:{free_port()}"
        self._ready = folder / f"{name}.ready"
        config_file = folder / f"{name}.toml"
        config_file.write_text(config)
        listens = ["--listen", self.address, "--http-listen", self.http, "--ready-file", str(self._ready)]
        super().__init__(name, ["-m", "headrace.cli", "gateway", *listens, "--config", str(config_file)], folder, environ)

    def start(self) -> None:
        """Starts it and waits until it listens."""
        self._ready.unlink(missing_ok=True)
        super().start()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Waits until it listens."""
        wait_for("the gateway listens", self._ready.exists, [self])

    def status(self) -> admin_pb2.GetStatusResponse | None:
        """Its status; None where it is away."""
        with grpc.insecure_channel(self.address) as channel, contextlib.suppress(grpc.RpcError):
            return AdminServiceStub(channel).GetStatus(admin_pb2.GetStatusRequest(), timeout=300)
        return None

    def stream(self, name: str) -> admin_pb2.StreamStatus | None:
        """The status of a stream."""
        status = self.status()
        return next((s for s in status.streams if s.stream == name), None) if status else None

    def pipeline(self, name: str) -> admin_pb2.PipelineStatus | None:
        """The status of a pipeline."""
        status = self.status()
        return next((p for p in status.pipelines if p.pipeline == name), None) if status else None


class Driver(Process):
    """A Spark driver; started again, it runs the queries that it ran before."""

    def __init__(self, name: str, folder: Path, master: str = "local[2]", environ: Mapping[str, str] | None = None) -> None:
        super().__init__(name, ["-m", "tests.faults.driver", master], folder, environ)
        self._queries: dict[str, Query] = {}

    def start(self) -> None:
        """Starts it, with its queries."""
        super().start()
        for query in self._queries.values():
            self.run(query)

    def run(self, query: Query) -> None:
        """Starts a query, now and after each restart."""
        query.outcome_file.parent.mkdir(parents=True, exist_ok=True)
        self._queries[query.name] = query
        if self.alive:
            query.outcome_file.unlink(missing_ok=True)
            self.say(query.to_json())

    def stop(self, query: Query) -> None:
        """Stops a query."""
        if self._queries.pop(query.name, None) is not None and self.alive:
            self.say(json.dumps({"stop": query.name}))


class Rig:
    """Everything that one test runs, in one folder."""

    def __init__(
        self,
        folder: Path,
        config: str = "",
        shared_driver: Driver | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self._environ = environ
        """What is added to the environment of its gateway and drivers."""
        self.gateway = Gateway("gateway", folder, config, environ)
        self.processes: list[Process] = [self.gateway]
        self.shared_driver = shared_driver
        if shared_driver is not None:
            self.processes.append(shared_driver)
        self._queries: list[Query] = []
        self._shared_queries: list[Query] = []
        self._site = Site(self.gateway.address, self.gateway.http)

    def names(self, kind: str, part: str, cause: str = "", *, root: str = "", waits: str | None = "") -> None:
        """Waits until a fault is named wherever people look; takes the arguments of `Site.names`."""
        asyncio.run(self._site.names(kind, part, cause, root=root, waits=waits))

    def clears(self, *parts: str) -> None:
        """Waits until nothing is wrong with these parts, wherever people look."""
        asyncio.run(self._site.clears(*parts))

    def driver(self, name: str = "driver", master: str = "local[2]") -> Driver:
        """A driver, not started."""
        driver = Driver(name, self.folder, master, self._environ)
        self.processes.append(driver)
        return driver

    def connector(self, source: str) -> Process:
        """A connector of a source of this test, not started."""
        arguments = ["-m", "tests.faults.connector", source, str(self.source_folder(source)), self.gateway.address]
        connector = Process(f"connector-{source}", arguments, self.folder)
        self.processes.append(connector)
        return connector

    def file_sink(self, sink: str, folder: Path) -> Process:
        """A connector that writes lines into a folder, not started."""
        options = ["--path", str(folder), "--sink", sink, "--format", "lines", "--gateway", self.gateway.address, "--verbose"]
        process = Process(f"sink-{sink}", ["-m", "headrace.cli", "connector", "run", "file-sink", *options], self.folder)
        self.processes.append(process)
        return process

    def stdout_sink(self, sink: str) -> Process:
        """A connector that prints lines into its log, not started."""
        options = ["--sink", sink, "--gateway", self.gateway.address]
        process = Process(f"sink-{sink}", ["-m", "headrace.cli", "connector", "run", "stdout-sink", *options], self.folder)
        self.processes.append(process)
        return process

    def program(self, name: str, command: Sequence[str | Path]) -> Process:
        """A connector by its command, in any language, not started."""
        program, *arguments = command
        environ = {"HEADRACE_GATEWAY": self.gateway.address}
        process = Process(name, arguments, self.folder, environ, program=program)
        self.processes.append(process)
        return process

    def engine(self, query: Query) -> Process:
        """A process that runs a query without Spark, not started."""
        engine = Process(f"engine-{query.name}", ["-m", "tests.faults.without_spark", query.to_json()], self.folder)
        self.processes.append(engine)
        return engine

    def source_folder(self, source: str) -> Path:
        """Where a source keeps what it has."""
        assert source in SOURCES
        return self.folder / source

    def query(
        self, name: str, kind: str, streams: str, options: Mapping[str, str] | None = None, *, available_now: bool = False
    ) -> Query:
        """A query of this test, not started."""
        query = Query(name, kind, streams, str(self.folder / "queries"), self.gateway.address, options or {}, available_now)
        self._queries.append(query)
        return query

    def wait_for(self, what: str, condition: Callable[[], _T | None], deadline_s: float = DEADLINE_S) -> _T:
        """The result of the condition once it is neither None nor False."""
        try:
            return wait_for(what, condition, self.processes, deadline_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._describe()}") from None

    def wait_until(self, what: str, condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
        """Returns once the condition is true."""
        self.wait_for(what, condition, deadline_s)

    def _describe(self) -> str:
        """Where everybody is, for whoever must find out why a test waited in vain."""
        queries = [
            f"=== query {q.name}: planned {q.plans}, committed {q.commits}, {q.outcome() or 'runs'}" for q in self._queries
        ]
        status = self.gateway.status() if self.gateway.alive else None
        return "\n".join([*queries, f"=== status\n{status}"])

    def run(self, query: Query) -> None:
        """Starts a query on the shared driver, until the test ends or stops it."""
        assert self.shared_driver is not None
        self._shared_queries.append(query)
        self.shared_driver.run(query)

    def stop(self, query: Query) -> None:
        """Stops a query of the shared driver and waits until it has ended."""
        assert self.shared_driver is not None
        self.shared_driver.stop(query)
        self.wait_for(f"query {query.name} ends", query.outcome)

    def failure(self, query: Query, deadline_s: float = DEADLINE_S) -> str:
        """The error with which a query fails."""
        outcome = self.wait_for(f"query {query.name} fails", query.outcome, deadline_s)
        assert outcome["state"] == "failed", outcome
        return outcome["error"]

    def holds(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether a condition stays true for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not condition():
                return False
            time.sleep(0.02)
        return True

    def dispose(self) -> None:
        """Stops every query and ends every process of its own."""
        for query in self._shared_queries:
            query.unblock()
            if self.shared_driver is not None and self.shared_driver.alive:
                self.shared_driver.stop(query)
                wait_for(f"query {query.name} ends", query.outcome, [self.shared_driver])
        for process in reversed(self.processes):
            if process is not self.shared_driver:
                process.dispose()
