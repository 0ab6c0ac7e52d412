"""The registry of bundled connectors. A connector is imported only when it is needed."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from headrace.connectors._parameters import Parameters
    from headrace.sdk import (
        AsyncIdempotentSink,
        AsyncSink,
        AsyncSource,
        AsyncTwoPhaseSink,
        IdempotentSink,
        Sink,
        Source,
        TwoPhaseSink,
    )

AnyConnector: TypeAlias = (
    "Source | AsyncSource | Sink | AsyncSink | IdempotentSink | AsyncIdempotentSink | TwoPhaseSink | AsyncTwoPhaseSink"
)
"""Anything that `headrace.sdk.run` accepts."""
P = TypeVar("P", bound="Parameters")


class MissingExtra(ImportError):
    """The client library of a connector is not installed; the message states how to install it."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Implementation(Generic[P]):
    """How to build a connector from its parameters.

    Attributes:
        parameters: The class of its parameters.
        build: Builds it, without connecting to anything.
        check: Connects as the connector would, without changing anything, and returns a one-line description of what it found;
            raises a `HeadraceError` that states what is wrong and what to do. None if there is nothing to connect to.
    """

    parameters: type[P]
    build: Callable[[P], AnyConnector]
    check: Callable[[P], str] | None = None


@dataclass(frozen=True, slots=True)
class Connector:
    """A bundled connector.

    Attributes:
        name: Its name for `headrace connector run`.
        kind: `source` or `sink`.
        replayable: Whether the same position always yields the same messages; None for a sink.
        mode: The guarantee of a sink: two-phase, batch-idempotent or at-least-once; None for a source.
        summary: What it reads or writes, in a line.
        module: Where its `Implementation` is, as `package.module:NAME`; imported only when it is needed.
        extra: The extra of the distribution headrace-connectors that installs its client library; None if it needs none.
        loses: Whether messages may be lost, because the system that it reads does not store them.
    """

    name: str
    kind: Literal["source", "sink"]
    replayable: bool | None
    mode: Literal["two-phase", "batch-idempotent", "at-least-once"] | None
    summary: str
    module: str
    extra: str | None = None
    loses: bool = False

    @property
    def guarantee(self) -> str:
        """The delivery guarantee, in a sentence."""
        if self.kind == "sink":
            return _OF_SINKS[self.mode or "at-least-once"]
        if self.loses:
            return "at most once: messages sent while the connector is unavailable are lost"
        if self.replayable:
            return "exactly once: the same position always yields the same messages"
        return "at least once: unacknowledged messages are redelivered after a fault"

    def load(self) -> Implementation[Any]:
        """Imports the connector.

        Raises:
            MissingExtra: Its client library is not installed.
        """
        module, _, name = self.module.partition(":")
        try:
            implementation = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            if self.extra is None or (error.name or "").partition(".")[0] == "headrace":
                raise
            install = f"pip install 'headrace-connectors[{self.extra}]'"
            raise MissingExtra(f"connector {self.name} needs the module {error.name}: {install}") from error
        assert isinstance(implementation, Implementation)
        return implementation


_OF_SINKS = {
    "two-phase": "exactly once: a message is visible if and only if its micro-batch is committed",
    "batch-idempotent": "exactly once: each transaction is written once, atomically with its id",
    "at-least-once": "at least once: what Spark redelivers after a fault is written again",
}

CONNECTORS: tuple[Connector, ...] = (
    Connector(
        "file",
        "source",
        replayable=True,
        mode=None,
        summary="lines or length-prefixed records of files, including growing files",
        module="headrace.connectors.file:FILE",
    ),
    Connector(
        "file-sink",
        "sink",
        replayable=None,
        mode="two-phase",
        summary="JSON lines, raw lines or length-prefixed records, exactly once",
        module="headrace.connectors.file:FILE_SINK",
    ),
    Connector(
        "http",
        "source",
        replayable=False,
        mode=None,
        summary="webhooks, answered once they are in the checkpoint",
        module="headrace.connectors.http:HTTP",
        extra="http",
    ),
    Connector(
        "http-sink",
        "sink",
        replayable=None,
        mode="at-least-once",
        summary="requests to a URL, each with an id for detecting duplicates",
        module="headrace.connectors.http:HTTP_SINK",
        extra="http",
    ),
    Connector(
        "kafka",
        "source",
        replayable=True,
        mode=None,
        summary="topics, by offset; each partition is a stream",
        module="headrace.connectors.kafka:KAFKA",
        extra="kafka",
    ),
    Connector(
        "kafka-sink",
        "sink",
        replayable=None,
        mode="batch-idempotent",
        summary="topics, in transactions that also store their ids",
        module="headrace.connectors.kafka:KAFKA_SINK",
        extra="kafka",
    ),
    Connector(
        "nats",
        "source",
        replayable=True,
        mode=None,
        summary="a JetStream stream, by sequence",
        module="headrace.connectors.nats:NATS",
        extra="nats",
    ),
    Connector(
        "nats-consumer",
        "source",
        replayable=False,
        mode=None,
        summary="a durable JetStream consumer, acknowledged once messages are in the checkpoint",
        module="headrace.connectors.nats:NATS_CONSUMER",
        extra="nats",
    ),
    Connector(
        "nats-core",
        "source",
        replayable=False,
        mode=None,
        summary="subjects of core NATS, at most once",
        module="headrace.connectors.nats:NATS_CORE",
        extra="nats",
        loses=True,
    ),
    Connector(
        "nats-sink",
        "sink",
        replayable=None,
        mode="at-least-once",
        summary="JetStream subjects, with ids by which JetStream drops duplicates",
        module="headrace.connectors.nats:NATS_SINK",
        extra="nats",
    ),
    Connector(
        "postgresql",
        "source",
        replayable=True,
        mode=None,
        summary="rows of a table as they are inserted, including rows that commit late",
        module="headrace.connectors.postgresql:POSTGRESQL",
        extra="postgresql",
    ),
    Connector(
        "postgresql-outbox",
        "source",
        replayable=True,
        mode=None,
        summary="an outbox table, by LISTEN and NOTIFY; rows are deleted once they are acknowledged",
        module="headrace.connectors.postgresql:POSTGRESQL_OUTBOX",
        extra="postgresql",
    ),
    Connector(
        "postgresql-sink",
        "sink",
        replayable=None,
        mode="two-phase",
        summary="a table, by INSERT and PREPARE TRANSACTION",
        module="headrace.connectors.postgresql:POSTGRESQL_SINK",
        extra="postgresql",
    ),
    Connector(
        "postgresql-upsert",
        "sink",
        replayable=None,
        mode="batch-idempotent",
        summary="a table that keeps the last message of each key",
        module="headrace.connectors.postgresql:POSTGRESQL_UPSERT",
        extra="postgresql",
    ),
    Connector(
        "rabbitmq",
        "source",
        replayable=False,
        mode=None,
        summary="classic and quorum queues, acknowledged once they are in the checkpoint",
        module="headrace.connectors.rabbitmq:RABBITMQ",
        extra="rabbitmq",
    ),
    Connector(
        "rabbitmq-sink",
        "sink",
        replayable=None,
        mode="at-least-once",
        summary="an exchange, or queues, with publisher confirms",
        module="headrace.connectors.rabbitmq:RABBITMQ_SINK",
        extra="rabbitmq",
    ),
    Connector(
        "rabbitmq-stream",
        "source",
        replayable=True,
        mode=None,
        summary="stream queues, by offset",
        module="headrace.connectors.rabbitmq:RABBITMQ_STREAM",
        extra="rabbitmq",
    ),
    Connector(
        "stdout-sink",
        "sink",
        replayable=None,
        mode="at-least-once",
        summary="values or JSON lines, for inspection",
        module="headrace.connectors.stdout:STDOUT_SINK",
    ),
    Connector(
        "tcp",
        "source",
        replayable=False,
        mode=None,
        summary="length-prefixed messages from any number of clients, at most once",
        module="headrace.connectors.tcp:TCP",
        loses=True,
    ),
)
