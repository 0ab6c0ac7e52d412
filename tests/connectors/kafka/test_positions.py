"""`headrace connector positions` finds a time by Kafka's own index, and a query that is moved there reads from there."""

import asyncio
import base64
import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner, Result
from tests.connectors.kafka.rig import numbered, numbers, reading

from headrace.connectors_cli import positions_of
from headrace.connectors_cli.connector import connector
from headrace.protocol.v1.frame_pb2 import Position

FIRST_MS = 1_700_000_000_000
HOUR_MS = 3600_000


def positions(*words: str) -> Result:
    return CliRunner().invoke(connector, ["positions", *words])


@pytest.mark.behaviour(
    "kafka",
    "`headrace positions rewind` to a time before the checkpoint's",
    "finds it in Kafka, with `--connector FILE:NAME`",
)
async def test_a_query_goes_back_to_a_time_of_each_record(log, address, query, tmp_path):
    topic = log.create(3)
    for number in range(10):
        log.append(topic, numbered(number, 1), partition=0, timestamp_ms=FIRST_MS + number * HOUR_MS)
        log.append(topic, numbered(number, 1), partition=1, timestamp_ms=FIRST_MS)
    here = {"bootstrap_servers": log.servers, "topics": topic}
    one = query()
    async with reading(address, **here):
        await one.attach()
        await one.read(20)
    time = datetime.fromtimestamp((FIRST_MS + 6 * HOUR_MS) / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    words = [f"--bootstrap-servers={log.servers}", f"--topics={topic}", "--source=s", f"--time={time}"]
    done = await asyncio.to_thread(positions, "kafka", *words)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["positions"]
    assert {name.removeprefix(f"s/{topic}-"): (at["epoch"], at["sequence"]) for name, at in found.items()} == {
        "0": (0, 6),
        "1": (0, 10),
        "2": (0, 0),
    }
    file = tmp_path / "kafka.toml"
    table = {"connector": "kafka", "source": "s", "bootstrap_servers": [log.servers], "topics": [topic], "start": "latest"}
    file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in table.items()))
    done = await asyncio.to_thread(positions, "-c", str(file), "--time", time)
    assert json.loads(done.stdout)["positions"] == found
    deployment = tmp_path / "deploy.toml"
    del table["start"]
    written = "".join(f"{name} = {json.dumps(value)}\n" for name, value in table.items())
    deployment.write_text(f"[connectors.orders]\n{written}")
    by_index = await asyncio.to_thread(positions_of, f"{deployment}:orders", datetime.fromisoformat(time))
    assert {name: (at.sequence, base64.b64encode(at.cursor).decode()) for name, at in by_index.positions.items()} == {
        name: (at["sequence"], at["cursor"]) for name, at in found.items()
    }
    moved = {
        name: Position(epoch=0, sequence=at["sequence"], cursor=base64.b64decode(at["cursor"])) for name, at in found.items()
    }
    again = query("again", moved)
    async with reading(address, **here):
        await again.attach()
        assert numbers(await again.read(4)) == [6, 7, 8, 9]


def test_what_has_no_positions_is_told(log):
    where = f"--bootstrap-servers={log.servers}"
    untimed = positions("kafka", where, "--topics=t", "--source=s")
    assert (untimed.exit_code, "name the time, with --time" in untimed.stderr) == (2, True)
    no_topic = positions("kafka", where, "--topics=not.any", "--source=s", "--time=2026-01-31")
    assert (no_topic.exit_code, "kafka has no streams" in no_topic.stderr) == (1, True)
    other = positions("file", "--source=s", "--path=*.csv", "--time=2026-01-31")
    assert (other.exit_code, "file cannot find a time" in other.stderr) == (2, True), other.output
    reader = positions("rabbitmq-stream", "--source=s", "--queue=q", "--start=first", "--time=2026-01-31")
    assert (reader.exit_code, "rabbitmq-stream cannot find a time" in reader.stderr) == (2, True), reader.output
