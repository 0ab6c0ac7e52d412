"""The connectors for Kafka pass the conformance kit."""

import os

import pytest
from kafka import TopicPartition
from tests.conformance.systems import CLOSE, judge, values
from tests.connectors.kafka.rig import Log

pytestmark = [pytest.mark.timeout(600), pytest.mark.in_turn(2)]
LOST = 5
"""How many records each partition loses."""


def topic_of(check: str) -> str:
    """The topic of a check."""
    return f"conformance{os.getpid()}.{check}"


def test_the_source_passes(log: Log) -> None:
    def setup(check: str) -> None:
        log.create(2, topic_of(check))
        for partition in range(2):
            log.append(topic_of(check), [b"%d-%d" % (partition, number) for number in range(15)], partition)

    def produce(check: str, count: str, size: str) -> None:
        log.append(topic_of(check), [b"x" * int(size)] * int(count))

    def lose(check: str) -> None:
        log.ask(lambda admin: admin.delete_records({TopicPartition(topic_of(check), number): LOST for number in range(2)}))

    command = ["kafka", "--source=s", f"--bootstrap-servers={log.servers}", f"--topics={topic_of('{check}')}"]
    commands = {"setup": setup, "produce": produce, "lose": lose}
    verdict = judge("source", command, {"messages": 30}, commands)

    assert verdict.failed == set(), verdict.explained()
    assert {"resume", "replay", "crash", "position-lost", "largest-message"} <= verdict.named("passed")
    assert (
        verdict.named("skipped")
        == {
            "redelivery",
            "epochs",
            "earlier-epoch",
            "resume-cursor",
            "cursor-order",
            "starts",
            "end-of-stream",
            "gone",
            "last-acks",
            "reopen-after-end",
        }
        | CLOSE
    )


def test_the_sink_passes(log: Log, each_client: str) -> None:
    commands = {
        "setup": lambda check: log.create(2, topic_of(f"{each_client}.{check}")) and None,
        "read": lambda check: values(log.values(topic_of(f"{each_client}.{check}"))),
    }
    names = topic_of(f"{each_client}.{{check}}")
    options = [f"--topic={names}", f"--transactional-id={names}", f"--state-topic={names}-ids", f"--client={each_client}"]
    command = ["kafka-sink", "--sink=s", f"--bootstrap-servers={log.servers}", *options]
    verdict = judge("sink", command, {"mode": "batch-idempotent"}, commands)

    assert verdict.failed == set(), verdict.explained()
    assert {"batch-again", "early", "visible", "left-out", "missing-part"} <= verdict.named("passed")
