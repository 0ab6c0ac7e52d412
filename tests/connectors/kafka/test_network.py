"""A network that fails between the connectors and the broker."""

import asyncio
import shutil
import time
from contextlib import AsyncExitStack, closing

import pytest
from kafka import TopicPartition
from scripts.brokers import Kafka
from tests.connectors.kafka.rig import DEADLINE, SETTINGS, numbered, numbers, reading, sink_of, until, write
from tests.connectors.tls_front import TlsFront
from tests.gateway.certificates import Authority, locked

from headrace.connectors.kafka import KAFKA, KafkaAway, KafkaFailed, KafkaParameters, _connection, _errors
from headrace.connectors.kafka._errors import KafkaUntrusted
from headrace.connectors.kafka.cluster import Cluster
from headrace.connectors.kafka.fetcher import Wanted
from headrace.connectors.kafka.librdkafka_fetcher import LibrdkafkaFetcher
from headrace.sdk import serve

CUT_S = 3.0


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, eager: None) -> None:
    """A minute without a network, in a few seconds."""
    monkeypatch.setattr(_connection, "REQUEST_TIMEOUT_S", 2.0)
    monkeypatch.setattr(_connection, "BOOTSTRAP_S", 2.0)


async def outage() -> None:
    """Waits for a while, in which nobody tries again without a pause: a thread that does takes a core, however slow it is."""
    began, used = time.monotonic(), time.process_time()
    await asyncio.sleep(CUT_S)
    assert time.process_time() - used < (time.monotonic() - began) / 3


async def test_source_and_sink_go_on_when_the_network_is_back(kafka, log, topic, address, query, network, impatient, each_client):
    log.append(topic, numbered(0, 100))
    between, one, out = network(kafka), query(), log.create()
    sink = sink_of(bootstrap_servers=between.address, topic=out, sink=out)
    write(sink, 0, numbered(0, 10))
    async with reading(address, bootstrap_servers=between.address, topics=topic, group=topic):
        await one.attach()
        await one.read(100)
        for batch, break_ in ((1, between.refuse), (2, between.cut), (3, between.reset)):
            break_()
            log.append(topic, numbered(100 * batch, 100))
            writing = asyncio.create_task(asyncio.to_thread(write, sink, batch, numbered(10 * batch, 10)))
            if break_ is not between.reset:
                await outage()
                between.restore()
            count = 100 * (batch + 1)
            assert numbers(await one.read(count)) == list(range(count))
            # The transaction continues: nothing has to be written again.
            await asyncio.wait_for(writing, DEADLINE)
        await until(lambda: log.committed(topic) == {f"{topic}-0": 400})
    assert log.values(out) == numbered(0, 40)
    sink.close()


async def test_a_sink_that_is_started_without_a_network_waits_for_it(
    kafka, log, topic, address, network, impatient, caplog, each_client
):
    between = network(kafka)
    between.refuse()
    sink = sink_of(bootstrap_servers=between.address, topic=topic, sink="out", state_topic=f"{topic}.ids")
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(sink, gateway=address, settings=SETTINGS, stop=stop))
    await until(lambda: "sink out: no broker can be reached" in caplog.text)
    between.restore()
    await until(lambda: log.partitions(f"{topic}.ids") == 1)
    stop.set()
    await asyncio.wait_for(serving, DEADLINE)
    sink.close()


def speaking_tls(kafka: Kafka, authority: Authority) -> TlsFront:
    """Where the broker is reached by TLS, with a certificate."""
    inner, outer = kafka.proxied
    return TlsFront(inner, authority, port=outer)


async def test_brokers_are_reached_by_tls(kafka, log, topic, address, query, monkeypatch, tmp_path, each_client):
    authority, stranger = Authority(tmp_path, "authority"), Authority(tmp_path, "stranger")
    client = locked(authority.issue("client"), b"passphrase")
    shown = {"tls_certificate": client.cert, "tls_key": client.key, "tls_key_password": "passphrase"}
    log.append(topic, [b"x" * 900_000, b"y"])
    one = query()
    async with speaking_tls(kafka, authority) as front:
        parameters = {"bootstrap_servers": front.address, "topics": topic, "tls": True}
        async with reading(address, **parameters, tls_ca=authority.cert, **shown):
            await one.attach()
            assert [message.value for message in await one.read(2)] == [b"x" * 900_000, b"y"]

        async def check(**more: object) -> str:
            assert KAFKA.check is not None
            return await asyncio.to_thread(KAFKA.check, KafkaParameters(source="s", **parameters, **more))

        assert await check(tls_ca=authority.cert, **shown) == "1 topic with 1 partition"
        monkeypatch.setattr(_connection, "BOOTSTRAP_S", 2.0)
        monkeypatch.setattr(_errors, "_PROBE_S", DEADLINE)
        with pytest.raises(
            KafkaFailed, match=r"certificate of .* is not trusted: .*; set tls_ca to the authority that signed it"
        ):
            await check(tls_ca=stranger.cert, **shown)
        with pytest.raises(KafkaAway, match="does not answer with TLS and no certificate; is that what it requires"):
            await check(tls_ca=authority.cert)


@pytest.mark.parametrize("library", ["kafka-python", "librdkafka"])
async def test_only_a_cluster_that_was_never_reached_ends_a_client_by_its_certificate(impatient, monkeypatch, tmp_path, library):
    """A stranger's certificate, and then files of this client that do not fit together."""
    monkeypatch.setattr(_errors, "_PROBE_S", DEADLINE)
    stranger, mine = Authority(tmp_path, "stranger"), Authority(tmp_path, "mine")
    own = {name: tmp_path / name for name in ("ca", "certificate", "key")}
    issued, other = mine.issue("client"), mine.issue("other")
    for name, path in (("ca", mine.cert), ("certificate", issued.cert), ("key", issued.key)):
        shutil.copy(path, own[name])

    def ask(parameters: KafkaParameters, awaited: type[Exception]) -> None:
        if library == "kafka-python":
            with closing(Cluster(parameters)) as cluster:
                cluster.topics()
            return
        with closing(LibrdkafkaFetcher(parameters)) as fetcher:
            deadline = time.monotonic() + DEADLINE
            while time.monotonic() < deadline:
                try:
                    fetcher.fetch([Wanted(TopicPartition("t", 0), "t", 0)], hurry=False)
                except KafkaAway as away:
                    # The library may report that all brokers are down before it reports why.
                    if isinstance(away, awaited):
                        raise

    async with TlsFront(9, stranger, anonymous=True) as front:
        told = {"bootstrap_servers": front.address, "topics": "t", "tls": True, "client": library}
        parameters = KafkaParameters(source="s", **told, **{f"tls_{name}": path for name, path in own.items()})
        with pytest.raises(KafkaFailed, match=r"not trusted|verify failed"):
            await asyncio.to_thread(ask, parameters, KafkaFailed)
        parameters.note_reached(library)
        with pytest.raises(KafkaUntrusted, match=r"not trusted|verify failed"):
            await asyncio.to_thread(ask, parameters, KafkaUntrusted)
        shutil.copy(other.key, own["key"])
        with pytest.raises(KafkaAway):
            await asyncio.to_thread(ask, parameters, KafkaAway)


@pytest.mark.behaviour(
    "kafka",
    "files of `tls_ca`, `tls_certificate` and `tls_key` that are replaced",
    "uses the new ones for its next connections",
)
async def test_tls_files_that_are_replaced_are_used_without_a_restart(
    kafka, log, topic, address, query, impatient, tmp_path, each_client
):
    """Authority, certificate and key, one after the other, so that they do not fit in between."""
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    files = {"tls_ca": tmp_path / "ca.pem", "tls_certificate": tmp_path / "cert.pem", "tls_key": tmp_path / "key.pem"}

    async def put(authority: Authority) -> None:
        pair = authority.issue("client")
        for name, path in (("tls_ca", authority.cert), ("tls_certificate", pair.cert), ("tls_key", pair.key)):
            shutil.copy(path, files[name])
            await asyncio.sleep(0.2)  # in which it may be looked at

    await put(old)
    out, one = log.create(), query()
    log.append(topic, numbered(0, 100))
    async with AsyncExitStack() as stack:
        async with speaking_tls(kafka, old) as front:
            parameters = {"bootstrap_servers": front.address, "tls": True, **files}
            sink = stack.enter_context(closing(sink_of(topic=out, sink=out, **parameters)))
            await asyncio.to_thread(write, sink, 0, numbered(0, 10))
            await stack.enter_async_context(reading(address, topics=topic, **parameters))
            await one.attach()
            await one.read(100)
        await put(new)
        log.append(topic, numbered(100, 100))
        async with speaking_tls(kafka, new):
            assert numbers(await one.read(200)) == list(range(200))
            await asyncio.wait_for(asyncio.to_thread(write, sink, 1, numbered(10, 10)), 2 * DEADLINE)
            await stack.aclose()
    assert log.values(out) == numbered(0, 20)
