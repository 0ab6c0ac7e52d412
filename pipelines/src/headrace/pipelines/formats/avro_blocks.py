"""Avro records of a schema into columns in one call, of pyruhvro."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from headrace.pipelines.formats.arrays import is_in_calendar

if TYPE_CHECKING:
    import pyarrow as pa

END = "headrace_end"
"""A field behind the last one, whose text no record contains: where it is missing, bytes are left behind a record."""
_FAST = {"long", "string", "boolean", "double", "float", "int"}
_FAST_TIMES = {"timestamp-millis", "timestamp-micros"}
_PANIC = "PanicException"
"""What a fault in Rust raises. It is not an `Exception`, and its class has no public name."""


@dataclass(frozen=True)
class AtOnce:
    """Reads all records of a block in one call.

    Attributes:
        schema: The columns.
        text: The schema for pyruhvro: with `END`.
        end: The text of the last field.
    """

    schema: "pa.Schema"
    text: str
    end: str

    def read(self, payloads: Sequence[bytes], begin: int = 0) -> "pa.RecordBatch | None":
        """Returns the rows of all payloads, in each of which the record begins at the same byte; None if one is faulty."""
        import pyarrow as pa
        from pyruhvro import deserialize_array

        end = bytes([2 * len(self.end)]) + self.end.encode()
        try:
            batch = deserialize_array([payload[begin:] + end for payload in payloads], self.text)
            found = batch.column(batch.num_columns - 1)
            whole = pa.array([self.end], found.type)
            if batch.num_rows != len(payloads) or found.unique() != whole:
                return None
            types = [one.type for one in self.schema]
            arrays = [a if a.type == kind else a.cast(kind) for a, kind in zip(batch.columns[:-1], types, strict=True)]
            batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
            batch.validate(full=True)
            if not all(map(is_in_calendar, batch.columns)):
                return None
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
                raise
            return None  # each record alone shows which one is faulty
        return batch


def at_once(document: Any, columns: "pa.Schema") -> AtOnce | None:
    """Returns what reads records of a schema in one call; None if pyruhvro cannot, or is not installed.

    Args:
        document: The schema, of a record.
        columns: Its columns.
    """
    fields = document["fields"]
    if find_spec("pyruhvro") is None or END in columns.names or not all(is_fast(field["type"]) for field in fields):
        return None
    widened = [*({**field, "type": _widened(field["type"])} for field in fields), {"name": END, "type": "string"}]
    return AtOnce(columns, json.dumps({**document, "fields": widened}), secrets.token_hex(16))


def is_fast(schema: Any, *, is_column: bool = True) -> bool:
    """Whether pyruhvro reads values of a schema as fastavro does. Every value takes a byte at least, so that none is endless."""
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        return len(schema) == 2 and len(others) == 1 and is_fast(others[0], is_column=is_column)
    if isinstance(schema, str):
        return schema in _FAST
    logical = schema.get("logicalType")
    if isinstance(schema["type"], (dict, list)):
        return logical is None and is_fast(schema["type"], is_column=is_column)
    if logical is not None:
        return is_column and schema["type"] == "long" and logical in _FAST_TIMES
    if schema["type"] == "record":
        return bool(schema["fields"]) and all(is_fast(field["type"], is_column=False) for field in schema["fields"])
    if schema["type"] == "array":
        return is_fast(schema["items"], is_column=False)
    return schema["type"] == "enum" or schema["type"] in _FAST


def _widened(schema: Any) -> Any:
    """Returns a schema with `long` for `int`: pyruhvro cuts off what does not fit into 32 bits."""
    if isinstance(schema, list):
        return [_widened(one) for one in schema]
    if isinstance(schema, str):
        return "long" if schema == "int" else schema
    return {name: _widened(value) if name in ("type", "items", "fields") else value for name, value in schema.items()}
