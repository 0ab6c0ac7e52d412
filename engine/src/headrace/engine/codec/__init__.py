"""Converts frames to Arrow record batches and back, column by column."""

from headrace.engine.codec._decode import (
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
    SCHEMA,
    Columns,
    columns,
    cut,
    record_batch,
    record_batches,
    sequences_of,
)
from headrace.engine.codec._encode import COLUMNS, MAX_FRAME_BYTES, MAX_FRAME_ROWS, check_schema, frames

__all__ = [
    "COLUMNS",
    "MAX_BATCH_BYTES",
    "MAX_BATCH_ROWS",
    "MAX_FRAME_BYTES",
    "MAX_FRAME_ROWS",
    "SCHEMA",
    "Columns",
    "check_schema",
    "columns",
    "cut",
    "frames",
    "record_batch",
    "record_batches",
    "sequences_of",
]
