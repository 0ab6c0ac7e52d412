"""The connectors for RabbitMQ pass the conformance kit."""

import contextlib
import os

import pytest
from tests.conformance.systems import Command, judge, values
from tests.connectors.rabbitmq.rig import Rabbit

pytestmark = [pytest.mark.timeout(600), pytest.mark.in_turn(3)]


def queue_of(check: str) -> str:
    """The queue of a check."""
    return f"conformance{os.getpid()}-{check}"


def declared(rabbit: Rabbit, kind: str, check: str) -> None:
    """Declares a queue."""
    with contextlib.closing(rabbit.channel()) as channel:
        channel.queue_declare(queue_of(check), durable=True, arguments={"x-queue-type": kind})


def commands(rabbit: Rabbit, kind: str) -> dict[str, Command]:
    """The needs of a check of a source."""

    def setup(check: str) -> None:
        declared(rabbit, kind, f"{kind}-{check}")
        rabbit.publish(queue_of(f"{kind}-{check}"), [b"m%d" % number for number in range(30)])

    def produce(check: str, count: str, size: str) -> None:
        rabbit.publish(queue_of(f"{kind}-{check}"), [b"x" * int(size)] * int(count))

    return {"setup": setup, "produce": produce}


def test_the_source_passes(rabbit: Rabbit) -> None:
    command = ["rabbitmq", "--source=s", f"--url={rabbit.broker.url}", f"--queue={queue_of('quorum-{check}')}"]
    spec = {"kind": "redelivering", "messages": 30}
    verdict = judge("source", command, spec, commands(rabbit, "quorum"))

    assert verdict.failed == set(), verdict.explained()
    assert {"redelivery", "epochs", "crash", "gateway-restart", "largest-message"} <= verdict.named("passed")


def test_the_source_of_streams_passes(rabbit: Rabbit) -> None:
    command = ["rabbitmq-stream", "--source=s", f"--url={rabbit.broker.url}", f"--queue={queue_of('stream-{check}')}"]
    verdict = judge("source", command, {"messages": 30}, commands(rabbit, "stream"))

    assert verdict.failed == set(), verdict.explained()
    assert {"resume", "replay", "crash", "gateway-restart", "largest-message"} <= verdict.named("passed")


def test_the_sink_passes(rabbit: Rabbit) -> None:
    def read(check: str) -> str:
        found = []
        # Unacknowledged messages are in the queue again when the channel is closed.
        with contextlib.closing(rabbit.channel()) as channel:
            while (body := channel.basic_get(queue_of(f"sink-{check}"))[2]) is not None:
                found.append(body)
        return values(found)

    command = ["rabbitmq-sink", "--sink=s", f"--url={rabbit.broker.url}", f"--routing-key={queue_of('sink-{check}')}"]
    asked: dict[str, Command] = {"setup": lambda check: declared(rabbit, "classic", f"sink-{check}"), "read": read}
    verdict = judge("sink", command, {"mode": "at-least-once"}, asked)

    assert verdict.failed == set(), verdict.explained()
    assert {"staged-survives", "visible", "large-part"} <= verdict.named("passed")
