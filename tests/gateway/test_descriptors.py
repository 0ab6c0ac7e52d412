"""A gateway that has no descriptors left: it names that, continues with what is connected, and takes others again afterwards."""

import asyncio
import re
import socket
from pathlib import Path

import aiohttp
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.http_server import get
from tests.gateway.processes import gateway_process
from tests.gateway.wire import DEADLINE_S, Connector, Engine, numbered

from headrace.gateway.descriptor_watch import DescriptorWatch
from headrace.gateway.own_faults import OwnFaultKind, OwnFaults
from headrace.machine import resources

KIND = "descriptors-exhausted"


async def test_a_gateway_without_descriptors_names_that_and_goes_on(tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text("[http]\nlisten = '127.0.0.1:0'\n")
    with gateway_process("--config", config) as gateway:
        gateway.wait_for_log("gateway serves HTTP")
        (http,) = re.findall(r"http://(127\.0\.0\.1:\d+)", gateway.log)
        process, engine, source = psutil.Process(gateway.process.pid), Engine(gateway.address), Connector(gateway.address)
        await engine.attach()
        await source.hello()
        await source.open()
        await source.expect("stream_opened")
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1, keepalive_timeout=600)) as session:

            async def until(kind: str | None) -> dict[str, str]:
                """The fault of its descriptors, as a client learns that stays connected."""
                async with asyncio.timeout(DEADLINE_S):
                    while True:
                        async with session.get(f"http://{http}/readyz") as response:
                            problems = (await response.json())["problems"]
                        found: dict[str, str] = next((one for one in problems if one["part"] == "descriptors"), {})
                        if found.get("kind") == kind:
                            return found
                        await asyncio.sleep(0.05)

            await until(None)
            _, hard = process.rlimit(psutil.RLIMIT_NOFILE)
            most = process.num_fds() + 8
            process.rlimit(psutil.RLIMIT_NOFILE, (most, hard))
            host, port = gateway.address.rsplit(":", 1)
            # They say nothing, and stay as long as the system lets them wait.
            strangers = [socket.create_connection((host, int(port))) for _ in range(16)]
            found = await until(KIND)
            assert re.match(rf"\d+ of {most} descriptors of the gateway are in use", found["cause"])
            assert "LimitNOFILE" in found["remedy"]
            async with session.get(f"http://{http}/metrics") as response:
                assert f'headrace_problems{{kind="{KIND}"}} 1.0' in await response.text()
            # Connected callers continue.
            await source.send(frame=numbered(1, 1, 3))
            await engine.plan_until("orders/0", 3)
            await engine.plan({"orders/0": 3}, wait_ms=0)
            assert (await source.expect("ack")).streams[0].position.sequence == 3
            for stranger in strangers:
                stranger.close()
            process.rlimit(psutil.RLIMIT_NOFILE, (hard, hard))
            await until(None)
        code, _ = await get(http, "/healthz")
        assert code == 200
        assert gateway.process.poll() is None
        await engine.close()
        await source.close()


@given(st.lists(st.tuples(st.integers(1, 5_000), st.none() | st.integers(1, 5_000)), max_size=20))
def test_few_descriptors_are_a_fault_until_there_are_twice_as_many(looks: list[tuple[int, int | None]]) -> None:
    faults = OwnFaults()
    now: tuple[int, int | None] = (0, None)
    watch = DescriptorWatch(faults, lambda: now[0], lambda: now[1])
    for now in looks:
        before = bool(list(faults))
        watch.look()
        used, most = now
        if most is None:
            assert not list(faults)
            continue
        left, few = most - used, min(max(1, most // 10), 128)
        assert bool(list(faults)) == (left < few or (before and left < 2 * few))
        assert all(one.kind is OwnFaultKind.DESCRIPTORS_EXHAUSTED for one in faults)


def test_an_error_for_want_of_descriptors_tells_the_limit_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "in_use", lambda: 250)
    monkeypatch.setattr(resources, "limit", lambda: 256)
    error = "OSError: [Errno 24] Too many open files: '/data/out'"
    whole = error + resources.lack(error)
    assert whole.endswith(
        "'/data/out'; 250 of 256 descriptors of this process are in use: raise the limit (ulimit -n, or LimitNOFILE of its unit)"
    )
    assert not resources.lack(whole)
    assert not resources.lack("OSError: [Errno 28] No space left on device")
