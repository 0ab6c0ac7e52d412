"""How servers are reached and logged in to: servers of their own, since each wants something else."""

import asyncio
import base64
import contextlib
import hashlib
import json
from pathlib import Path

import nkeys
import pytest
from nats import errors as nats_errors
from tests.connectors.nats.rig import DEADLINE, Server, special, until
from tests.connectors.nats.rig import server as connected
from tests.gateway.certificates import Authority

from headrace.connectors.nats import NATS, NATS_CONSUMER, NATS_CORE, NATS_SINK, NatsAway, NatsError, NatsParameters, NatsRefused
from headrace.connectors.nats.connection import _OPTIONS as OPTIONS
from headrace.connectors.nats.connection import connect


def parameters(where: str, scheme: str = "nats", **more) -> NatsParameters:
    return NatsParameters(**{"source": "s", "stream": "S", "servers": f"{scheme}://{where}", **more})


async def check(parameters: NatsParameters) -> str:
    return await asyncio.to_thread(NATS.check, parameters)


async def make_stream(where: str, **options) -> None:
    async with connected(f"nats://{where}", **options) as server:
        await server.stream(name="S")


async def test_a_token(tmp_path):
    with special(tmp_path, "authorization { token: t0ken }") as where:
        await make_stream(where, token="t0ken")
        assert "stream S at" in await check(parameters(where, token="t0ken"))
        with pytest.raises(NatsRefused, match="rejects this client"):
            await check(parameters(where, token="other"))
        with pytest.raises(NatsRefused, match="rejects this client"):
            await check(parameters(where))


def new_key(kind: int = nkeys.PREFIX_BYTE_USER) -> nkeys.KeyPair:
    seed = nkeys.encode_seed(nkeys.nacl.signing.SigningKey.generate().encode(), kind)
    return nkeys.from_seed(bytearray(seed))


async def test_an_nkey(tmp_path):
    key, other = new_key(), new_key()
    files = [tmp_path / name for name in ("right", "wrong")]
    for each, file in zip((key, other), files, strict=True):
        file.write_bytes(each.seed)
    with special(tmp_path, f"authorization {{ users: [ {{ nkey: {key.public_key.decode()} }} ] }}") as where:
        await make_stream(where, nkeys_seed=str(files[0]))
        assert "stream S at" in await check(parameters(where, nkey_file=files[0]))
        with pytest.raises(NatsRefused, match="rejects this client"):
            await check(parameters(where, nkey_file=files[1]))


async def test_a_credentials_file(tmp_path):
    operator, user = new_key(nkeys.PREFIX_BYTE_OPERATOR), new_key()
    account, system = new_key(nkeys.PREFIX_BYTE_ACCOUNT), new_key(nkeys.PREFIX_BYTE_ACCOUNT)
    names = ("mem_storage", "disk_storage", "streams", "consumer", "conn", "subs", "data", "payload")
    accounts = {
        account: {"limits": dict.fromkeys(names, -1)},
        system: {"limits": dict.fromkeys(("conn", "subs", "data", "payload"), -1)},
    }
    preloaded = "".join(
        f"{key.public_key.decode()}: {token(operator, key, {'type': 'account', 'version': 2, **claims})}\n"
        for key, claims in accounts.items()
    )
    config = f"""
        operator: {token(operator, operator, {"type": "operator", "version": 2})}
        system_account: {system.public_key.decode()}
        resolver: MEMORY
        resolver_preload: {{ {preloaded} }}
    """
    of_user = token(account, user, {"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1})
    file, nonsense = tmp_path / "user.creds", tmp_path / "nonsense.creds"
    file.write_text(
        f"-----BEGIN NATS USER JWT-----\n{of_user}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed.decode()}\n------END USER NKEY SEED------\n"
    )
    nonsense.write_text("nonsense")
    with special(tmp_path, config) as where:
        await make_stream(where, user_credentials=str(file))
        assert "stream S at" in await check(parameters(where, credentials_file=file))
        with pytest.raises(NatsRefused, match="rejects this client"):
            await check(parameters(where))
        with pytest.raises(NatsRefused, match=f"{nonsense} cannot be used to authenticate"):
            await check(parameters(where, credentials_file=nonsense))


def token(issuer: nkeys.KeyPair, subject: nkeys.KeyPair, claims: dict) -> str:
    """A JWT in the form that NATS uses."""
    body = {"iat": 1_700_000_000, "iss": issuer.public_key.decode(), "sub": subject.public_key.decode(), "nats": claims}
    body["jti"] = base64.b32encode(hashlib.sha256(json.dumps(body).encode()).digest()).decode().rstrip("=")
    parts = [_encoded(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, body)]
    return ".".join([*parts, _encoded(issuer.sign(".".join(parts).encode()))])


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


async def test_a_file_that_is_no_login_is_named(tmp_path):
    (tmp_path / "nonsense").write_bytes(b"nonsense")
    for name, way in (("missing", "credentials_file"), ("missing", "nkey_file"), ("nonsense", "nkey_file")):
        with pytest.raises(NatsRefused, match=f"{tmp_path / name} cannot be used to authenticate"):
            await check(parameters("127.0.0.1:1", **{way: tmp_path / name}))


@pytest.mark.parametrize("first", [False, True])
async def test_mutual_tls(tmp_path, first):
    authority, strangers = Authority(tmp_path, "authority"), Authority(tmp_path, "strangers")
    server, client = authority.issue("server"), authority.issue("client")
    files = f'cert_file: "{server.cert}", key_file: "{server.key}", ca_file: "{authority.cert}"'
    tls = f"tls {{ {files}, verify: true, handshake_first: {str(first).lower()} }}"
    own = {"tls_certificate": client.cert, "tls_key": client.key, "tls_first": first}
    with special(tmp_path, tls, b"" if first else b"INFO") as where:
        with pytest.raises(NatsRefused, match="has no stream S"):
            await check(parameters(where, "tls", tls_ca=authority.cert, **own))
        with pytest.raises(NatsRefused, match=r"its certificate is not trusted.*tls_ca"):
            await check(parameters(where, "tls", tls_ca=strangers.cert, **own))
        # Whether it is said why, before the connection ends, is a matter of luck.
        with pytest.raises(NatsError):
            await check(parameters(where, "tls", tls_ca=authority.cert, tls_first=first))


async def test_no_login_is_sent_to_a_server_without_tls(tmp_path):
    login = "authorization { user: u, password: correct }"
    with special(tmp_path, login) as where, pytest.raises(NatsRefused, match="does not offer TLS; nothing was sent"):
        await check(parameters(where, "tls", user="u", password="wrong"))


async def test_files_of_tls_that_cannot_be_used_are_named(tmp_path):
    with pytest.raises(NatsRefused, match="tls_ca, tls_certificate or tls_key cannot be used: No such file"):
        await check(parameters("127.0.0.1:1", "tls", tls_ca=Path("missing.pem")))


async def test_a_permission_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.connectors.nats.connection.REQUEST_S", 1.0)
    config = """
        authorization { users: [
            { user: all, password: p }
            { user: few, password: p, permissions: { publish: { deny: "$JS.API.STREAM.INFO.>" }, subscribe: { deny: "no.>" } } }
        ] }
    """
    with special(tmp_path, config) as where:
        await make_stream(where, user="all", password="p")
        with pytest.raises(NatsRefused, match=r"permissions violation for publish .*grant it"):
            await check(parameters(where, user="few", password="p"))
        core = NATS_CORE.parameters(source="s", subjects="no.x", servers=f"nats://{where}", user="few", password="p")
        with pytest.raises(NatsRefused, match=r"permissions violation for subscription .*grant it"):
            await asyncio.to_thread(NATS_CORE.check, core)


async def test_a_server_that_is_away_is_told():
    with pytest.raises(NatsAway, match=r"Connect call failed"):
        await check(parameters("127.0.0.1:1"))


async def test_a_connection_that_breaks_while_something_is_sent_is_noticed_without_pings(nats, network, monkeypatch):
    monkeypatch.setitem(OPTIONS, "ping_interval", 3600)
    between = network(nats)
    way = {"servers": f"nats://{between.address}", "user": nats.user, "password": nats.password}
    for _ in range(5):
        client = await connect(NatsParameters(source="s", stream="S", **way))
        noticed = asyncio.Event()
        client.watchers.append(noticed.set)
        await client.subscribe("x", cb=ignore)
        resetting = asyncio.create_task(asyncio.to_thread(between.reset))
        with contextlib.suppress(nats_errors.Error):
            for _ in range(1000):
                await client.publish("y", b"y" * 10_000)
                await asyncio.sleep(0)
        await asyncio.wait_for(noticed.wait(), DEADLINE)
        assert client.lost
        await resetting
        await client.leave()
    await until(lambda: not any("_wait_for_msgs" in repr(task) for task in asyncio.all_tasks()))


async def ignore(message) -> None:
    pass


async def test_another_server_is_taken_where_one_is_away(nats, server: Server):
    stream = await server.stream()
    servers = ["nats://127.0.0.1:1", f"nats://{nats.host}:{nats.port}"]
    told = await check(NatsParameters(source="s", stream=stream, servers=servers, user=nats.user, password=nats.password))
    assert f"stream {stream} at" in told


async def test_checks_say_what_is_there_and_change_nothing(nats, server):
    stream = await server.stream(retention="workqueue")
    await server.numbers(f"{stream}.x", 3)
    way = {"servers": f"nats://{nats.host}:{nats.port}", "user": nats.user, "password": nats.password}
    consumer = NATS_CONSUMER.parameters(source="s", stream=stream, consumer="c", **way)
    assert "3 messages, 1 to 3; consumer c will be created" in await asyncio.to_thread(NATS_CONSUMER.check, consumer)
    assert await server.js.consumers_info(stream) == []
    await server.js.add_consumer(stream, durable_name="c", ack_policy="explicit")
    assert "consumer c has 3 left, and 0 unacknowledged" in await asyncio.to_thread(NATS_CONSUMER.check, consumer)
    core = NATS_CORE.parameters(source="s", subjects=["a", "b.>"], **way)
    assert "subscribed to a, b.> at" in await asyncio.to_thread(NATS_CORE.check, core)
    sink = NATS_SINK.parameters(sink="s", subject=f"{stream}.x", **way)
    assert f"stream {stream} at" in await asyncio.to_thread(NATS_SINK.check, sink)
    sink = NATS_SINK.parameters(sink="s", subject="x.{key}", **way)
    assert "the streams depend on the messages" in await asyncio.to_thread(NATS_SINK.check, sink)
    sink = NATS_SINK.parameters(sink="s", subject="nobody.takes.this", **way)
    with pytest.raises(NatsRefused, match=r"no stream stores the subject nobody\.takes\.this"):
        await asyncio.to_thread(NATS_SINK.check, sink)
