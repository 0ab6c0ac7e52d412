"""The registration of a deployment at its gateway, and the restarts that are requested there."""

import asyncio
import contextlib
import itertools
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
from tests.deploy.supervisors import SLEEPS, Probe, Watched, plan, process_of, runs, stop
from tests.gateway.test_rights import bearer, token
from tests.gateway.wire import serve

from headrace.cli import cli
from headrace.deploy import Ending, Kind, Reached, Status, ask_restart, backoff
from headrace.deploy import link as link_module
from headrace.deploy import link_call as call_module
from headrace.deploy import process as process_module
from headrace.deploy import supervisor as supervisor_module
from headrace.deploy.gateway import Known
from headrace.deploy.link import GatewayLink
from headrace.deploy.link_call import LinkRequest
from headrace.deploy.plan import Listed
from headrace.gateway.config import Token
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceServicer, AdminServiceStub, add_AdminServiceServicer_to_server
from headrace.protocol.v1.engine_pb2 import AttachRequest, DetachRequest, Pipeline
from headrace.protocol.v1.engine_pb2_grpc import EngineServiceStub

WITHIN_S = 60.0
SINK = {"sink": Listed("sink-0", "errors")}
OFF = "no connector can be restarted by the gateway: "
RESULT = {"name": "sink", "state": "runs", "pid": 2, "stopped_pid": None, "stopped_exit_code": None, "duration_ms": 500}


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long."""
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(supervisor_module, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("headrace.deploy.processes._ASK_EVERY_S", 0.01)
    monkeypatch.setattr(link_module, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(link_module, "REFUSED_FOR_S", 0.0)
    monkeypatch.setattr(link_module, "MAX_WAIT_S", 0.05)


class Served:
    """A gateway on a thread, which others call."""

    def __init__(self, *tokens: Token, port: int = 0) -> None:
        self._ready: Future[str] = Future()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(tokens, port),))
        self._thread.start()
        self.address = self._ready.result(WITHIN_S)

    async def _serve(self, tokens: tuple[Token, ...], port: int) -> None:
        async with serve(tokens=tokens, port=port) as (self.gateway, address):
            self._ready.set_result(address)
            await self._stop.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(WITHIN_S)

    def connectors(self) -> dict[str, dict[str, str]]:
        """The connectors of each deployment that is registered."""
        deployments = self.gateway.deployments.by_name.items()
        return {name: {each: known.instance for each, known in one.connectors.items()} for name, one in deployments}

    def process_ids(self) -> Counter[str]:
        """The process ids that supervisors have reported."""
        deployments = self.gateway.deployments.by_name.values()
        return Counter({name: one.state.pid for each in deployments for name, one in (each.processes or {}).items()})

    def reach(self, caller: str | None = None) -> Callable[[str], Reached]:
        return lambda _: Reached(lambda: grpc.insecure_channel(self.address), lambda: bearer(caller) if caller else ())

    def restart(self, name: str, timeout_ms: int = 60_000, caller: str | None = None) -> pb.RestartConnectorResponse:
        with grpc.insecure_channel(self.address) as channel:
            request = pb.RestartConnectorRequest(connector=name, timeout_ms=timeout_ms)
            metadata = bearer(caller) if caller else None
            return AdminServiceStub(channel).RestartConnector(request, timeout=WITHIN_S, metadata=metadata)


@contextlib.contextmanager
def served(*tokens: Token, port: int = 0) -> Iterator[Served]:
    gateway = Served(*tokens, port=port)
    try:
        yield gateway
    finally:
        gateway.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as made:
        yield made


def until(condition: Callable[[], Any]) -> Any:
    """The result of a condition once it is true."""
    deadline = time.monotonic() + WITHIN_S
    for _ in itertools.count():
        if found := condition():
            return found
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_restart_requested_at_the_gateway_is_made_and_answered(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    tokens = [token("deployment", supervise=True), token("operator", admin=True, control=True)]
    calls: list[Future[Any]] = []
    with served(*tokens) as gateway:
        sleeping = plan(tmp_path, source=(Kind.SOURCE, SLEEPS), sink=(Kind.SINK, SLEEPS))
        watched = Watched(sleeping, reach=gateway.reach("deployment"))

        def command(*arguments: str) -> Callable[[Status], None]:
            given = ["restart", *arguments, "--gateway", gateway.address, "--token", "operator"]
            return lambda _: calls.append(threads.submit(CliRunner().invoke, cli, given))

        def registered(status: Status) -> bool:
            return runs("gateway", "source", "sink")(status) and "deploy.toml" in gateway.connectors()

        watched.when(registered, command("sink"))
        watched.when(lambda _: calls[0].done(), command("sonk", "--deployment", "elsewhere/deploy.toml"))
        watched.when(lambda _: calls[1].done(), stop)
        assert watched.run() == Ending(0, "stopped")
    made, unknown = (call.result() for call in calls)
    first, second = dict.fromkeys(pid for status in watched.statuses if (pid := process_of(status, "sink").pid))
    assert made.exit_code == 0
    # The gateway in this process logs to the same output, and the line breaks where numbers of processes have many digits.
    line = " ".join(made.output.split())
    assert f"sink is restarted: process {first} ended with exit code -15, process {second} runs (" in line
    assert f" s), in deploy.toml, by the gateway at {gateway.address}" in line
    assert len({process_of(status, "source").pid for status in watched.statuses} - {None}) == 1
    assert unknown.exit_code == 2
    assert (
        unknown.output.splitlines()[-1]
        == f"Error: the gateway at {gateway.address}: no process 'sonk' of deployment deploy.toml; known: sink, source; "
        "did you mean sink?"
    )
    (told,) = watched.told
    assert told.startswith("change made: restart of sink, by operator (ipv4:127.0.0.1:")
    assert "gateway-link" not in {thread.name for thread in threading.enumerate()}


def test_the_gateway_knows_why_a_process_fails_until_it_runs(tmp_path: Path) -> None:
    script = f"[ -e {tmp_path}/corrected ] && exec sleep 600; echo 'Error: the queue is gone'; exit 1"
    told: list[list[str]] = []
    with served() as gateway:
        watched = Watched(plan(tmp_path, source=(Kind.SOURCE, script)), reach=gateway.reach())

        def failures() -> list[str]:
            deployments = gateway.gateway.deployments.by_name.values()
            return [one.failure for deployment in deployments for one in deployment.connectors.values()]

        def fails(_: Status) -> bool:
            return any(failures())

        def correct(_: Status) -> None:
            told.append(failures())
            (tmp_path / "corrected").touch()

        watched.when(fails, correct)
        watched.when(lambda status: runs("source")(status) and failures() == [""], stop)
        assert watched.run() == Ending(0, "stopped")
    assert told == [["ended with exit code 1: the queue is gone"]]


def test_the_gateway_knows_what_an_unconnected_process_has_logged_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.deploy.reports.WARNS_AFTER_S", 0.01)
    probe = Probe(Known())
    with served() as gateway:

        def warnings() -> set[str]:
            deployments = gateway.gateway.deployments.by_name.values()
            return {one.state.last_warning for each in deployments for one in (each.processes or {}).values()}

        def connect(_: Status) -> None:
            probe.known = Known(connected=frozenset({"source"}))

        script = f"echo '2026-01-31T12:00:00.250Z WARNING: no route'; {SLEEPS}"
        watched = Watched(plan(tmp_path, source=(Kind.SOURCE, script)), probe=probe, reach=gateway.reach())
        watched.when(lambda _: warnings() == {"", "no route"}, connect)
        watched.when(lambda status: runs("source")(status) and warnings() == {""}, stop)
        assert watched.run() == Ending(0, "stopped")


def test_a_log_that_cannot_be_written_is_a_problem_until_it_can(tmp_path: Path) -> None:
    """/dev/full is a disk without room."""
    log = tmp_path / "run" / "source.log"
    log.parent.mkdir()
    log.symlink_to("/dev/full")
    found: list[pb.Problem] = []
    with served() as gateway, grpc.insecure_channel(gateway.address) as channel:

        def of_logs() -> list[pb.Problem]:
            status = AdminServiceStub(channel).GetStatus(pb.GetStatusRequest(), timeout=WITHIN_S)
            return [problem for problem in status.problems if problem.kind == "log-fails"]

        def repair(_: Status) -> None:
            found.extend(of_logs())
            log.unlink()

        prints = "while :; do echo line; sleep 0.01; done"
        watched = Watched(plan(tmp_path, source=(Kind.SOURCE, prints)), reach=gateway.reach())
        watched.when(lambda status: runs("source")(status) and bool(of_logs()), repair)
        watched.when(lambda _: log.exists() and not of_logs(), stop)
        assert watched.run() == Ending(0, "stopped")
    (problem,) = found
    assert problem.part == "log of process source of deploy.toml"
    assert problem.cause == f"{log}: cannot write it: No space left on device"
    assert "line" in log.read_text()


def test_requests_at_the_gateway_and_on_the_socket_are_one_restart(tmp_path: Path, threads: ThreadPoolExecutor) -> None:
    # It ends once both requests are known.
    script = "trap 'while [ ! -e both ]; do sleep 0.01; done; kill $!; exit 0' TERM\ntouch ready\nsleep 600 &\nwait"
    calls: list[Future[Any]] = []
    with served() as gateway:
        watched = Watched(plan(tmp_path, sink=(Kind.SINK, script)), reach=gateway.reach())

        def request(_: Status) -> None:
            calls.append(threads.submit(gateway.restart, "sink"))
            calls.append(threads.submit(partial(ask_restart, tmp_path / "run", "sink", WITHIN_S)))

        def registered(status: Status) -> bool:
            return runs("gateway", "sink")(status) and (tmp_path / "ready").exists() and bool(gateway.connectors())

        watched.when(registered, request)
        watched.when(lambda _: len(watched.told) == 2, lambda _: (tmp_path / "both").touch())
        watched.when(lambda _: all(call.done() for call in calls), stop)
        watched.run()
    by_gateway, by_socket = (call.result() for call in calls)
    assert (by_gateway.deployment, by_gateway.restarted.pid) == ("deploy.toml", by_socket["pid"])
    assert process_of(watched.statuses[-1], "sink").restarts == 1


def test_a_token_without_the_right_is_told_once_and_the_deployment_runs(tmp_path: Path) -> None:
    attempts: list[str] = []
    with served(token("plain", admin=True)) as gateway:
        reached = gateway.reach("plain")

        class Counted:
            """A channel that counts the calls."""

            def __init__(self) -> None:
                self.channel = reached("").dial()

            def stream_stream(self, *arguments: Any, **options: Any) -> Any:
                attempts.append("")
                return self.channel.stream_stream(*arguments, **options)

            def __getattr__(self, name: str) -> Any:
                return getattr(self.channel, name)

        counted: Any = Counted()
        watched = Watched(
            plan(tmp_path, sink=(Kind.SINK, SLEEPS)), reach=lambda _: Reached(lambda: counted, lambda: bearer("plain"))
        )
        watched.when(lambda status: runs("gateway", "sink")(status) and bool(watched.told), lambda _: None)
        watched.when(lambda _: len(attempts) > 5, stop)
        assert watched.run() == Ending(0, "stopped")
    (told,) = watched.told
    assert told.startswith(OFF + "the token of 'plain' does not allow ")


def test_a_token_that_may_only_register_learns_which_processes_are_connected(tmp_path: Path) -> None:
    planned = plan(tmp_path, app=(Kind.PIPELINE, SLEEPS))
    planned = replace(planned, others=tuple(replace(one, pipelines=("totals",)) for one in planned.others))
    tokens = token("ours", supervise=True), token("query", pipelines=("*",), reads=("orders/*",))
    with served(*tokens) as gateway, grpc.insecure_channel(gateway.address) as channel:
        stub, who = EngineServiceStub(channel), Pipeline(name="totals", run=1, streams=["orders/*"])

        def attach(_: object) -> None:
            stub.Attach(AttachRequest(pipeline=who), metadata=bearer("query"), timeout=WITHIN_S)

        def detach(_: object) -> None:
            stub.Detach(DetachRequest(pipeline=who), metadata=bearer("query"), timeout=WITHIN_S)

        watched = Watched(planned, probe=Probe(Known(permitted=False)), reach=gateway.reach("ours"))
        watched.when(lambda status: process_of(status, "app").state == "starts" and gateway.process_ids()["app"] != 0, attach)
        watched.when(runs("app"), detach)
        watched.when(lambda status: process_of(status, "app").state == "reconnects", stop)
        assert watched.run() == Ending(0, "stopped")
    assert watched.states("app") == ["waits", "starts", "runs", "reconnects", "stops", "ended"]


def test_a_process_that_never_connects_fails_however_long_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "STABLE_S", 0.0)
    planned = plan(tmp_path, app=(Kind.PIPELINE, "sleep 0.2; echo 'Error: no memory'; exit 1"))
    planned = replace(planned, others=tuple(replace(one, pipelines=("totals",)) for one in planned.others))
    with served(token("ours", supervise=True)) as gateway:
        watched = Watched(planned, probe=Probe(Known(permitted=False)), reach=gateway.reach("ours"))
        watched.when(lambda status: process_of(status, "app").state == "fails", stop)
        watched.run()
    assert {status.cause for status in watched.statuses} >= {"app: ended with exit code 1: no memory"}
    assert "runs" not in watched.states("app")


def test_a_gateway_that_cannot_be_called_is_told_once(tmp_path: Path) -> None:
    watched = Watched(plan(tmp_path, sink=(Kind.SINK, SLEEPS)), reach=lambda _: None)
    watched.when(lambda status: runs("gateway", "sink")(status) and bool(watched.told), stop)
    assert watched.run() == Ending(0, "stopped")
    assert watched.told == [OFF + "the gateway uses TLS, and no authority to trust is given"]


@contextlib.contextmanager
def linked(gateway: Served, run: str = "r1", told: list[str] | None = None) -> Iterator[GatewayLink]:
    """A link without a supervisor: the test says when it looks at what has arrived."""
    with GatewayLink("deploy.toml", run, gateway.reach(), pytest.fail if told is None else told.append) as link:
        link.update(gateway.address, SINK)
        until(gateway.connectors)
        yield link


def arrived(link: GatewayLink) -> LinkRequest:
    (request,) = until(link.requests)
    assert isinstance(request, LinkRequest)
    return request


def test_it_registers_again_and_answers_no_gateway_what_another_one_has_asked(threads: ThreadPoolExecutor) -> None:
    with served() as first:
        port = int(first.address.rpartition(":")[2])
        with linked(first) as link:
            call = threads.submit(first.restart, "sink")
            old = arrived(link)
            first.close()
            with pytest.raises(grpc.RpcError) as caught:
                call.result(WITHIN_S)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
            with served(port=port) as second:
                until(second.connectors)
                assert not old.is_open
                again = threads.submit(second.restart, "sink")
                new = arrived(link)
                # Both gateways have numbered their first order the same.
                old.answer({"ok": False, "invalid": False, "done": True, "error": "stale"})
                new.answer({"ok": True, "result": RESULT})
                new.answer({"ok": False, "invalid": False, "done": True, "error": "doubled"})
                assert again.result(WITHIN_S).restarted.pid == 2
                link.update(second.address, {**SINK, "source": Listed("source-0", "")})
                until(lambda: "source" in second.connectors()["deploy.toml"])


def test_an_older_supervisor_leaves_the_name_to_a_newer_one() -> None:
    told: list[str] = []
    with served() as gateway, linked(gateway, told=told) as older, linked(gateway, "r2") as newer:
        until(lambda: older.requests() or told)
        assert told == [
            OFF + "another supervisor has taken over: deployment deploy.toml: run r2 has registered in place of run r1"
        ]
        assert [one.run for one in gateway.gateway.deployments.by_name.values()] == ["r2"]
        assert newer.requests() == []


class Flooding(AdminServiceServicer):
    """A gateway that orders far more restarts than one does."""

    def __init__(self) -> None:
        self.outcomes: queue.Queue[pb.OrderOutcome] = queue.Queue()
        self.go_on = threading.Event()
        self.calls = 0

    def Supervise(self, requests: Iterator[pb.SuperviseRequest], context: grpc.ServicerContext) -> Iterator[pb.SuperviseResponse]:
        next(requests)
        self.calls += 1
        if self.calls > 1:
            self.go_on.wait(WITHIN_S)
            return
        threading.Thread(target=self._take, args=(requests,), daemon=True).start()
        for number in range(call_module.MAX_REQUESTS + 3):
            yield pb.SuperviseResponse(restart=pb.RestartOrder(id=number, connector="sink", by="flood"))
        self.go_on.wait(WITHIN_S)

    def _take(self, requests: Iterator[pb.SuperviseRequest]) -> None:
        with contextlib.suppress(grpc.RpcError):
            for request in requests:
                self.outcomes.put(request.outcome)


@pytest.fixture
def flooded() -> Iterator[tuple[Flooding, GatewayLink]]:
    """A link that such a gateway has sent all its orders."""
    service, server = Flooding(), grpc.server(ThreadPoolExecutor(4))
    add_AdminServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    reached = Reached(lambda: grpc.insecure_channel(f"127.0.0.1:{port}"), tuple)
    try:
        with GatewayLink("deploy.toml", "r1", lambda _: reached, pytest.fail) as link:
            link.update("somewhere", SINK)
            refused = [service.outcomes.get(timeout=WITHIN_S) for _ in range(3)]
            assert {one.failure.kind for one in refused} == {pb.ORDER_FAILURE_KIND_REFUSED}
            yield service, link
    finally:
        service.go_on.set()
        server.stop(0).wait(WITHIN_S)


def test_requests_of_a_gateway_that_are_not_answered_are_bounded(flooded: tuple[Flooding, GatewayLink]) -> None:
    service, link = flooded
    taken = link.requests()
    assert len(taken) == call_module.MAX_REQUESTS
    taken[0].answer({"ok": True, "result": RESULT})
    assert service.outcomes.get(timeout=WITHIN_S).restarted.pid == 2
    assert link.requests() == []


def test_requests_of_a_call_that_is_over_are_not_carried_out(flooded: tuple[Flooding, GatewayLink]) -> None:
    service, link = flooded
    service.go_on.set()
    until(lambda: service.calls > 1)
    assert link.requests() == []


def test_a_link_whose_gateway_does_not_answer_leaves_no_thread() -> None:
    with GatewayLink(
        "deploy.toml", "r1", lambda _: Reached(lambda: grpc.insecure_channel("127.0.0.1:1"), tuple), pytest.fail
    ) as link:
        link.update("127.0.0.1:1", SINK)
        assert link.requests() == []
    assert "gateway-link" not in {thread.name for thread in threading.enumerate()}


def test_the_command_says_that_a_restart_is_late_or_that_its_end_is_not_known(threads: ThreadPoolExecutor) -> None:
    def restart(*arguments: str) -> str:
        done = CliRunner().invoke(cli, ["restart", "sink", "--gateway", gateway.address, *arguments])
        assert done.exit_code == 1
        asked, _, answer = done.output.splitlines()[-1].partition(f"{gateway.address}: ")
        assert asked == "Error: the gateway at "
        return answer

    with served() as gateway:
        with linked(gateway) as link:
            assert restart("--timeout-seconds", "0.05").startswith(
                "no answer of deployment deploy.toml within 50 ms; the restart"
            )
            call = threads.submit(restart)
            until(lambda: gateway.gateway.deployments.waiting)
            assert arrived(link).name == "sink"
        assert call.result(WITHIN_S).startswith("deployment deploy.toml has left before it answered")


def test_options_of_a_call_need_the_gateway(tmp_path: Path) -> None:
    told = CliRunner().invoke(cli, ["restart", "sink", "--token", "t", "--deployment", str(tmp_path / "deploy.toml")])
    assert (told.exit_code, "--token: only with --gateway" in told.output) == (2, True)
    # The variable alone does not choose the gateway.
    arguments = ["restart", "sink", "--deployment", str(tmp_path / "deploy.toml")]
    (tmp_path / "deploy.toml").touch()
    here = CliRunner().invoke(cli, arguments, env={"HEADRACE_GATEWAY": "127.0.0.1:1", "HEADRACE_TOKEN": "t"})
    assert (here.exit_code, "no deployment runs in" in here.output) == (1, True)
    away = CliRunner().invoke(cli, ["restart", "sink", "--gateway", "127.0.0.1:1", "--json"])
    assert (away.exit_code, "nothing listens at 127.0.0.1:1" in away.output) == (1, True)
