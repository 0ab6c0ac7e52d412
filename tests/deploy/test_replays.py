"""Replays of dead letters by a deployment, requested at its gateway."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.deploy.supervisors import SLEEPS, Watched, plan, role, runs, stop
from tests.deploy.test_link import WITHIN_S, Served, served
from tests.gateway.wire import Engine

from headrace.deploy import Ending, Kind, Plan, Status
from headrace.deploy import link as link_module
from headrace.deploy import supervisor as supervisor_module
from headrace.protocol.v1 import admin_pb2 as pb
from headrace.protocol.v1.admin_pb2_grpc import AdminServiceStub


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for long."""
    monkeypatch.setattr(supervisor_module, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("headrace.deploy.processes._ASK_EVERY_S", 0.01)
    monkeypatch.setattr(link_module, "FIRST_WAIT_S", 0.01)


def with_replay(folder: Path, script: str) -> Plan:
    """A deployment of a gateway and a sink, whose dead letters are replayed by a script."""
    return replace(plan(folder), others=(role("sink", Kind.SINK, SLEEPS, replay=script),))


def replay(gateway: Served, source: str = "again", refused_by: str = "", timeout_ms: int = 60_000) -> Any:
    """The answer, or the error."""
    with grpc.insecure_channel(gateway.address) as channel:
        request = pb.ReplayDeadLettersRequest(sink="errors", source=source, refused_by=refused_by, timeout_ms=timeout_ms)
        try:
            return AdminServiceStub(channel).ReplayDeadLetters(request, timeout=WITHIN_S)
        except grpc.RpcError as error:
            return error.code(), error.details()  # type: ignore[attr-defined]


def registered(gateway: Served) -> Callable[[Status], bool]:
    return lambda status: runs("gateway", "sink")(status) and bool(gateway.connectors())


async def read(address: str) -> None:
    """A pipeline that reads what is replayed."""
    engine = Engine(address, streams="again/*")
    await engine.attach()
    await engine.close()


async def test_a_replay_is_one_process_answered_once_it_has_ended(tmp_path: Path) -> None:
    script = f"echo $1 $2 >> {tmp_path}/begun; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done"
    calls: list[Future[Any]] = []
    with served() as gateway, ThreadPoolExecutor() as threads:
        await read(gateway.address)
        watched = Watched(with_replay(tmp_path, script), reach=gateway.reach())

        def request(_: Status) -> None:
            calls.extend(threads.submit(replay, gateway, "again", "totals") for _ in range(2))

        waiting = lambda _: gateway.gateway.deployments.waiting == 2 and (tmp_path / "begun").exists()  # noqa: E731
        watched.when(registered(gateway), request)
        watched.when(waiting, lambda _: (tmp_path / "go").touch())
        watched.when(lambda _: all(call.done() for call in calls), stop)
        assert watched.run() == Ending(0, "stopped")
    first, second = (call.result() for call in calls)
    assert (first.deployment, first.connector) == ("deploy.toml", "sink")
    assert first.replayed.pid == second.replayed.pid > 0
    assert (tmp_path / "begun").read_text() == "again totals\n"
    begun, ended = watched.told
    assert begun.startswith("change made: replay of what sink has written, as source again, by anybody (ipv4:127.0.0.1:")
    assert ended.startswith("what sink has written is replayed as source again, and acknowledged (")


async def test_a_replay_that_fails_is_told_with_its_error_and_can_be_requested_again(tmp_path: Path) -> None:
    calls: list[Future[Any]] = []
    with served() as gateway, ThreadPoolExecutor() as threads:
        await read(gateway.address)
        watched = Watched(with_replay(tmp_path, "echo 'Error: not a dead letter'; exit 1"), reach=gateway.reach())
        watched.when(registered(gateway), lambda _: calls.append(threads.submit(replay, gateway)))
        watched.when(lambda _: calls[0].done(), lambda _: calls.append(threads.submit(replay, gateway)))
        watched.when(lambda _: calls[1].done(), stop)
        assert watched.run() == Ending(0, "stopped")
    said = "the replay of what sink has written ended with exit code 1: not a dead letter"
    for call in calls:
        code, details = call.result()
        assert (code, details) == (grpc.StatusCode.ABORTED, f"{said} (log: {tmp_path}/run/sink~replay.log)")


async def test_a_deployment_that_stops_ends_its_replays_and_says_so(tmp_path: Path) -> None:
    script = f"trap 'touch {tmp_path}/ended; kill $!; exit 0' TERM\ntouch {tmp_path}/begun\nsleep 600 &\nwait"
    calls: list[Future[Any]] = []
    with served() as gateway, ThreadPoolExecutor() as threads:
        await read(gateway.address)
        watched = Watched(with_replay(tmp_path, script), reach=gateway.reach())
        watched.when(registered(gateway), lambda _: calls.append(threads.submit(replay, gateway)))
        watched.when(lambda _: (tmp_path / "begun").exists(), stop)
        assert watched.run() == Ending(0, "stopped")
        code, details = calls[0].result()
    assert (tmp_path / "ended").exists()
    # The answer may be overtaken by the end of the call.
    assert code in (grpc.StatusCode.ABORTED, grpc.StatusCode.UNAVAILABLE), details
