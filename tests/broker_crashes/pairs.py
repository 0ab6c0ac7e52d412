"""A source and a sink of one system: the connectors' parameters, and what the system's own programs do at either end."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from tests.broker_crashes.workload import Row

_DEADLINE_S = 150.0
_T = TypeVar("_T")


class Pair(ABC):
    """The source connector that it is named for, and a sink connector. Clients connect anew each time: brokers are killed."""

    name: ClassVar[str]
    """The source connector; also the source as the query knows it."""
    system: ClassVar[str]
    sink: ClassVar[str]
    """The sink connector."""
    deduplicates: ClassVar[bool] = False
    """Whether the query has to drop what the source gives again, by its id."""
    has_key: ClassVar[bool] = True
    """Whether its messages have keys."""
    may_lose: ClassVar[bool] = False
    """Whether messages may be lost while the broker or its network is away."""

    @staticmethod
    @abstractmethod
    def findings(rows: Sequence[Row], published: int) -> list[str]:
        """What in the rows is not as the pages of both connectors promise."""

    @property
    @abstractmethod
    def source_parameters(self) -> Mapping[str, Any]:
        """Where the source connector finds the broker, and what it reads."""

    @property
    @abstractmethod
    def sink_parameters(self) -> Mapping[str, Any]:
        """Where the sink connector finds the broker, and what it writes to."""

    @abstractmethod
    def make(self) -> None:
        """Makes what is read, and what is written to."""

    @abstractmethod
    def publish(self, numbers: range) -> None:
        """Publishes messages, each once, and waits until the broker has them."""

    @abstractmethod
    def rows(self) -> list[Row]:
        """The visible messages at the far end, in its order."""

    def visible(self) -> int:
        """How many messages have their result there, repeats not counted."""
        return len({row.number for row in self.rows()})

    def left(self) -> str | None:
        """What source or sink still hold at the broker, and should not once all is done."""
        return None

    def close(self) -> None:  # noqa: B027 - most have nothing to end
        """Ends what it has started."""


def again_while(error: type[Exception] | tuple[type[Exception], ...], ask: Callable[[], _T]) -> _T:
    """Asks a broker until it answers: one that has just been started is not ready for everything."""
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        try:
            return ask()
        except error:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
