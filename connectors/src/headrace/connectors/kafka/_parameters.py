"""What the Kafka connectors can be told."""

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from headrace.connectors._bad_records import BadRecordParameters
from headrace.connectors.kafka._connection import KafkaConnection
from headrace.connectors.kafka._route import Route, is_topic


class KafkaParameters(KafkaConnection, BadRecordParameters):
    """Stream the records of topics, exactly once; each partition of a topic is a partition of the source.

    Where to go on is kept in Spark's checkpoint; a group, if there is one, is only told how far that has come.
    """

    source: str = Field(description="Streams are called SOURCE/TOPIC-PARTITION.", examples=["orders"])
    topics: tuple[str, ...] = Field((), description="Topics to read.", examples=["orders"])
    topic_pattern: str | None = Field(
        None, description="In place of topics: a regular expression that whole names match; new topics are found."
    )
    group: str | None = Field(
        None, description="A consumer group that nobody else uses, whose offsets follow the checkpoint, for tools that show lag."
    )
    start: Literal["earliest", "latest"] = Field(
        "earliest",
        description="Where a query that is new begins: with the first record there is, or after the last.",
    )
    isolation: Literal["read_committed", "read_uncommitted"] = Field(
        "read_committed", description="Whether to see records of transactions that are open, or were aborted."
    )
    verify_checksums: bool = Field(
        True, description="Verify what comes from the brokers. Takes half a microsecond a message, less with the package crc32c."
    )
    partition_fetch_bytes: int = Field(1 << 20, ge=1, description="How much to fetch of a partition at once.")
    fetch_bytes: int = Field(16 << 20, ge=1, description="How much to fetch from a broker at once.")

    @field_validator("topic_pattern")
    @classmethod
    def _is_an_expression(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(f"topic_pattern is no regular expression: {error}") from None
        return pattern

    @model_validator(mode="after")
    def _names_topics(self) -> Self:
        if bool(self.topics) == (self.topic_pattern is not None):
            raise ValueError("give either topics or topic_pattern")
        for topic in self.topics:
            if not is_topic(topic):
                raise ValueError(f"topics: {topic!r} is no name of a topic: use letters, digits and '._-'")
        return self


class KafkaSinkParameters(KafkaConnection):
    """Write to topics, exactly once: each micro-batch is a transaction of Kafka's, and its id is stored in that transaction.

    Consumers see each message once, provided that they read with isolation.level=read_committed.
    """

    topic: str = Field(
        description="Where messages go: text in which {key}, {message_id} and {header:NAME} stand for those of the message.",
        examples=["alerts"],
    )
    sink: str = Field(description='What Spark calls it: format("headrace").option("sink", SINK).', examples=["alerts"])
    transactional_id: str | None = Field(
        None, description="What Kafka knows this writer by; only one may have it at a time. headrace-SINK where not given."
    )
    state_topic: str | None = Field(
        None,
        description="A compacted topic for the ids of transactions; made where it is missing. headrace-SINK where not given.",
    )
    transaction_timeout_seconds: float = Field(
        300.0,
        gt=0,
        description="Longer than writing a micro-batch takes; at most the brokers' transaction.max.timeout.ms. So long a "
        "transaction of a sink that died may keep consumers waiting, unless it is started again.",
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field("none", description="How to compress what is written.")

    @field_validator("topic")
    @classmethod
    def _is_a_route(cls, topic: str) -> str:
        Route(topic)
        return topic

    @property
    def writer(self) -> str:
        """What Kafka knows this writer by."""
        return self.transactional_id or f"headrace-{self.sink}"

    @property
    def state(self) -> str:
        """The topic for the ids of transactions."""
        return self.state_topic or f"headrace-{self.sink}"
