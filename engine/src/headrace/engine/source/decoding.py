"""Rows whose values are columns, for the options `decode` and `schema`."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from headrace.engine._errors import DecodeError, OptionError
from headrace.engine.codec import ERROR, ERROR_VALUE, Columns, record_batches
from headrace.engine.source.options import Options
from headrace.engine.source.schema import SCHEMA
from headrace.pipelines import GraphError
from headrace.pipelines.formats import Block, ColumnReader, Registry, avro, avro_columns, json_columns


def typed_schema(options: Options) -> StructType | str:
    """Returns the source's columns, of which `value` is a struct; as DDL, which only the JVM can parse, if the schema is DDL.

    Raises:
        OptionError: The schema is invalid.
    """
    text = options.schema or ""
    if options.decode == "json" and not text.lstrip().startswith("{"):
        return ", ".join(_ddl(field, text) for field in _fields(options, StructType()))
    try:
        if options.decode == "avro":
            value = from_arrow_schema(avro_columns("avro", text).schema, prefer_timestamp_ntz=True)
        else:
            value = StructType.fromJson(json.loads(text))
    except Exception as error:
        raise OptionError(f"option schema: {type(error).__name__}: {error}") from error
    return StructType(_fields(options, value))


def _fields(options: Options, value: StructType) -> list[StructField]:
    fields = [StructField("value", value, True) if field.name == "value" else field for field in SCHEMA]
    return fields + [StructField(ERROR, StringType()), StructField(ERROR_VALUE, BinaryType())] * options.keep_errors


def _ddl(field: StructField, value: str) -> str:
    kind = f"STRUCT<{value}>" if field.name == "value" else field.dataType.simpleString()
    return f"{field.name} {kind}{'' if field.nullable else ' NOT NULL'}"


@dataclass(frozen=True)
class TypedRows:
    """Converts messages to rows whose values are structs.

    Attributes:
        options: The options of the source.
        rows: The columns of the rows.
    """

    options: Options
    rows: StructType

    def __post_init__(self) -> None:
        """Checks that values can be read into the columns.

        Raises:
            OptionError: A column has a type that the format cannot be read into.
        """
        if self.rows.names != [field.name for field in _fields(self.options, StructType())]:
            raise OptionError(f"option schema: it is not the schema of one value: {self.rows.simpleString()}")
        self._reader()

    def __call__(self, frames: Iterable[Columns]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of messages.

        Raises:
            DecodeError: A value cannot be decoded, and `onError` is `fail`.
            FrameError: The columns of a frame are inconsistent.
        """
        reader, schema = self._reader(), _arrow(self.rows.json())
        for batch in record_batches(frames):
            yield self._typed(batch, reader, schema)

    def _reader(self) -> ColumnReader:
        options = self.options
        registry = None if options.registry is None else (options.registry, options.registry_options or "{}")
        return _reader_of(options.decode or "", options.schema or "", self.rows.json(), options.freeze, registry)

    def _typed(self, batch: pa.RecordBatch, reader: ColumnReader, schema: pa.Schema) -> pa.RecordBatch:
        payloads = batch.column("value").to_pylist()
        block = reader.read(payloads)
        if block.errors and not self.options.keep_errors:
            index, error = min(block.errors.items())
            where = f"stream {batch.column('stream')[index].as_py()}, sequence {batch.column('sequence')[index].as_py()}"
            advice = "correct schema, or set onError to null, which keeps such values beside their errors"
            raise DecodeError(f"{where}: {error}; {advice}") from None
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns["value"] = _spread(block, len(payloads), schema.field("value").type)
        if self.options.keep_errors:
            errors = block.errors
            columns[ERROR] = pa.array([str(errors[at]) if at in errors else None for at in range(len(payloads))], pa.string())
            columns[ERROR_VALUE] = pa.array([value if at in errors else None for at, value in enumerate(payloads)], pa.binary())
        arrays = [_as(columns[field.name], field.type) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _spread(block: Block, count: int, kind: pa.StructType) -> pa.Array:
    """Returns the values of a block as structs, with a null where a payload has no value."""
    arrays = [_as(array, field.type) for array, field in zip(block.batch.columns, kind, strict=True)]
    rows = pa.StructArray.from_arrays(arrays, fields=list(kind))
    if len(rows) == count:
        return rows
    present, runs, begin = frozenset(block.there), [], 0
    for is_there, run in groupby(range(count), present.__contains__):
        size = len(list(run))
        runs.append(rows.slice(begin, size) if is_there else pa.nulls(size, rows.type))
        begin += size * is_there
    return pa.concat_arrays(runs)


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    # Arrow casts no struct that is null to a type whose fields may not be null, not even to its own.
    return array if array.type == kind else array.cast(kind)


@lru_cache(maxsize=16)
def _arrow(rows: str) -> pa.Schema:
    """Returns columns, given as JSON, as Spark expects them."""
    return to_arrow_schema(StructType.fromJson(json.loads(rows)), timezone="UTC")


def _registry(url: str, settings: str) -> Registry:
    try:
        document = json.loads(settings)
        if not isinstance(document, dict):
            raise TypeError("it is not an object")
    except (ValueError, TypeError) as error:
        # Without the text, which may have a password.
        raise OptionError(
            f"option registryOptions: want an object of JSON with settings as texts: {type(error).__name__}"
        ) from None
    try:
        return Registry(url, document)
    except GraphError as error:
        raise OptionError(f"option registry: {error}") from error


@lru_cache(maxsize=16)
def _reader_of(form: str, schema: str, rows: str, freeze: bool, registry: tuple[str, str] | None) -> ColumnReader:
    try:
        if registry is not None:
            return avro(schema, registry=_registry(*registry)).columns()
        if form == "avro":
            return avro_columns("avro", schema)
        return json_columns(pa.schema(list(_arrow(rows).field("value").type)), freeze=freeze)
    except GraphError as error:
        raise OptionError(f"option schema: {error}") from error
    except PySparkException as error:  # Arrow has no such type
        raise OptionError(f"option schema: values cannot be read into it: {error}") from error
