"""The work of the bare clients, each time in a separate process.

`python -m headrace.laboratory.bench.connectors.client SYSTEM ACTION PLACE` starts one.

The address is in the environment, since it may have a password. It prints one JSON object.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psutil

from headrace.laboratory.bench.connectors.system import System, WritableSystem
from headrace.laboratory.bench.rig import STOP_S, RunningConnector

POLL_S = 0.02
_URL = "HEADRACE_BENCH_URL"
_MODULE = "headrace.laboratory.bench.connectors.client"
_CLASSES = {
    "rabbitmq": "rabbitmq:RabbitMQ",
    "nats": "nats:Nats",
    "kafka": "kafka:Kafka",
    "kafka_librdkafka": "kafka_librdkafka:KafkaLibrdkafka",
}


@dataclass(frozen=True, slots=True)
class Drained:
    """The measurements of a drain.

    Attributes:
        messages: The number of messages.
        seconds: The duration.
        rss_mb: The peak resident memory of the process, in MB of 10^6 bytes.
    """

    messages: int
    seconds: float
    rss_mb: float

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds


def system(name: str, url: str) -> System:
    """Returns a broker. Only its own client is imported, since the memory of a draining process is measured."""
    module, _, kind = _CLASSES[name].partition(":")
    made: System = getattr(importlib.import_module(f"headrace.laboratory.bench.connectors.{module}"), kind)(url)
    return made


def fill(broker: System, place: str, messages: int) -> None:
    """Stores messages; see `System.fill`.

    Raises:
        RuntimeError: The client failed.
    """
    _run(broker, "fill", place, "--messages", str(messages))


def drain(broker: System, place: str, messages: int) -> Drained:
    """Consumes messages with the bare client; see `System.drain`.

    Raises:
        RuntimeError: The client failed.
    """
    used = 0.0
    command = _command(broker, "drain", place, "--messages", str(messages))
    with subprocess.Popen(command, env=_environment(broker), stdout=subprocess.PIPE) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            with suppress(psutil.Error):
                used = max(used, watched.memory_info().rss / 1e6)
            time.sleep(POLL_S)
        output, _ = process.communicate()
    _check(broker, process.returncode)
    return Drained(messages, json.loads(output)["seconds"], used)


def write(broker: WritableSystem, place: str, messages: int) -> float:
    """Writes messages with the bare client; see `WritableSystem.write`. Returns how many per second.

    Raises:
        RuntimeError: The client failed.
    """
    command = _command(broker, "write", place, "--messages", str(messages))
    done = subprocess.run(command, env=_environment(broker), stdout=subprocess.PIPE, check=False)
    _check(broker, done.returncode)
    return messages / float(json.loads(done.stdout)["seconds"])


@contextmanager
def place_of(broker: System, place: str) -> Iterator[str]:
    """Yields a place, and removes it when the block ends."""
    try:
        yield place
    finally:
        _run(broker, "remove", place)


@contextmanager
def publishing(broker: System, place: str, per_second: float, seconds: float) -> Iterator["subprocess.Popen[bytes]"]:
    """Publishes stamped messages during the block; see `System.publish`."""
    command = _command(broker, "publish", place, "--rate", str(per_second), "--seconds", str(seconds))
    process = subprocess.Popen(command, env=_environment(broker), stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait(STOP_S)


@contextmanager
def watching(broker: WritableSystem, place: str, messages: int) -> Iterator[RunningConnector]:
    """Consumes stamped messages in a process during the block; its result has `seen`; see `WritableSystem.watch`."""
    command = _command(broker, "watch", place, "--messages", str(messages))
    process = subprocess.Popen(command, env=_environment(broker), stdout=subprocess.PIPE)
    try:
        yield RunningConnector(process)
    finally:
        process.kill()
        process.wait(STOP_S)


def _run(broker: System, action: str, place: str, *options: str) -> None:
    command = _command(broker, action, place, *options)
    done = subprocess.run(command, env=_environment(broker), stdout=subprocess.DEVNULL, check=False)
    _check(broker, done.returncode)


def _check(broker: System, code: int) -> None:
    if code:
        raise RuntimeError(f"the client of {broker.name} ended with {code}; its errors are above")


def _command(broker: System, action: str, place: str, *options: str) -> list[str]:
    return [sys.executable, "-m", _MODULE, broker.name, action, place, *options]


def _environment(broker: System) -> dict[str, str]:
    return {**os.environ, _URL: broker.url}


def main() -> None:
    """Performs one action."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", choices=[*_CLASSES])
    parser.add_argument("action", choices=["fill", "drain", "write", "watch", "publish", "remove"])
    parser.add_argument("place")
    parser.add_argument("--messages", type=int, default=0)
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("--seconds", type=float, default=0)
    given = parser.parse_args()
    broker = system(given.system, os.environ[_URL])
    found: dict[str, Any] = {}
    match given.action:
        case "fill":
            broker.fill(given.place, given.messages)
        case "drain":
            found = {"seconds": broker.drain(given.place, given.messages)}
        case "write":
            assert isinstance(broker, WritableSystem)
            found = {"seconds": broker.write(given.place, given.messages)}
        case "watch":
            assert isinstance(broker, WritableSystem)
            found = {"seen": broker.watch(given.place, given.messages)}
        case "publish":
            broker.publish(given.place, given.rate, given.seconds)
        case "remove":
            broker.remove(given.place)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
