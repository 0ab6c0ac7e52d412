"""The parameters of the Kafka connectors."""

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from headrace.configuration import Duration, Size
from headrace.connectors._parameters import start_of
from headrace.connectors.bad_records import BadRecordParameters
from headrace.connectors.kafka._connection import KafkaConnection
from headrace.connectors.kafka.route import Route, is_topic


class KafkaParameters(KafkaConnection, BadRecordParameters):
    """Stream the records of topics, exactly once; each partition of a topic is a partition of the source.

    The position is stored in Spark's checkpoint. A group, if there is one, only follows it.
    """

    source: str = Field(description="Streams are named SOURCE/TOPIC-PARTITION.", examples=["orders"])
    topics: tuple[str, ...] = Field((), description="Topics to read.", examples=["orders"])
    topic_pattern: str | None = Field(
        None,
        description="Instead of topics: a regular expression for whole names.",
    )
    group: str | None = Field(
        None,
        description="A consumer group of its own, for tools that show lag.",
    )
    start: str = Field(
        "earliest",
        description="Where a new query begins: earliest; latest, after the last record; or the first record since a "
        "time such as 2026-01-31T12:00:00Z.",
    )
    isolation: Literal["read_committed", "read_uncommitted"] = Field(
        "read_committed", description="Whether to read records of open or aborted transactions."
    )
    verify_checksums: bool = Field(
        True,
        description="Verify checksums: half a microsecond per message, less with the package crc32c.",
    )
    partition_fetch_bytes: Size = Field(1 << 20, ge=1, description="The most bytes to fetch from a partition at once.")
    fetch_bytes: Size = Field(16 << 20, ge=1, description="The most bytes to fetch from a broker at once.")

    @field_validator("start")
    @classmethod
    def _is_a_start(cls, start: str) -> str:
        start_of(start)
        return start

    @field_validator("topic_pattern")
    @classmethod
    def _is_an_expression(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(f"topic_pattern is not a valid regular expression: {error}") from None
        return pattern

    @model_validator(mode="after")
    def _names_topics(self) -> Self:
        if bool(self.topics) == (self.topic_pattern is not None):
            raise ValueError("give either topics or topic_pattern")
        for topic in self.topics:
            if not is_topic(topic):
                raise ValueError(f"topics: {topic!r} is not a valid topic name: use letters, digits and '._-'")
        return self


class KafkaSinkParameters(KafkaConnection):
    """Write to topics, exactly once: each micro-batch is a Kafka transaction, which also stores the id of the micro-batch.

    Consumers see each message once if they read with isolation.level=read_committed.
    """

    topic: str = Field(
        description="The topic; {key}, {message_id} and {header:NAME} stand for values of the message.",
        examples=["alerts"],
    )
    sink: str = Field(description='The name of the sink in Spark: format("headrace").option("sink", SINK).', examples=["alerts"])
    transactional_id: str | None = Field(
        None, description="The transactional.id, for one writer at a time. Default: headrace-SINK."
    )
    state_topic: str | None = Field(
        None,
        description="The compacted topic for ids of transactions, created if missing. Default: headrace-SINK.",
    )
    transaction_timeout_seconds: Duration = Field(
        300.0,
        gt=0,
        description="How long a transaction may be open: longer than a micro-batch takes, at most the brokers' "
        "transaction.max.timeout.ms. The open transaction of a dead sink may block consumers this long.",
    )
    retry_seconds: Duration = Field(
        120.0,
        ge=15,
        description="How long a micro-batch waits for unreachable brokers before it fails.",
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        "none", description="The compression of written records."
    )

    @field_validator("topic")
    @classmethod
    def _is_a_route(cls, topic: str) -> str:
        Route(topic)
        return topic

    @model_validator(mode="after")
    def _has_a_timeout(self) -> Self:
        if self.client == "librdkafka" and self.transaction_timeout_seconds < 1:
            raise ValueError("transaction_timeout_seconds: librdkafka takes one second at least")
        return self

    @property
    def writer(self) -> str:
        """The transactional.id of this writer."""
        return self.transactional_id or f"headrace-{self.sink}"

    @property
    def state(self) -> str:
        """The topic for the ids of transactions."""
        return self.state_topic or f"headrace-{self.sink}"
