"""Whoever a gateway refuses does not ask it again and again, and nobody asks for what would be refused as far as is known."""

import threading
from collections import Counter
from pathlib import Path

import grpc
import pytest
from tests.deploy.test_link import served
from tests.gateway.test_rights import bearer, token

from headrace.cli.run_output import REFUSED_FOR_S, Figures
from headrace.deploy import Known, StatusProbe, load_deployment, may_read_status, may_supervise
from headrace.deploy import gateway as probe_module
from headrace.deploy.link import GatewayLink
from headrace.deploy.link_call import Reached
from headrace.gateway import token_digest
from headrace.terminal import Connection


class Counting(grpc.UnaryUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):  # type: ignore[misc]
    """Counts the calls of a channel."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def intercept_unary_unary(self, continuation, details, request):  # type: ignore[no-untyped-def]
        self.calls["unary"] += 1
        return continuation(details, request)

    def intercept_stream_stream(self, continuation, details, requests):  # type: ignore[no-untyped-def]
        self.calls["stream"] += 1
        return continuation(details, requests)


def test_a_refused_probe_asks_once_a_minute_and_at_once_with_another_token(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(probe_module.time, "monotonic", lambda: now[0])
    counting, caller = Counting(), ["plain"]
    with served(token("plain"), token("other", admin=True)) as gateway:
        channel = grpc.intercept_channel(grpc.insecure_channel(gateway.address), counting)
        probe = StatusProbe(lambda: channel, lambda: bearer(caller[0]))
        for _ in range(5):
            assert probe.ask() == Known(permitted=False)
        assert counting.calls["unary"] == 1
        now[0] = probe_module.REFUSED_FOR_S
        assert probe.ask() == Known(permitted=False)
        assert counting.calls["unary"] == 2
        caller[0] = "other"
        known = probe.ask()
        assert known is not None
        assert known.permitted
        asks = StatusProbe(lambda: channel, lambda: bearer("plain"), lambda: False)
        assert [asks.ask(), asks.ask()] == [Known(permitted=False)] * 2
        assert counting.calls["unary"] == 3, "what would be refused is not asked"
        channel.close()


def test_progress_that_is_refused_asks_once_a_minute() -> None:
    with served(token("plain")) as gateway:
        secret = dict(bearer("plain"))["authorization"].removeprefix("Bearer ")
        figures = Figures(Connection(gateway.address, secret), ["*/*"])
        assert figures.ask(0.0) is None
        figures._connection = Connection("127.0.0.1:1", None)
        assert figures.ask(REFUSED_FOR_S - 1) is None
        assert figures._not_before == REFUSED_FOR_S


def test_a_link_that_would_be_refused_does_not_call(tmp_path: Path) -> None:
    counting, asked = Counting(), threading.Event()

    def may_register() -> bool:
        asked.set()
        return False

    with served(token("plain")) as gateway:
        channel = grpc.intercept_channel(grpc.insecure_channel(gateway.address), counting)
        told: list[str] = []
        with GatewayLink("deploy.toml", "r1", lambda _: Reached(channel, tuple, may_register), told.append) as link:
            link.update(gateway.address, {})
            assert asked.wait(120)
        link.requests()
    assert counting.calls == {}
    assert told == ["no connector can be restarted by the gateway: the token of the supervisor does not have the right supervise"]


def test_rights_are_those_of_the_gateways_configuration_as_it_is_now(tmp_path: Path) -> None:
    path, gateway = tmp_path / "deploy.toml", tmp_path / "gateway.toml"
    path.write_text(
        '[gateway]\nconfig = "gateway.toml"\n[connectors.a]\nconnector = "stdout-sink"\nsink = "a"\n', encoding="utf-8"
    )

    def configure(rights: str) -> None:
        gateway.write_text(f'[[tokens]]\nname = "s"\nsha256 = "{token_digest("s")}"\n{rights}\n')

    configure("")
    deployment = load_deployment(path)
    for rights, status, supervises in (
        ("", False, False),
        ("admin = true", True, False),
        ("supervise = true", False, True),
        ('supervise = ["deploy.*"]', False, True),
        ('supervise = ["other.toml"]', False, False),
        ("broken", True, True),
    ):
        configure(rights)
        assert (may_read_status(deployment, "s"), may_supervise(deployment, "s")) == (status, supervises), rights
        assert not may_read_status(deployment, "unknown") or rights == "broken"
    gateway.write_text("")
    assert may_read_status(deployment, None)
