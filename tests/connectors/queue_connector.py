"""A connector that is not there: declares every kind of parameter, and connects to nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field, SecretStr, model_validator

from headrace.connectors import Connector, Implementation, Parameters
from headrace.sdk import HeadraceError, InvalidSource, Message, Source

PASSWORD = "correct horse"


class Mode(Enum):
    FAST = "fast"
    SAFE = "safe"


class QueueParameters(Parameters):
    """Read a queue."""

    queue: str = Field(description="Which queue.", examples=["orders"])
    source: str = Field(description="Name of the streams.")
    password: SecretStr = Field(description="Whom to be.")
    token: SecretStr | None = Field(default=None, description="A token of the queue's own.")
    hosts: list[str] = Field(default=["localhost"], description="Where it is.")
    prefetch: int = Field(default=1000, ge=1, le=10_000, description="How many at once.")
    wait_seconds: float | None = Field(default=None, gt=0, description="How long to wait.")
    tls_ca: Path | None = Field(default=None, description="Whom to trust.")
    mode: Mode = Field(default=Mode.SAFE, description="How.")
    order: Literal["old", "new"] | None = Field(default=None, description="Which first.")
    arguments: dict[str, str] = Field(default={}, description="Arguments.")
    login: dict[str, SecretStr] = Field(default={}, description="Secret arguments.")
    durable: bool = Field(default=True, description="Whether it stays.")

    @model_validator(mode="after")
    def _consistent(self) -> "QueueParameters":
        if self.mode is Mode.FAST and self.durable:
            raise ValueError("mode fast is for queues with durable = false")
        return self


class Queue(Source):
    def __init__(self, parameters: QueueParameters) -> None:
        if parameters.queue == "forbidden":
            raise InvalidSource("queue forbidden is not for reading")
        self.name = parameters.source
        self.login = parameters.login

    def read(self, partition: str, position: object) -> Iterator[Message]:
        yield Message(b"one")


def _check(parameters: QueueParameters) -> str:
    if parameters.queue == "away":
        raise HeadraceError(f"nothing listens at {parameters.hosts[0]}; is the queue server running?")
    return f"queue {parameters.queue} has 3 messages"


QUEUE = Implementation(QueueParameters, Queue, _check)
CONNECTOR = Connector(
    "queue", "source", replayable=False, mode=None, summary="a queue", module=f"{__name__}:QUEUE", extra="rabbitmq"
)


@contextmanager
def registered(*connectors: Connector) -> Iterator[None]:
    """These connectors are there, too."""
    from headrace.connectors import CONNECTORS

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.connectors._catalog.CONNECTORS", (*CONNECTORS, *connectors))
        yield
