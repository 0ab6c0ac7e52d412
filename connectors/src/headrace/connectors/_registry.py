"""The connectors that come with Headrace, each with where it is: none of them is imported before it is asked for."""

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
"""What `headrace.sdk.run` runs."""
P = TypeVar("P", bound="Parameters")


class MissingExtra(ImportError):
    """The client library of a connector is not installed; the text says how to install it."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Implementation(Generic[P]):
    """How a connector is made from its parameters.

    Attributes:
        parameters: What it can be told.
        build: Makes it; connects to nothing yet.
        check: Connects as it would, changes nothing, and says in a line what it found; raises a `HeadraceError` that names
            what was wrong and what to do. None where there is nothing to connect to.
    """

    parameters: type[P]
    build: Callable[[P], AnyConnector]
    check: Callable[[P], str] | None = None


@dataclass(frozen=True, slots=True)
class Connector:
    """A bundled connector.

    Attributes:
        name: What `headrace connector run` calls it.
        kind: `source` or `sink`.
        replayable: Whether the same position always yields the same messages; None for a sink.
        mode: What a sink promises: two-phase, batch-idempotent or at-least-once; None for a source.
        summary: What it reads or writes, in a line.
        module: Where its `Implementation` is, as `package.module:NAME`; imported only when it is needed.
        extra: Which extra of the distribution headrace-connectors has its client library; None where it needs none.
        loses: Whether messages may be lost, since the system that it reads keeps none.
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
        """What holds, in a sentence."""
        if self.kind == "sink":
            return _OF_SINKS[self.mode or "at-least-once"]
        if self.loses:
            return "at most once: what is sent while the connector is away is lost"
        if self.replayable:
            return "exactly once: the same position always yields the same messages"
        return "at least once: what was not acknowledged comes again after a fault"

    def load(self) -> Implementation[Any]:
        """Imports it.

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
    "batch-idempotent": "exactly once: a transaction is written in one step together with its id, and only once",
    "at-least-once": "at least once: what Spark delivers again after a fault is written again",
}

CONNECTORS: tuple[Connector, ...] = (
    Connector(
        "file",
        "source",
        replayable=True,
        mode=None,
        summary="lines or length-prefixed records of files, also of growing ones",
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
        summary="requests to a URL, each with an id to tell repeats by",
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
        summary="topics, in transactions that hold their ids",
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
        summary="subjects of JetStream, with ids that it tells repeats by",
        module="headrace.connectors.nats:NATS_SINK",
        extra="nats",
    ),
    Connector(
        "postgresql",
        "source",
        replayable=True,
        mode=None,
        summary="rows of a table as they are inserted, none skipped that commits late",
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
        summary="an exchange, or queues, with confirms",
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
        summary="values or JSON lines, to look at",
        module="headrace.connectors.stdout:STDOUT_SINK",
    ),
    Connector(
        "tcp",
        "source",
        replayable=False,
        mode=None,
        summary="length-prefixed messages of any number of clients, at most once",
        module="headrace.connectors.tcp:TCP",
        loses=True,
    ),
)
