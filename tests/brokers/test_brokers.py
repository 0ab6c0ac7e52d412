"""The brokers of the tests: they come back with their data, and nothing of them outlives a session."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pika
import psutil
import psycopg
import pytest
from click.testing import CliRunner
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from nats import connect
from scripts.brokers import BrokerFailed, Kafka, Nats, NotInstalled, PostgreSQL, RabbitMQ
from scripts.brokers import __main__ as command
from scripts.brokers._processes import Command
from tests.brokers import plugin

ROOT = Path(__file__).parents[2]
DEADLINE_S = 240.0


def publish(broker: RabbitMQ, queue: str, body: bytes) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(queue, durable=True)
        channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2), mandatory=True)


def get(broker: RabbitMQ, queue: str) -> bytes | None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        _, _, body = connection.channel().basic_get(queue, auto_ack=True)
        return body


def test_rabbitmq_is_killed_and_comes_back_with_its_messages(rabbitmq: RabbitMQ) -> None:
    publish(rabbitmq, "test-brokers", b"before")
    # RabbitMQ 3 confirms a message once it is on disk, and a new queue before that.
    rabbitmq.ctl("eval", "mnesia:sync_log().")
    rabbitmq.kill()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        publish(rabbitmq, "test-brokers", b"meanwhile")
    rabbitmq.start()
    assert get(rabbitmq, "test-brokers") == b"before"
    assert f"headrace-{rabbitmq.port}@localhost" in rabbitmq.ctl("eval", "node().")


async def test_nats_is_killed_and_comes_back_with_its_messages(nats: Nats) -> None:
    client = await connect(nats.url)
    jetstream = client.jetstream(timeout=DEADLINE_S)
    await jetstream.add_stream(name="test-brokers", subjects=["test.brokers"])
    await jetstream.publish("test.brokers", b"before")
    await client.close()
    await asyncio.to_thread(nats.kill)
    await asyncio.to_thread(nats.start)
    client = await connect(nats.url)
    assert (await client.jetstream(timeout=DEADLINE_S).get_last_msg("test-brokers", "test.brokers")).data == b"before"
    await client.close()


def test_kafka_is_killed_and_comes_back_with_its_messages(kafka: Kafka) -> None:
    admin = KafkaAdminClient(bootstrap_servers=kafka.url)
    admin.create_topics([NewTopic("test-brokers", num_partitions=1, replication_factor=1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=kafka.url, acks="all")
    producer.send("test-brokers", b"before").get(DEADLINE_S)
    producer.close()
    kafka.kill()
    kafka.start()
    options = {"auto_offset_reset": "earliest", "consumer_timeout_ms": DEADLINE_S * 1000}
    consumer = KafkaConsumer("test-brokers", bootstrap_servers=kafka.url, **options)
    assert next(consumer).value == b"before"
    consumer.close()


def test_kafka_wants_a_password_on_its_other_port(kafka: Kafka) -> None:
    address = kafka.url_at(kafka.sasl_port)
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": kafka.user}
    client = KafkaAdminClient(bootstrap_servers=address, sasl_plain_password=kafka.password, **login)
    client.close()


def test_postgresql_is_killed_and_comes_back_with_its_prepared_transactions(postgresql: PostgreSQL) -> None:
    with psycopg.connect(postgresql.url) as connection:
        connection.execute("CREATE TABLE test_brokers (value text)")
    with psycopg.connect(postgresql.url, autocommit=True) as connection:
        for statement in ("BEGIN", "INSERT INTO test_brokers VALUES ('before')", "PREPARE TRANSACTION 'test-brokers'"):
            connection.execute(statement)
    postgresql.kill()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(postgresql.url)
    postgresql.start()
    with psycopg.connect(postgresql.url, autocommit=True) as connection:
        connection.execute("COMMIT PREPARED 'test-brokers'")
        assert connection.execute("SELECT value FROM test_brokers").fetchall() == [("before",)]


def test_a_broker_is_restarted_on_its_port(nats: Nats) -> None:
    port, before = nats.port, pids(nats.folder)
    nats.restart()
    assert nats.port == port
    assert pids(nats.folder) != before
    running = pids(nats.folder)
    nats.start()
    assert pids(nats.folder) == running


async def test_a_frozen_broker_answers_nobody_until_it_is_thawed(nats: Nats) -> None:
    for thaw in (nats.thaw, nats.start):
        await asyncio.to_thread(nats.freeze)
        process = psutil.Process(pids(nats.folder)[0])
        # A signal takes effect a little later.
        await asyncio.to_thread(wait_until, lambda process=process: process.status() == psutil.STATUS_STOPPED)
        reader, writer = await asyncio.open_connection(nats.host, nats.port)
        answer = asyncio.create_task(reader.read(1))
        assert not answer.done()
        await asyncio.to_thread(thaw)
        async with asyncio.timeout(DEADLINE_S):
            assert await answer == b"I"
        writer.close()


def test_a_broker_that_is_not_installed_is_a_skip_that_says_so_and_a_failure_where_nothing_may_be_skipped(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Missing(Nats):
        @classmethod
        def is_installed(cls) -> bool:
            return False

    with pytest.raises(NotInstalled, match="nats is not installed; run: make brokers"):
        Missing(tmp_path).start()
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="nats is not installed; run: make brokers"):
        plugin.start_for_tests(Missing, tmp_path, pytestconfig)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="nats is not installed"):
        plugin.start_for_tests(Missing, tmp_path, pytestconfig)


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    broker = Nats(tmp_path / "nats")
    broker.start()
    broker.stop()
    with socket.create_server((broker.host, broker.port)), pytest.raises(BrokerFailed, match=f"listens on port {broker.port}"):
        broker.start()
    broker.start()
    broker.kill()


def test_one_that_does_not_start_says_why(tmp_path: Path) -> None:
    class Broken(Nats):
        def _commands(self) -> Sequence[Command]:
            return [Command(["sh", "-c", "echo no space left; exit 1"])]

    with pytest.raises(BrokerFailed, match=r"nats does not start; the end of .*log:\nno space left"):
        Broken(tmp_path / "nats").start()


def test_the_command_starts_shows_and_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_FOLDER", tmp_path)

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(command.main, [*arguments, "nats"])
        assert result.exit_code == 0, result.output
        return result.output

    run("install")
    assert run("status") == "nats         stopped\n"
    url = run("start").split()[1]
    try:
        (shown,) = json.loads(run("status", "--json"))["brokers"]
        assert (shown["name"], shown["running"], shown["url"]) == ("nats", True, url)
        assert run("start").split()[1] == url
    finally:
        run("stop")
    assert run("status") == "nats         stopped\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_broker_outlives_its_session(tmp_path: Path, number: signal.Signals) -> None:
    folder_file, test = tmp_path / "folder", tmp_path / "test_hangs.py"
    test.write_text(
        f"""
import time
from pathlib import Path
def test_hangs(nats, postgresql):
    Path({str(folder_file) + ".new"!r}).write_text(str(nats.folder.parent))
    Path({str(folder_file) + ".new"!r}).rename({str(folder_file)!r})
    time.sleep({DEADLINE_S})
"""
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.brokers.plugin", f"--rootdir={tmp_path}", str(test)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    session = subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        wait_until(folder_file.exists)
        folder = Path(folder_file.read_text())
        processes = [psutil.Process(pid) for name in ("nats", "postgresql") for pid in pids(folder / name)]
        processes += [child for process in processes for child in process.children(recursive=True)]
        assert len(processes) > 3
        session.send_signal(number)
        wait_until(lambda: not any(map(alive, processes)) and not folder.exists())
    finally:
        session.kill()
        session.communicate()


def pids(folder: Path) -> list[int]:
    return [process["pid"] for process in json.loads((folder / "state.json").read_text())["processes"]]


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.02)
