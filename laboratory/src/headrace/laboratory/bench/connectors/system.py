"""The interface of a broker to the benchmark: its bare client fills, drains and publishes, and its connector reads."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

from headrace.contract.errors import HeadraceError
from headrace.laboratory.bench.sources import MESSAGE_BYTES, TICK_S

BODY = b"m" * 60
"""The message body of drains."""


class InvalidAddress(HeadraceError):
    """The address is not one of such a broker; the message says how to write one."""


class System(ABC):
    """A broker at an address. A place is a queue, stream or topic that only the benchmark uses."""

    name: ClassVar[str]
    """The name of its connector, and of its part of the benchmark."""
    keeps: ClassVar[bool]
    """Whether messages remain after they were consumed."""
    client: ClassVar[str]
    """The library that the connector is compared with, and how it is used."""

    def __init__(self, url: str) -> None:
        """Connects to nothing yet.

        Raises:
            InvalidAddress: The address is not one of such a broker.
        """
        self.url = url

    @abstractmethod
    def fill(self, place: str, messages: int) -> None:
        """Stores messages in a place, which is created if it does not exist, and waits until the broker has all of them."""

    @abstractmethod
    def drain(self, place: str, messages: int) -> float:
        """Consumes messages with the bare client; returns how long that took, in seconds, including connecting."""

    @abstractmethod
    def publish(self, place: str, per_second: float, seconds: float) -> None:
        """Publishes stamped messages at a steady rate in a place, which is created if it does not exist."""

    @abstractmethod
    def remove(self, place: str) -> None:
        """Removes a place with its content, if it exists."""

    @abstractmethod
    def source(self, place: str, name: str) -> Sequence[str]:
        """Returns the connector and its options for reading a place as a source named `name`."""

    def secrets(self) -> dict[str, str]:
        """Returns the variables to pass to the connector in the environment, since other users can read command lines."""
        return {}


class WritableSystem(System):
    """A broker whose sink is measured, too."""

    @abstractmethod
    def write(self, place: str, messages: int) -> float:
        """Writes messages with the bare client, as the sink does; returns how long that took, in seconds, with connecting."""

    @abstractmethod
    def watch(self, place: str, messages: int) -> list[tuple[float, float]]:
        """Consumes stamped messages as they become visible; returns the stamp of each, and when it was seen."""

    @abstractmethod
    def sink(self, place: str, name: str) -> Sequence[str]:
        """Returns the connector and its options for writing to a place as a sink named `name`."""


def stamped(per_second: float, seconds: float) -> Iterator[list[bytes]]:
    """Yields the messages that are due, at a steady rate; each contains its due time as text."""
    begun, at, total = time.time(), 0, int(per_second * seconds)
    while at < total:
        due = min(int((time.time() - begun) * per_second), total)
        if due > at:
            yield [f"{begun + n / per_second:<{MESSAGE_BYTES}.6f}".encode() for n in range(at + 1, due + 1)]
            at = due
        time.sleep(max(TICK_S, begun + (at + 1) / per_second - time.time()))
