"""Files of a gateway that become invalid or expire while it runs, and a gateway that nothing is connected to."""

import asyncio
import datetime
import re
from pathlib import Path

import pytest
from tests.gateway.certificates import Authority
from tests.gateway.http_server import get
from tests.gateway.processes import gateway_process, headrace
from tests.gateway.wire import DEADLINE_S, Connector, serve
from tests.virtual_clock import VirtualClock

from headrace.conformance.core import certificates
from headrace.contract import clock
from headrace.gateway import Limits, Tls
from headrace.gateway.certificate_watch import SOON_S, CertificateWatch
from headrace.gateway.core import Gateway, Kind, problems
from headrace.gateway.core.status import snapshot
from headrace.gateway.core.status.health.of_gateway import CONNECTS_WITHIN_MS


async def until(http: str, part: str, kind: str | None) -> dict[str, str]:
    """The fault of a part, once it has one of a kind; for None, once it has none."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            _, document = await get(http, "/readyz")
            found: dict[str, dict[str, str]] = {problem["part"]: problem for problem in document["problems"]}
            if found.get(part, {}).get("kind") == kind:
                return found.get(part, {})
            await asyncio.sleep(0.05)


async def test_a_configuration_that_becomes_invalid_is_named_until_it_is_valid(tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text("[http]\nlisten = '127.0.0.1:0'\n")
    with gateway_process("--config", config) as gateway:
        gateway.wait_for_log("gateway serves HTTP")
        (http,) = re.findall(r"http://(127\.0\.0\.1:\d+)", gateway.log)
        for text in ("[nonsense]\na = 1\n", "[http\n", None):
            if text is None:
                config.unlink()
            else:
                config.write_text(text)
            found = await until(http, f"file {config}", "configuration-invalid")
            assert "stays in effect" in found["remedy"]
            _, metrics = await get(http, "/metrics")
            assert 'headrace_problems{kind="configuration-invalid"} 1.0' in metrics
            config.write_text("[http]\nlisten = '127.0.0.1:0'\n")
            await until(http, f"file {config}", None)


WIDE = {"COLUMNS": "1000"}
"""The path of a temporary file may be long, and stays on one line."""


async def test_a_certificate_that_expires_is_named_everywhere_until_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "_VALID", datetime.timedelta(days=10))
    authority = Authority(tmp_path, "ca")
    pair = authority.issue("gateway")
    config = tmp_path / "gateway.toml"
    config.write_text(f"[http]\nlisten = '127.0.0.1:0'\n[tls]\ncert = '{pair.cert}'\nkey = '{pair.key}'\n")
    with gateway_process("--config", config) as gateway:
        gateway.wait_for_log("gateway serves HTTP")
        (http,) = re.findall(r"http://(127\.0\.0\.1:\d+)", gateway.log)
        found = await until(http, f"file {pair.cert}", "certificate-expires")
        assert found["remedy"].startswith("replace it")
        call = ("status", "--gateway", gateway.address, "--tls-ca", str(authority.cert))
        shown = await asyncio.to_thread(headrace, *call, environ=WIDE)
        assert f"file {pair.cert} for " in shown.stdout
        _, metrics = await get(http, "/metrics")
        assert 'headrace_problems{kind="certificate-expires"} 1.0' in metrics
        (expires,) = re.findall(rf'headrace_certificate_expires_timestamp_seconds{{file="{pair.cert}"}} (\S+)', metrics)
        assert 9 * 86_400 < float(expires) - clock.now() <= 10 * 86_400

        monkeypatch.setattr(certificates, "_VALID", datetime.timedelta(days=90))
        authority.issue("gateway")
        await until(http, f"file {pair.cert}", None)
        shown = await asyncio.to_thread(headrace, *call, environ=WIDE)
        assert str(pair.cert) not in shown.stdout
        _, metrics = await get(http, "/metrics")
        assert 'headrace_problems{kind="certificate-expires"} 0.0' in metrics


def watched(folder: Path) -> tuple[Gateway, CertificateWatch, Tls]:
    authority = Authority(folder, "ca")
    pair = authority.issue("gateway")
    tls = Tls(cert=pair.cert, key=pair.key, client_ca=authority.cert)
    gateway = Gateway(Limits())
    return gateway, CertificateWatch(tls, gateway), tls


def replaced(file: Path, content: bytes | None) -> None:
    """Gives a file other content; None removes it."""
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)


async def found_by(gateway: Gateway) -> dict[str, tuple[Kind, str]]:
    return {one.part: (one.kind, one.cause) for one in problems(await snapshot(gateway), 900_000, 5_000)}


async def test_a_certificate_is_named_two_weeks_before_it_expires_and_until_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "_VALID", datetime.timedelta(seconds=SOON_S + 3_600))
    gateway, watch, tls = watched(tmp_path)
    gateway.unconnected_since = None
    watch.look()
    assert await found_by(gateway) == {}
    assert set(gateway.certificates) == {str(tls.cert), str(tls.client_ca)}
    real = clock.now
    for after_s, says in ((7_200, "in 13 days"), (SOON_S + 7_200, "has expired on")):
        monkeypatch.setattr(clock, "now", lambda after_s=after_s: real() + after_s)
        watch.look()
        found = await found_by(gateway)
        assert found.keys() == {f"file {tls.cert}", f"file {tls.client_ca}"}
        assert {kind for kind, _ in found.values()} == {Kind.CERTIFICATE_EXPIRES}
        assert all(says in cause for _, cause in found.values())
    monkeypatch.setattr(certificates, "_VALID", datetime.timedelta(seconds=4 * SOON_S))
    Authority(tmp_path, "ca").issue("gateway")
    watch.look()
    assert await found_by(gateway) == {}


async def test_an_old_authority_beside_a_new_one_is_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Authority(tmp_path, "old").cert.read_bytes()
    monkeypatch.setattr(certificates, "_VALID", datetime.timedelta(seconds=4 * SOON_S))
    gateway, watch, tls = watched(tmp_path)
    gateway.unconnected_since = None
    assert tls.client_ca is not None
    tls.client_ca.write_bytes(old + tls.client_ca.read_bytes())
    watch.look()
    assert await found_by(gateway) == {}


async def test_a_key_that_becomes_invalid_is_named_until_it_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "_VALID", datetime.timedelta(seconds=4 * SOON_S))
    gateway, watch, tls = watched(tmp_path)
    gateway.unconnected_since = None
    watch.look()
    before, expires = tls.key.read_bytes(), dict(gateway.certificates)
    for wrong in (b"no key", Authority(tmp_path, "other").issue("other").key.read_bytes(), None):
        if wrong is None:
            tls.key.unlink()
        else:
            tls.key.write_bytes(wrong)
        watch.look()
        found = await found_by(gateway)
        assert {part: kind for part, (kind, _) in found.items()} == {f"file {tls.key}": Kind.CERTIFICATE_INVALID}
        assert gateway.certificates == expires
        tls.key.write_bytes(before)
        watch.look()
        assert await found_by(gateway) == {}


@pytest.mark.parametrize("name", ["cert", "client_ca"])
async def test_a_certificate_that_becomes_invalid_is_named_itself(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "_VALID", datetime.timedelta(seconds=4 * SOON_S))
    gateway, watch, tls = watched(tmp_path)
    gateway.unconnected_since = None
    assert tls.client_ca is not None
    file, before = {"cert": (tls.cert, tls.cert.read_bytes()), "client_ca": (tls.client_ca, tls.client_ca.read_bytes())}[name]
    for wrong in (b"no certificate", tls.key.read_bytes(), None):
        replaced(file, wrong)
        watch.look()
        found = await found_by(gateway)
        assert {part: kind for part, (kind, _) in found.items()} == {f"file {file}": Kind.CERTIFICATE_INVALID}
        replaced(file, before)
        watch.look()
        assert await found_by(gateway) == {}


async def test_a_gateway_that_nothing_is_connected_to_is_named_after_eight_seconds() -> None:
    with clock.use(VirtualClock()) as now:
        gateway = Gateway(Limits())
        now.advance(CONNECTS_WITHIN_MS / 1000 - 0.1)
        assert await found_by(gateway) == {}, "it may be starting"
        now.advance(0.2)
        found = await found_by(gateway)
        assert found["gateway"][0] is Kind.NOT_CONNECTED
        assert problems(await snapshot(gateway), 900_000, 5_000)[0].remedy.count("NO_PROXY") == 1


async def test_a_gateway_is_well_as_long_as_something_is_connected() -> None:
    async with serve() as (gateway, address):
        gateway.unconnected_since = clock.monotonic() - 3_600
        assert "gateway" in await found_by(gateway)
        connector = Connector(address)
        await connector.hello()
        assert "gateway" not in await found_by(gateway)
        async with asyncio.timeout(DEADLINE_S):
            while gateway.unconnected_since is not None:  # noqa: ASYNC110 - there is no event to wait on
                await asyncio.sleep(0.02)
        await connector.close()
