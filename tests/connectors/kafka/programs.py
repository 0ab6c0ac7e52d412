"""Programs that tests start as processes, in order to kill them."""

import json
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kafka import KafkaProducer
from kafka.net.compat import KafkaNetClient

from headrace.connectors.kafka import KafkaParameters, KafkaSink, KafkaSinkParameters, KafkaSource
from headrace.connectors.kafka.librdkafka_transactions import LibrdkafkaTransactions
from headrace.connectors.kafka.producer import Producer
from headrace.sdk import Message, Rows, Transaction, run

STEPS = [
    "before the transaction begins",
    "when the id is there",
    "when some messages are sent",
    "when all messages are there",
    "when the commit is asked for",
    "when the commit is confirmed",
    "when the transaction is written",
]
"""Where a writer may die, in their order."""


def read(gateway: str, parameters: str) -> int:
    """Streams Kafka into a gateway."""
    return run(KafkaSource(KafkaParameters(**json.loads(parameters))), gateway=gateway)


def write(batch: str, values: str, parameters: str) -> int:
    """Writes a transaction once for each step, with the parameters for it, and dies there; in processes that need no start."""
    by_step = json.loads(parameters)
    children = [os.fork() or _write_and_die(step, int(batch), json.loads(values), by_step[step]) for step in by_step]
    statuses = [os.waitpid(child, 0)[1] for child in children]
    return 0 if statuses == [signal.SIGKILL] * len(children) else 1


def _write_and_die(step: str, batch: int, values: list[str], parameters: dict[str, Any]) -> int:
    """Writes a transaction, and dies at a step."""
    sink_parameters = KafkaSinkParameters(**parameters)
    sink = KafkaSink(sink_parameters)
    sink.last("p")
    rows = [Rows.of(*(Message(value.encode()) for value in values))]
    (_die_at if sink_parameters.client == "kafka-python" else _die_with_librdkafka_at)(step)
    sink.write(Transaction("p", batch), iter(rows))
    _die()
    return 0


def _die_at(step: str) -> None:
    """Has this process killed at a step of the next transaction."""
    sent = flushed = 0

    def send(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        nonlocal sent
        sent += 1
        if sent == 3 and step == "when some messages are sent":
            original_flush(args[0])
            _die()
        return original(*args, **kwargs)

    def flush(original: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        nonlocal flushed
        original(*args, **kwargs)
        flushed += 1
        if (flushed, step) in ((1, "when the id is there"), (2, "when all messages are there")):
            _die()

    def commit(original: Callable[..., Any], *args: Any) -> None:
        original(*args)
        if step == "when the commit is confirmed":
            _die()

    def request(original: Callable[..., Any], client: Any, node: Any, request: Any, **kwargs: Any) -> Any:
        answer = original(client, node, request, **kwargs)
        if type(request).__name__.startswith("EndTxnRequest") and step == "when the commit is asked for":
            # Whether the broker comes to know of it is left to chance: either way must do.
            client.poll(timeout_ms=1)
            _die()
        return answer

    original_flush = KafkaProducer.flush
    if step == "before the transaction begins":
        _replace(KafkaProducer, "begin_transaction", lambda *_: _die())
    _replace(KafkaProducer, "send", send)
    _replace(KafkaProducer, "flush", flush)
    _replace(Producer, "commit", commit)
    _replace(KafkaNetClient, "send", request)


def _die_with_librdkafka_at(step: str) -> None:
    """Has this process killed at a step of the next transaction."""

    def begin(original: Callable[..., Any], *args: Any) -> None:
        if step == "before the transaction begins":
            _die()
        original(*args)
        if step == "when the id is there":
            _die()

    def send(original: Callable[..., Any], transactions: LibrdkafkaTransactions, messages: Iterable[tuple[str, Message]]) -> None:
        def some() -> Iterator[tuple[str, Message]]:
            for number, message in enumerate(messages):
                if number == 3 and step == "when some messages are sent":
                    transactions._wait_until_stored()
                    _die()
                yield message

        original(transactions, some())
        if step == "when all messages are there":
            transactions._wait_until_stored()
            _die()

    def commit(original: Callable[..., Any], *args: Any) -> None:
        if step == "when the commit is asked for":
            # Whether the broker comes to know of it is left to chance: either way must do.
            threading.Timer(random.random() / 20, _die).start()
        original(*args)
        if step in ("when the commit is asked for", "when the commit is confirmed"):
            _die()

    _replace(LibrdkafkaTransactions, "begin", begin)
    _replace(LibrdkafkaTransactions, "send", send)
    _replace(LibrdkafkaTransactions, "commit", commit)


def _replace(owner: type, name: str, method: Callable[..., Any]) -> None:
    original = getattr(owner, name)
    setattr(owner, name, lambda *args, **kwargs: method(original, *args, **kwargs))


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit({"read": read, "write": write}[sys.argv[1]](*sys.argv[2:]))
