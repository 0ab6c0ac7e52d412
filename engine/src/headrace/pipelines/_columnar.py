"""Steps whose functions receive Arrow record batches, for those who need their speed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.pipelines._elements import Elements, Key, States
from headrace.pipelines._keys import normal_key
from headrace.pipelines._rows import ArrowColumn, Rows, TableRows, as_array
from headrace.pipelines._state import StateClass
from headrace.pipelines._step import KeyedStep, Run, Step

if TYPE_CHECKING:
    import pyarrow as pa

S = TypeVar("S")


class KeyStates(Generic[S]):
    """The states of a step, as its columnar function sees them: `states[key]` is that of a key, made where it is new."""

    def __init__(self, states: States, make: Callable[[], S]) -> None:
        self._states = states
        self._make = make
        self.asked: dict[Key, None] = {}
        """The keys whose states the function has had, and may have changed."""

    def __getitem__(self, key: Key) -> S:
        """The state of a key, which may be changed."""
        self.asked[key] = None
        try:
            state: S = self._states[key]
        except KeyError:
            state = self._states[key] = self._make()
        return state

    def __delitem__(self, key: Key) -> None:
        """Forgets the state of a key."""
        self.asked[key] = None
        self._states.pop(key, None)

    def __contains__(self, key: Key) -> bool:
        """Whether a key has a state."""
        return key in self._states

    def __iter__(self) -> Iterator[Key]:
        """Goes through the keys that have states, of this bucket."""
        return iter(list(self._states))


@dataclass(frozen=True, eq=False)
class MapColumns(Step):
    """Hands all values of a piece of a stream to a function, as one record batch.

    Attributes:
        function: Returns a record batch, of any columns and any number of rows, or None for nothing.
    """

    function: "Callable[[pa.RecordBatch], pa.RecordBatch | None]"

    def apply(self, elements: Elements, run: Run) -> Elements:
        """What the function returns."""
        return _handed(self, lambda: self.function(batch_of(elements)), elements, run)

    @property
    def label(self) -> str:
        """How users call it."""
        return "map_columns"


@dataclass(frozen=True, eq=False)
class StatefulColumns(KeyedStep):
    """The same with the states of the keys that are in the batch.

    Attributes:
        function: Takes a record batch that has the column `key`, and the states by key.
        make: Makes the state of a key that is new.
    """

    function: "Callable[[pa.RecordBatch, KeyStates[Any]], pa.RecordBatch | None]"
    make: Callable[[], Any]

    @cached_property
    def state_class(self) -> StateClass:
        """Made by `make`."""
        return StateClass(self.make, self.name)

    def apply(self, elements: Elements, run: Run) -> Elements:
        """What the function returns."""
        assert elements.keys is not None, "the graph puts such a step behind a key_by"
        batch = batch_of(elements)
        if "key" not in batch.schema.names:
            batch = batch.append_column("key", as_array(elements.keys))  # type: ignore[arg-type]
        states = KeyStates[Any](run.states(self.name), self.make)
        try:
            return _handed(self, lambda: self.function(batch, states), elements, run)
        finally:
            run.touched(self.name, list(states.asked))

    @property
    def label(self) -> str:
        """How users call it."""
        return "stateful_columns"

    @property
    def kind(self) -> str:
        """Its states are those of a function that takes one value."""
        return "stateful"


def batch_of(elements: Elements) -> "pa.RecordBatch":
    """The values as a record batch.

    Raises:
        TypeError: they are Python objects.
    """
    if not isinstance(elements.values, Rows):
        raise TypeError("a columnar step takes whole messages or rows: let it follow a source without decode, or a columnar step")
    return elements.values.batch


def _handed(step: Step, call: "Callable[[], pa.RecordBatch | None]", elements: Elements, run: Run) -> Elements:
    """The elements that a function makes of others; those have failed together, where it raises."""
    try:
        made = call()
        keys = _keys_of(made)
    except Exception as error:
        for index in range(len(elements)):
            run.failed(step, elements, index, error)
        return elements.pick([])
    if made is None or not made.num_rows:
        return elements.pick([])
    if made.num_rows == len(elements):
        return replace(elements, values=TableRows(made), keys=keys or elements.keys, decoded_by=None)
    # Where the function has dropped or added rows, nobody knows which message each comes from: the last one stands for all.
    last = elements.place(len(elements) - 1)
    return Elements(TableRows(made), elements.origin, [last] * made.num_rows, keys, mixed=True)


def _keys_of(made: "pa.RecordBatch | None") -> Sequence[Key] | None:
    """The keys that the column `key` says; None where there is none.

    Raises:
        TypeError: a key is none.
        ValueError: likewise.
    """
    if made is None or "key" not in made.schema.names:
        return None
    import pyarrow as pa

    column = made.column("key")
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type) or pa.types.is_integer(column.type):
        return ArrowColumn(column)
    return [normal_key(key) for key in column.to_pylist()]
