"""Adds the steps that make rows of the messages of a table to the graph of a pipeline."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.pipelines import arguments as check
from headrace.pipelines._captured_tables import PrimaryKey
from headrace.pipelines._errors import GraphError
from headrace.pipelines.elements.message import Message
from headrace.pipelines.formats import Format
from headrace.pipelines.graph.builder import GraphBuilder
from headrace.pipelines.joins.as_of import Rows, message_key, row_of
from headrace.pipelines.steps.stateless import EventTime, Filter, KeyBy
from headrace.pipelines.steps.step import OnError


@dataclass(frozen=True)
class TableSteps:
    """The functions of a table, and their policy.

    Attributes:
        builder: The builder of the graph.
        row: Returns the row of a message; None if the message deletes it.
        key: Returns the key of a message.
        event_time: Returns the event time of a message; None if it is the message's own.
        policy: The policy for messages for which one of them raises.
    """

    builder: GraphBuilder
    row: Callable[[Message], Any]
    key: Callable[[Message], Any]
    event_time: Callable[[Message], Any] | None
    policy: OnError

    @classmethod
    def checked(
        cls, builder: GraphBuilder, method: str, name: str | None, decode: Any, key: Any, event_time: Any, on_error: Any
    ) -> "TableSteps":
        """Checks the functions that a method gets, and returns them.

        Raises:
            GraphError: A parameter is invalid.
        """
        place = builder.where(name, None, method)
        if decode is None:
            raise GraphError(f"{place}: decode must be a format or a function, not None")
        read = decode.decoder() if isinstance(decode, Format) else decode
        check.function(place, "decode", read, "payload", instead_of_yield="return one row")
        if isinstance(key, PrimaryKey):
            read = key.complete(read)
        elif key is not None:
            check.function(place, "key", key, "message", instead_of_yield="return a key, such as a tuple")
        if event_time is not None:
            check.function(place, "event_time", event_time, "message", instead_of_yield="return a datetime")
        return cls(builder, row_of(read), key or message_key, event_time, builder.policy(place, on_error))

    def by_key(self, source: int) -> int:
        """Adds steps after a source whose results are the rows by key, and returns the number of the last one."""
        name, number = self.builder.name_of(source), self._timed(source)
        number = self._add(KeyBy(self._free(f"{name}-key"), self.policy, self.key), number)
        return self._add(Rows(self._free(f"{name}-rows"), self.policy, self.row), number)

    def pairs(self, source: int) -> int:
        """Adds steps after a source whose results are pairs of a key and a row, and returns the number of the last one."""
        name, number, key, row = self.builder.name_of(source), self._timed(source), self.key, self.row
        return self._add(Rows(self._free(f"{name}-rows"), self.policy, lambda message: (key(message), row(message))), number)

    def _timed(self, source: int) -> int:
        """Adds the steps that leave out messages of other tables, and assign event times."""
        name, number = self.builder.name_of(source), source
        if isinstance(self.key, PrimaryKey):
            number = self._add(Filter(self._free(f"{name}-captured"), self.policy, self.key.has), number)
        if self.event_time is not None:
            number = self._add(EventTime(self._free(f"{name}-time"), self.policy, self.event_time), number)
        return number

    def _free(self, name: str) -> str:
        return self.builder.name_for(None, name)

    def _add(self, step: Any, after: int) -> int:
        return self.builder.add(step, after)
