"""The states of one step as rows: what a task of Spark makes of the buckets of a checkpoint."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import pyarrow as pa

from headrace.contract.errors import HeadraceError
from headrace.engine._errors import CheckpointError
from headrace.engine.applications.offline.plain import plain
from headrace.engine.applications.states.bucket_files import BucketFiles
from headrace.engine.applications.states.durable import load
from headrace.engine.applications.states.store import read_head
from headrace.engine.checkpoint.manifests import Bucket, Entry
from headrace.engine.checkpoint.state_files import StateFiles, state_files
from headrace.pipelines import GraphError, StateError
from headrace.pipelines.formats import Columns, columns_of
from headrace.pipelines.runtime import Graph, Key

ROWS = 4096
"""The number of states in a record batch."""
KEYS: dict[type, pa.DataType] = {str: pa.string(), bytes: pa.binary(), int: pa.int64(), float: pa.float64()}
"""The types of keys that have a column of their own."""
GONE, WRONG = "gone", "wrong"
"""The columns with the reason why a bucket has no rows: a file of the checkpoint, or a state."""


@dataclass(frozen=True)
class StateRows:
    """Reads the states of one step, as a function of Spark's `mapInArrow`; a row that arrives names a bucket by its index.

    A bucket that cannot be read is a row with the reason, since Spark would run a task that fails again.

    Attributes:
        graph: The application's graph.
        step: The step.
        buckets: The buckets, with their entries in the manifest.
        dropped: The steps whose states were dropped.
        root: The URL of the folder of states.
        batch: The micro-batch.
        as_json: Whether states are JSON, also where their class has columns.
    """

    graph: Graph
    step: str
    buckets: Sequence[tuple[Bucket, Entry]]
    dropped: frozenset[str]
    root: str
    batch: int
    as_json: bool

    @property
    def schema(self) -> pa.Schema:
        """A column for each type of keys, the key in JSON, the state, and the micro-batch."""
        keys = [pa.field(kind.__name__, type_) for kind, type_ in KEYS.items()]
        others = [pa.field("json", pa.string()), pa.field("state", self._state_type), pa.field("batch", pa.int64())]
        return pa.schema([*keys, *others, pa.field(GONE, pa.string()), pa.field(WRONG, pa.string())])

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the buckets that arrive."""
        files = state_files(self.root)
        for batch in batches:
            for index in batch.column("bucket").to_pylist():
                try:
                    yield from self._rows(files, *self.buckets[index])
                except CheckpointError as error:
                    yield self._batch({GONE: [str(error)]}, 1)
                except HeadraceError as error:
                    yield self._batch({WRONG: [str(error)]}, 1)

    def _rows(self, files: StateFiles, at: Bucket, entry: Entry) -> Iterator[pa.RecordBatch]:
        levels = self.graph.keyed_levels
        classes = {step.name: step.state_class for step in self.graph.keyed if levels[step.name] == at[0]}
        store = BucketFiles(files, at, entry)
        kept = load(store, read_head(store), classes, self.dropped)[self.step]
        items = iter(kept.items())
        while some := list(islice(items, ROWS)):
            keys = [key for key, _ in some]
            columns: dict[str, Any] = {kind.__name__: [_of(kind, key) for key in keys] for kind in KEYS}
            columns["json"] = [json.dumps(plain(key)) for key in keys]
            columns["state"] = self._states(keys, [self._keyed.display(state) for _, state in some])
            yield self._batch({**columns, "batch": [self.batch] * len(keys)}, len(keys))

    def _batch(self, columns: dict[str, Any], rows: int) -> pa.RecordBatch:
        """A record batch; columns that are not given are null."""
        schema = self.schema
        arrays = [
            column if isinstance(column := columns.get(field.name, [None] * rows), pa.Array) else pa.array(column, field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _states(self, keys: Sequence[Key], states: Sequence[Any]) -> "pa.Array[Any]":
        """The column of states.

        Raises:
            StateError: A state has no place in it.
        """
        if self._columns is None:
            return pa.array([json.dumps(plain(state)) for state in states], pa.string())
        kind: Any = self._keyed.display_class
        try:
            if any(type(state) is not kind for state in states):
                raise TypeError(f"it is not of class {kind.__qualname__}")
            found = self._columns.batch(states)
        except Exception as error:
            if len(keys) > 1:
                # The error names the key.
                for key, state in zip(keys, states, strict=True):
                    self._states([key], [state])
            reason = str(error).splitlines()[0]
            raise StateError(
                f"step {self.step}: the state of key {keys[0]!r} does not fit the columns of {kind.__qualname__}: {reason}; "
                "read states as JSON with as_json=True"
            ) from error
        return pa.StructArray.from_arrays(found.columns, fields=list(self._columns.schema))

    @property
    def _keyed(self) -> Any:
        return next(keyed for keyed in self.graph.keyed if keyed.name == self.step)

    @cached_property
    def _columns(self) -> Columns | None:
        """The columns of the state's class; None if it has none."""
        kind = self._keyed.display_class
        if self.as_json or kind is None:
            return None
        try:
            found = columns_of(kind)
        except GraphError:
            return None
        # Spark has no type for a time of day, nor for a struct without fields.
        if not found.schema.names or any(_has_time(field.type) for field in found.schema):
            return None
        return found

    @property
    def _state_type(self) -> pa.DataType:
        return pa.string() if self._columns is None else pa.struct(list(self._columns.schema))


def _of(kind: type, key: Key) -> Key:
    """A key in the column of a type; null if it is of another type, or does not fit."""
    if type(key) is not kind or (isinstance(key, int) and key.bit_length() > 63):
        return None
    return key


def _has_time(type_: pa.DataType) -> bool:
    """Whether a type is a time of day, or contains one."""
    if pa.types.is_time(type_):
        return True
    return any(_has_time(type_.field(index).type) for index in range(type_.num_fields))
