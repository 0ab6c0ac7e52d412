"""kafka-python's consumer, changed to return stretches of a partition's log instead of single records."""

from functools import partial
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from headrace.connectors.kafka._internals import take_apart_with
from headrace.connectors.kafka._stretches import Fetched


class StretchConsumer(KafkaConsumer):  # type: ignore[misc]
    """A `KafkaConsumer` whose `poll` returns `Stretch`es instead of records; everything else is unchanged.

    `tests/connectors/kafka/test_records.py` compares the results with those of the unchanged consumer.
    """

    def __init__(self, **configs: Any) -> None:
        """As `KafkaConsumer`."""
        super().__init__(**configs)
        suspects: dict[TopicPartition, int] = {}
        take_apart_with(self, partial(Fetched, suspects=suspects))
