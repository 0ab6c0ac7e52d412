"""Steps whose functions receive Arrow record batches, for speed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.pipelines.elements.elements import Elements, Key
from headrace.pipelines.elements.headers import Headers
from headrace.pipelines.elements.rows import ArrowColumn, MessageRows, Rows, TableRows, keys_array
from headrace.pipelines.formats import ColumnDecoder, Columns
from headrace.pipelines.states.state import StateClass
from headrace.pipelines.steps.bound import Bound
from headrace.pipelines.steps.key_states import KeyStates
from headrace.pipelines.steps.keys import normal_key
from headrace.pipelines.steps.returned import discard
from headrace.pipelines.steps.step import KeyedStep, OnError, Step, StepPass

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class MapColumns(Step):
    """Calls a function with all values of a piece of a stream, as one record batch.

    Attributes:
        function: Returns a record batch of any columns and any number of rows, or None for no results.
        headers: Whether batches have a column `headers`, of the function and of its results.
    """

    function: "Callable[[pa.RecordBatch], pa.RecordBatch | None]"
    headers: bool = False

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The results of the function."""
        return _handed(self, lambda: self.function(self._batch_of(elements)), elements, step_pass)

    @property
    def calls_function(self) -> bool:
        """False: the function receives record batches."""
        return False

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "map_columns"

    def _batch_of(self, elements: Elements) -> "pa.RecordBatch":
        batch = batch_of(elements)
        if elements.keys is not None and "key" in batch.schema.names:
            batch = with_keys(batch, elements.keys)
        return with_headers(batch, elements) if self.headers else batch

    @property
    def reads_headers(self) -> bool:
        """Whether the batches have headers."""
        return self.headers


@dataclass(frozen=True, eq=False)
class ToColumns(Step):
    """Turns objects of a class into rows with a column for each field."""

    columns: Columns

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The same elements, as rows. An object that its columns cannot hold has failed."""
        objects = list(elements.values)
        try:
            return replace(elements, values=TableRows(self.columns.batch(objects)), decoded_by=None)
        except Exception:
            there = list[int]()
            for index, value in enumerate(objects):
                try:
                    self.columns.batch([value])
                    there.append(index)
                except Exception as error:
                    step_pass.failed(self, elements, index, error)
            return self.apply(elements.pick(there), step_pass) if there else elements.pick([])

    @property
    def calls_function(self) -> bool:
        """False: no function of the application is called."""
        return False

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "to_columns"


@dataclass(frozen=True, eq=False)
class DecodeColumns(Step):
    """Decodes messages into rows with a column for each field, a block at a time."""

    decoder: ColumnDecoder

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The rows of the messages, without messages that are null or cannot be decoded."""
        rows = elements.values
        assert isinstance(rows, MessageRows), "the graph puts such a step behind a source without decode"
        block, errors = self.decoder.read(list(rows.payloads))
        for index in sorted(errors):
            step_pass.failed(self, elements, index, errors[index])
        kept = elements if len(block.there) == len(elements) else elements.pick(block.there)
        return replace(kept, values=TableRows(block.batch), decoded_by=None)

    @property
    def calls_function(self) -> bool:
        """False: no function of the application is called."""
        return False

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "decode_columns"


@dataclass(frozen=True, eq=False)
class StatefulColumns(KeyedStep):
    """The same, with the states of the keys in the batch.

    Attributes:
        function: Called with a record batch that has a column `key`, and the states by key.
        make: Creates the state of a new key.
        headers: Whether batches have a column `headers`, of the function and of its results.
    """

    function: "Callable[[pa.RecordBatch, KeyStates[Any]], pa.RecordBatch | None]"
    make: Callable[[], Any]
    headers: bool = False

    @property
    def reads_headers(self) -> bool:
        """Whether the batches have headers."""
        return self.headers

    @cached_property
    def state_class(self) -> StateClass:
        """The class of the states that `make` creates."""
        return StateClass(self.make, self.name)

    @property
    def bound(self) -> Bound:
        """None, unless the function deletes states."""
        return Bound("your state of each key", "delete states[key] in your function, or set max_keys")

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The results of the function."""
        assert elements.keys is not None, "the graph puts such a step behind a key_by"
        keys = elements.keys
        states = KeyStates[Any](step_pass.states(self.name), self.make, keys)

        def call() -> "pa.RecordBatch | None":
            batch = with_keys(batch_of(elements), keys)
            return _own(_batch(self.function(with_headers(batch, elements) if self.headers else batch, states)))

        if self.on_error is not OnError.FAIL:
            states.remember()
        try:
            return _handed(self, call, elements, step_pass, states.roll_back)
        finally:
            step_pass.touched(self.name, list(states.asked))

    @property
    def calls_function(self) -> bool:
        """False: the function receives record batches."""
        return False

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "stateful_columns"

    @property
    def kind(self) -> str:
        """The same as for functions of one value, so that states can be exchanged."""
        return "stateful"


def batch_of(elements: Elements) -> "pa.RecordBatch":
    """The values as a record batch.

    Raises:
        TypeError: The values are Python objects.
    """
    if not isinstance(elements.values, Rows):
        raise TypeError("a columnar step must follow a source without decode, to_columns, or another columnar step")
    return elements.values.batch


def with_keys(batch: "pa.RecordBatch", keys: Sequence[Key]) -> "pa.RecordBatch":
    """The batch with the keys of its rows, which replace the keys of messages.

    Raises:
        TypeError: The keys are not of one type.
    """
    array, index = keys_array(keys), batch.schema.get_field_index("key")
    return batch.append_column("key", array) if index < 0 else batch.set_column(index, "key", array)


def with_headers(batch: "pa.RecordBatch", elements: Elements) -> "pa.RecordBatch":
    """The batch with the headers of its rows in a column."""
    from headrace.pipelines.elements.arrow_headers import headers_array

    return batch.append_column("headers", headers_array(elements.own_headers(), len(elements)))


def _handed(
    step: "MapColumns | StatefulColumns",
    call: "Callable[[], pa.RecordBatch | None]",
    elements: Elements,
    step_pass: StepPass,
    undo: Callable[[], None] = lambda: None,
) -> Elements:
    """The results of a function for elements, all of which fail if it raises. `undo` reverts its changes."""
    try:
        made = _batch(call())
        keys = _keys_of(made)
        headers = _headers_of(made) if step.headers else None
    except BaseException as error:
        undo()
        for index in range(len(elements)):
            step_pass.failed(step, elements, index, error)
        return elements.pick([])
    if made is None or not made.num_rows:
        return elements.pick([])
    if headers is not None:
        made = made.drop_columns("headers")
    if made.num_rows == len(elements):
        headers = elements.headers if headers is None else headers
        return replace(elements, values=TableRows(made), keys=keys or elements.keys, decoded_by=None, headers=headers)
    # If the function has dropped or added rows, it is unknown which message each comes from: use the last one for all.
    last, lineages = elements.place(len(elements) - 1), None
    if elements.lineages is not None:
        lineages = [(step.name, number) for number in range(made.num_rows)]
    return Elements(
        TableRows(made), elements.origin, [last] * made.num_rows, keys, mixed=True, headers=headers, lineages=lineages
    )


def _own(batch: "pa.RecordBatch | None") -> "pa.RecordBatch | None":
    """A copy of a record batch: its columns may share memory with numpy arrays in states."""
    if batch is None:
        return None
    import pyarrow as pa

    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(written.getvalue()).read_next_batch()


def _batch(result: Any) -> "pa.RecordBatch | None":
    """The results of a function.

    Raises:
        TypeError: It is neither a record batch nor None.
    """
    import pyarrow as pa

    if result is None or isinstance(result, pa.RecordBatch):
        return result
    discard(result)
    raise TypeError(
        f"the function returned a {type(result).__name__}; it must return a pyarrow.RecordBatch, or None for no results"
    )


def _headers_of(batch: "pa.RecordBatch | None") -> Sequence[Headers] | None:
    """The headers in the column `headers`; None if there is no such column.

    Raises:
        TypeError: It is not a column of headers, or contains a null.
    """
    if batch is None or "headers" not in batch.schema.names:
        return None
    from headrace.pipelines.elements.arrow_headers import ArrowHeaders

    return ArrowHeaders.of(batch.column("headers"))


def _keys_of(batch: "pa.RecordBatch | None") -> Sequence[Key] | None:
    """The keys in the column `key`; None if there is no such column.

    Raises:
        TypeError: A key is invalid.
        ValueError: A key is invalid.
    """
    if batch is None or "key" not in batch.schema.names:
        return None
    import pyarrow as pa

    column = batch.column("key")
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type) or pa.types.is_integer(column.type):
        return ArrowColumn(column)
    return [normal_key(key) for key in column.to_pylist()]
