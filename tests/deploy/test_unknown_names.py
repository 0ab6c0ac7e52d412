"""A gateway whose name no server of names knows for a while: the deployment finds it again soon, and `ps` names the fault.

The longer a name is unknown, the more rarely gRPC asks for it: a channel of its own is what is dialled again.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner
from tests.deploy.supervisors import Probe, Watched, plan, stop
from tests.deploy.test_link import SINK, served, until
from tests.deploy.test_ps import configured

from headrace.cli import cli
from headrace.contract import redial
from headrace.deploy import Kind, Known, Reached, Status, StatusProbe, reports
from headrace.deploy.link import GatewayLink

UNKNOWN = "gateway.invalid:7433"
"""No server of names knows it (RFC 2606)."""


class Names:
    """A gateway whose name is known from a moment on."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.is_known = False
        self.dialled: list[grpc.Channel] = []

    def dial(self) -> grpc.Channel:
        """A channel that asks for the name only when it is opened, as one with the longest pause does."""
        self.dialled.append(grpc.insecure_channel(self._address if self.is_known else UNKNOWN))
        return self.dialled[-1]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Names]]:
    monkeypatch.setattr(redial, "REDIAL_S", 0.0)
    made: list[Names] = []

    def make(address: str) -> Names:
        made.append(Names(address))
        return made[-1]

    yield make
    for one in made:
        for channel in one.dialled:
            channel.close()


def test_a_deployment_registers_once_the_name_is_known(names: Callable[[str], Names]) -> None:
    with served() as gateway:
        name = names(gateway.address)
        with GatewayLink("deploy.toml", "r1", lambda _: Reached(name.dial, tuple), pytest.fail) as link:
            link.update(UNKNOWN, SINK)
            until(lambda: len(name.dialled) > 1)
            assert gateway.connectors() == {}
            name.is_known = True
            until(gateway.connectors)


def test_the_status_is_read_once_the_name_is_known(names: Callable[[str], Names]) -> None:
    with served() as gateway:
        name = names(gateway.address)
        probe = StatusProbe(name.dial, tuple)
        assert [probe.ask(), probe.ask()] == [None, None]
        name.is_known = True
        until(probe.ask)
        probe.close()


def test_ps_shows_what_a_process_says_that_is_not_connected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "WARNS_AFTER_S", 0.0)
    says = "gateway gateway.invalid:7433: errors resolving gateway.invalid:7433"
    script = f"echo '2026-11-30T17:38:43.203Z WARNING: {says}'; exec sleep 600"
    ps = ["ps", "--deployment", str(configured(tmp_path))]
    watched = Watched(plan(tmp_path, source=(Kind.SOURCE, script)), probe=Probe(Known(connected=frozenset())))
    with ThreadPoolExecutor(1) as threads:
        shown: list[Future[None]] = []

        def ask(_: Status) -> None:
            shown.append(threads.submit(until, lambda: f"source: it says: {says}\n" in CliRunner().invoke(cli, ps).output))

        watched.when(lambda _: True, ask).when(lambda _: shown[0].done(), stop)
        watched.run()
    shown[0].result()
