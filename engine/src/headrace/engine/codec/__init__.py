"""Joins frames to columns of messages, and converts these to Arrow record batches and back."""

from headrace.engine.codec._columns import Columns, Table, Texts, columns, cut, sequences_of, table
from headrace.engine.codec._decode import MAX_BATCH_BYTES, MAX_BATCH_ROWS, SCHEMA, record_batch, record_batches
from headrace.engine.codec._encode import (
    COLUMNS,
    ERROR,
    ERROR_VALUE,
    MAX_FRAME_BYTES,
    MAX_FRAME_ROWS,
    check_schema,
    frames,
)

__all__ = [
    "COLUMNS",
    "ERROR",
    "ERROR_VALUE",
    "MAX_BATCH_BYTES",
    "MAX_BATCH_ROWS",
    "MAX_FRAME_BYTES",
    "MAX_FRAME_ROWS",
    "SCHEMA",
    "Columns",
    "Table",
    "Texts",
    "check_schema",
    "columns",
    "cut",
    "frames",
    "record_batch",
    "record_batches",
    "sequences_of",
    "table",
]
