"""A broker as the benchmark uses it: filled, drained and published to by its bare client, and read by its connector."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

from headrace.contract.errors import HeadraceError
from headrace.laboratory.bench.sources import MESSAGE_BYTES, TICK_S

BODY = b"m" * 60
"""What is drained."""


class InvalidAddress(HeadraceError):
    """This is no address of such a broker; the message says how to write one."""


class System(ABC):
    """A broker at an address. A place is a queue, a stream or a topic that only the benchmark uses."""

    name: ClassVar[str]
    """What its connector and its part of the benchmark are called."""
    keeps: ClassVar[bool]
    """Whether messages are still there when they were taken."""
    client: ClassVar[str]
    """The library that the connector is compared with, and how that is used."""

    def __init__(self, url: str) -> None:
        """Connects to nothing yet.

        Raises:
            InvalidAddress: This is no address of such a broker.
        """
        self.url = url

    @abstractmethod
    def fill(self, place: str, messages: int) -> None:
        """Makes a place and stores so many messages in it, or adds them where it exists; returns when the broker has all."""

    @abstractmethod
    def drain(self, place: str, messages: int) -> float:
        """Takes so many messages by the bare client; returns how long that took, in seconds, from before it connected."""

    @abstractmethod
    def publish(self, place: str, per_second: float, seconds: float) -> None:
        """Makes a place where there is none, and publishes stamped messages at a steady rate."""

    @abstractmethod
    def remove(self, place: str) -> None:
        """Removes a place, if it exists, with all in it."""

    @abstractmethod
    def source(self, place: str, name: str) -> Sequence[str]:
        """The connector and its options, to read a place as the source of a name."""

    def secrets(self) -> dict[str, str]:
        """What the connector is told in the environment, since others can read a command line."""
        return {}


def stamped(per_second: float, seconds: float) -> Iterator[list[bytes]]:
    """The messages whose time has come, at a steady rate; each is, as text, the moment at which it was due."""
    begun, at, total = time.time(), 0, int(per_second * seconds)
    while at < total:
        due = min(int((time.time() - begun) * per_second), total)
        if due > at:
            yield [f"{begun + n / per_second:<{MESSAGE_BYTES}.6f}".encode() for n in range(at + 1, due + 1)]
            at = due
        time.sleep(max(TICK_S, begun + (at + 1) / per_second - time.time()))
