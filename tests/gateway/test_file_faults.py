"""A gateway lives on, and names the fault, where a file cannot be read once, or its log not be written at all."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc.aio
import pytest
from tests.deploy.faulty_files import Files
from tests.gateway.certificates import Authority
from tests.gateway.test_rotation import write
from tests.gateway.wire import DEADLINE_S, Connector, Engine, numbered

from headrace.gateway import ConfigSource, Limits, Tls, load_config, reload
from headrace.gateway.background import lasting
from headrace.gateway.certificate_watch import CertificateWatch
from headrace.gateway.core import Gateway
from headrace.gateway.identity import TokenRegistry
from headrace.gateway.own_faults import OwnFaultKind, OwnFaults
from headrace.gateway.reload import Reloading

ERRORS = [errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EACCES]


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Kinds and causes of all faults that it notes, even if they are over soon."""
    found: list[tuple[str, str]] = []
    note = OwnFaults.note

    def recorded(self: OwnFaults, part: str, kind: OwnFaultKind, cause: str, remedy: str) -> None:
        found.append((kind, cause))
        note(self, part, kind, cause, remedy)

    monkeypatch.setattr(OwnFaults, "note", recorded)
    return found


@pytest.mark.parametrize("error", ERRORS)
async def test_new_tokens_are_taken_although_each_operation_on_their_file_fails_once(
    error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: list[tuple[str, str]]
) -> None:
    monkeypatch.setattr(reload, "INTERVAL_S", 0.001)
    file, gateway = tmp_path / "gateway.toml", Gateway(Limits())
    write(file, ("operator", ["token-0"], "admin = true"))
    source = ConfigSource(file, lambda: load_config(file, {}, {}))
    registry = TokenRegistry(source.load().tokens)
    following = Reloading(source, source.load(), registry, gateway)
    files = Files(monkeypatch, tmp_path, error)
    task = asyncio.create_task(lasting("following the configuration", following.follow, gateway.own_faults))
    try:
        number, before = 0, -1
        while len(files.failed) > before:
            number, before = number + 1, len(files.failed)
            write(file, ("operator", [f"token-{number}"], "admin = true"))
            files.fails, files.left = True, 1
            async with asyncio.timeout(DEADLINE_S):
                while registry.find(f"token-{number}") is None or list(gateway.own_faults):  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            files.fails = False
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert {place.rpartition(" ")[2] for place in files.failed} >= {"open", "stat"}
    assert any(kind is OwnFaultKind.CONFIGURATION_INVALID and str(file) in cause for kind, cause in noted), noted


@pytest.mark.parametrize("error", ERRORS)
def test_certificates_are_watched_although_each_operation_on_their_files_fails_once(
    error: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, gateway = Authority(tmp_path, "ca"), Gateway(Limits())
    pair = authority.issue("gateway")
    watch = CertificateWatch(Tls(cert=pair.cert, key=pair.key, client_ca=authority.cert), gateway)
    files = Files(monkeypatch, tmp_path, error)
    before = -1
    while len(files.failed) > before:
        before = len(files.failed)
        os.utime(pair.cert, ns=(before, before))
        files.fails, files.left = True, 1
        watch.look()
        files.fails = False
    watch.look()
    assert {place.rpartition(" ")[2] for place in files.failed} >= {"open", "stat"}
    assert OwnFaultKind.CERTIFICATE_INVALID not in {fault.kind for fault in gateway.own_faults}
    assert gateway.certificates.keys() == {str(pair.cert), str(authority.cert)}


@contextmanager
def gateway_without_log(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A gateway whose output has no room, as on a full disk, and its address."""
    ready = folder / "ready"
    command = [sys.executable, "-m", "headrace.cli", "gateway", "--listen", "127.0.0.1:0", "--ready-file", str(ready)]
    with Path("/dev/full").open("wb") as full:
        process = subprocess.Popen(command, stdout=full, stderr=full)
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not ready.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield process, ready.read_text().strip()
    finally:
        process.kill()
        process.wait()


async def test_a_gateway_whose_log_has_no_room_serves_as_ever(tmp_path: Path) -> None:
    with gateway_without_log(tmp_path) as (process, address):
        source, engine, wrong = Connector(address), Engine(address), Connector(address)
        await engine.attach()
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        await source.send(frame=numbered(1, 1, 3))
        await engine.plan_until("orders/0", 3)
        # The log names the fault of a connector.
        with pytest.raises(grpc.aio.AioRpcError, match="protocol version 99"):
            await wrong.hello(version=99)
        await engine.plan({"orders/0": 3}, wait_ms=0)
        await engine.status_once(lambda status: [one.acknowledged.sequence for one in status.streams] == [3])
        for each in (source, wrong, engine):
            await each.close()
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, DEADLINE_S) == 0
