"""kafka-python's consumer, made to give stretches of a partition's log instead of single records."""

from functools import partial
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from headrace.connectors.kafka._internals import take_apart_with
from headrace.connectors.kafka._stretches import Fetched


class StretchConsumer(KafkaConsumer):  # type: ignore[misc]
    """A `KafkaConsumer` whose `poll` gives `Stretch`es where it should give records; all else is as it was.

    What comes out is compared with what the unchanged consumer gives in `tests/connectors/kafka/test_records.py`.
    """

    def __init__(self, **configs: Any) -> None:
        """As `KafkaConsumer`."""
        super().__init__(**configs)
        suspects: dict[TopicPartition, int] = {}
        take_apart_with(self, partial(Fetched, suspects=suspects))
