"""Whatever fails once in a link, in its own code or in what it calls: it is named, and the link registers again."""

import contextlib
import inspect
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
from tests.cli.json_shape import result_of
from tests.deploy.supervisors import SLEEPS, Watched, plan, process_of, role, runs, stop
from tests.deploy.test_link import SINK, WITHIN_S, Served, served, until
from tests.deploy.test_ps import configured

from headrace.cli import cli
from headrace.deploy import Ending, Kind, Reached
from headrace.deploy import link as link_module
from headrace.deploy.control import refusal
from headrace.deploy.link import GatewayLink
from headrace.deploy.link_call import Call
from headrace.deploy.plan import Listed
from headrace.deploy.reports import ProcessReport
from headrace.log_writer.disk import THREAD
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub

INJECTED = "an injected fault"
LINK = "gateway-link"
EXEMPT = {"_keep_registered", "_chain_text", "_say", "end", "_send_no_more"}
"""What names the fault and continues, and the end of a call, of which `cancel` can fail."""
EXPECTED = {"metadata", "may_register", "stream_stream", "next", "cancel", "last_lines", "connectors_message"}
EXPECTED |= {"processes_message", "_register_once", "_register", "_take", "_send_log", "send", "__init__"}


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long."""
    monkeypatch.setattr(link_module, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(link_module, "MAX_WAIT_S", 0.05)


class Faults:
    """Every function of a link that a thread calls fails, the first time that it is called."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        error: type[Exception],
        thread: str = LINK,
        exempt: frozenset[str] = frozenset(),
    ) -> None:
        # The thread of the link reads logs on one of its own.
        self._error, self._threads = error, (thread, *([THREAD] if thread == LINK else []))
        self.fails = False
        self.failed: list[str] = []
        for owner in (GatewayLink, Call, link_module):
            for name, function in list(vars(owner).items()):
                if inspect.isfunction(function) and name not in EXEMPT | exempt:
                    monkeypatch.setattr(owner, name, self.of(name, function))

    def of(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that fails once."""

        def failing(*arguments: Any, **named: Any) -> Any:
            if self.fails and name not in self.failed and threading.current_thread().name in self._threads:
                self.failed.append(name)
                raise self._error(f"{INJECTED} in {name}")
            return function(*arguments, **named)

        return failing


class Channel:
    """A channel, whose calls fail too."""

    def __init__(self, channel: grpc.Channel, faults: Faults) -> None:
        self._channel, self._faults = channel, faults

    def stream_stream(self, *arguments: Any, **options: Any) -> Any:
        made = self._channel.stream_stream(*arguments, **options)
        return self._faults.of("stream_stream", lambda *given, **named: Responses(made(*given, **named), self._faults))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)


class Responses:
    """A call, whose responses and whose end fail too."""

    def __init__(self, call: Any, faults: Faults) -> None:
        self._next, self.cancel = faults.of("next", call.__next__), faults.of("cancel", call.cancel)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._next()


def report(log: Path) -> ProcessReport:
    sink = role("sink", Kind.SINK, SLEEPS)
    return ProcessReport(sink, "runs", 0.0, 0, "", None, None, "", None, 1, log, "", None)


def log_of(gateway: Served) -> list[str] | None:
    """The log of the sink, by the gateway; None if it does not answer."""
    request = pb.ReadLogRequest(process="sink", deployment="deploy.toml", lines=1, timeout_ms=1_000)
    with grpc.insecure_channel(gateway.address) as channel, contextlib.suppress(grpc.RpcError):
        return list(AdminServiceStub(channel).ReadLog(request, timeout=WITHIN_S).log.lines)
    return None


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, OSError])
def test_whatever_fails_once_is_named_and_the_link_registers_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    faults, told = Faults(monkeypatch, error), list[str]()
    (tmp_path / "sink.log").write_text("the end\n")
    processes, rounds = [report(tmp_path / "sink.log")], itertools.count(1)

    def reach(_: str) -> Reached:
        channel: Any = Channel(grpc.insecure_channel(gateway.address), faults)
        return Reached(lambda: channel, faults.of("metadata", tuple), faults.of("may_register", lambda: True))

    def drive() -> None:
        """Makes the gateway send what it can."""
        number = next(rounds)
        link.update(gateway.address, {"sink": Listed(f"sink-{number}")})
        link.report(processes, 10.0 * number)
        for request in link.requests():
            request.answer(refusal("not now"))
        with contextlib.suppress(grpc.RpcError):
            gateway.restart("sink", timeout_ms=1)
        log_of(gateway)

    def driven(condition: Callable[[], bool]) -> bool:
        drive()
        return condition()

    with served() as gateway, GatewayLink("deploy.toml", "r1", reach, told.append) as link:
        link.update(gateway.address, SINK)
        until(gateway.connectors)
        faults.fails = True
        until(lambda: driven(lambda: set(faults.failed) >= EXPECTED))
        faults.fails = False
        until(lambda: driven(lambda: log_of(gateway) == ["the end"]))
        link.requests()
        assert link.fault is None
    # The end of a log that cannot be read is answered.
    answered = {"last_lines"} if error is OSError else set()
    assert [one for one in faults.failed if one not in answered and f"{INJECTED} in {one};" not in "\n".join(told)] == []


def test_whatever_fails_once_for_the_supervisor_is_named_and_the_processes_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_and_end = frozenset({"__init__", "__enter__", "__exit__", "_end_call"})
    faults = Faults(monkeypatch, RuntimeError, threading.current_thread().name, begin_and_end)
    expected = {"update", "report", "requests", "replays", "_all_of", "_start", "send", "processes_message", "connectors_message"}
    # Another problem of the source is news for the gateway.
    waits = f"while [ ! -e {tmp_path}/known ]; do sleep 0.01; done"
    script = f"[ -e {tmp_path}/again ] && exec sleep 600; {waits}; touch {tmp_path}/again; exit 1"
    with served() as gateway:
        watched = Watched(plan(tmp_path, source=(Kind.SOURCE, script), sink=(Kind.SINK, SLEEPS)), reach=gateway.reach())
        watched.when(lambda status: runs("sink")(status) and bool(gateway.connectors()), lambda _: (tmp_path / "known").touch())
        restarted = lambda status: runs("source")(status) and process_of(status, "source").restarts == 1  # noqa: E731
        watched.when(lambda status: restarted(status) and set(faults.failed) >= expected, stop)
        faults.fails = True
        assert watched.run() == Ending(0, "stopped")
        faults.fails = False
    assert process_of(watched.statuses[-1], "sink").restarts == 0
    assert [one for one in faults.failed if f"{INJECTED} in {one};" not in "\n".join(watched.told)] == []


def test_ps_names_why_the_deployment_is_not_registered(tmp_path: Path) -> None:
    said = f"no connector can be restarted by the gateway: RuntimeError: {INJECTED}; this is tried again"

    def fail() -> bool:
        raise RuntimeError(INJECTED)

    watched = Watched(
        plan(tmp_path, source=(Kind.SOURCE, SLEEPS)),
        reach=lambda _: Reached(lambda: grpc.insecure_channel("127.0.0.1:1"), tuple, fail),
    )
    asked = []
    with ThreadPoolExecutor(1) as threads:
        ps = partial(CliRunner().invoke, cli, ["ps", "--deployment", str(configured(tmp_path)), "--json"])
        watched.when(lambda status: runs("source")(status) and said in watched.told, lambda _: None)
        watched.when(lambda _: True, lambda _: asked.append(threads.submit(ps)))
        watched.when(lambda _: asked[0].done(), stop)
        assert watched.run() == Ending(0, "stopped")
    (deployment,) = result_of(asked[0].result().output)["deployments"]
    assert deployment["gateway_fault"] == said
