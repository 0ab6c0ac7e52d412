"""The step that writes values to a table of files: Spark's tasks write the files, and its driver commits them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace.pipelines import arguments as check
from headrace.pipelines._errors import GraphError
from headrace.pipelines.elements.elements import Elements
from headrace.pipelines.elements.rows import MessageRows, Rows, TableRows
from headrace.pipelines.formats import Columns, columns_of
from headrace.pipelines.formats.arrays import array_of
from headrace.pipelines.steps.lake_partitions import check_partitions
from headrace.pipelines.steps.lake_places import are_apart, check_for_delta, check_for_iceberg, check_for_parquet, located
from headrace.pipelines.steps.lake_types import lacking
from headrace.pipelines.steps.step import Step, StepPass

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("parquet", "delta", "iceberg")
BATCH_COLUMN = "micro_batch"
"""The column that readers find in a table of Parquet files: each micro-batch has a folder, `micro_batch=...`."""


@dataclass(frozen=True, eq=False)
class Lake(Step):
    """Writes values as rows of a table.

    Attributes:
        path: The folder of the table, or its place on S3 or HDFS.
        format: How its files are committed: one of `FORMATS`.
        columns: The columns of the table, and how values become rows.
        partition_by: The columns that divide the table into folders.
        table: Its name in a catalog of Iceberg, and the catalog's before it; empty for other formats.
        options: Credentials, or properties of the catalog, for its library.
        file_bytes: The size at which a task begins a further file, in bytes.
    """

    path: str
    format: str
    columns: Columns
    partition_by: tuple[str, ...] = ()
    table: str = ""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    file_bytes: int = 256 << 20

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The elements as rows of the table. A value that the columns cannot hold has failed."""
        try:
            return replace(elements, values=TableRows(self._rows(elements.values)), decoded_by=None)
        except Exception:  # The search names each value that does not fit.
            there = list(self._sound(elements, 0, elements, step_pass))
        if not there:
            return elements.pick([])
        kept = elements if len(there) == len(elements) else elements.pick(there)
        return replace(kept, values=TableRows(self._rows(kept.values)), decoded_by=None)

    @property
    def calls_function(self) -> bool:
        """False: no function of the application is called."""
        return False

    @property
    def label(self) -> str:
        """The kind, with its table."""
        return f"lake {self.path}"

    def is_beside(self, other: "Lake") -> bool:
        """Whether no reader of one table finds files of the other one."""
        return are_apart(self.path, other.path)

    def _sound(self, some: Elements, first: int, elements: Elements, step_pass: StepPass) -> Iterator[int]:
        """Yields the indices of elements that the columns can hold. The others fail, each by itself."""
        try:
            self._rows(some.values)
        except Exception as error:
            if len(some) == 1:
                step_pass.failed(self, elements, first, error)
                return
        else:
            yield from range(first, first + len(some))
            return
        half = len(some) // 2
        yield from self._sound(some.pick(range(half)), first, elements, step_pass)
        yield from self._sound(some.pick(range(half, len(some))), first + half, elements, step_pass)

    def _rows(self, values: Sequence[Any]) -> "pa.RecordBatch":
        """The values as rows.

        Raises:
            ValueError: A value does not fit; the text names the field.
        """
        import pyarrow as pa

        schema = self.columns.schema
        if isinstance(values, Rows):
            arrays = _of_batch(values.batch, schema, with_others=isinstance(values, MessageRows))
        else:
            arrays = [_array(get, column, values) for get, column in zip(self.columns.getters, schema, strict=True)]
        for array, column in zip(arrays, schema, strict=True):
            if array.null_count and not column.nullable:
                raise ValueError(f"field {column.name} is None, and the schema permits no None there")
        rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
        check_partitions(rows, self.partition_by)
        return rows


def lake_columns(where: str, path: Any, format: Any, schema: Any) -> tuple[str, Columns]:
    """Returns the place of a table, and its columns.

    Raises:
        GraphError: A parameter is invalid; `where` names the step.
    """
    if format not in FORMATS:
        raise GraphError(f"{where}: format is one of {', '.join(map(repr, FORMATS))}, not {check.excerpt(format)}")
    columns = _columns(where, schema)
    _check_names(where, columns.schema.names)
    for column in columns.schema:
        if (kind := lacking(column.type, format)) is not None:
            raise GraphError(
                f"{where}: schema: field {column.name}: tables of format={format!r} do not have the type {kind}; map the values "
                "to another type"
            )
    place = located(where, path)
    {"parquet": check_for_parquet, "delta": check_for_delta, "iceberg": check_for_iceberg}[format](where, place)
    return place, columns


def _columns(where: str, schema: Any) -> Columns:
    import pyarrow as pa

    try:
        if isinstance(schema, pa.Schema):
            return Columns(_nullable_inside(schema), [_getter(name) for name in schema.names])
        found = columns_of(schema)
    except GraphError as error:
        raise GraphError(f"{where}: schema: {error}") from error
    return replace(found, schema=_nullable_inside(found.schema))


def _check_names(where: str, names: Sequence[str]) -> None:
    """Checks the names of columns: readers such as Spark do not distinguish case."""
    if not names:
        raise GraphError(f"{where}: schema: a table needs at least one column")
    known = {BATCH_COLUMN: BATCH_COLUMN}
    for name in names:
        if not name or not name.isprintable():
            raise GraphError(f"{where}: schema: {check.excerpt(name)} is no name of a column")
        if name.lower() in known:
            raise GraphError(
                f"{where}: schema: readers cannot distinguish the column {name} from {known[name.lower()]}; rename it"
                + (", since each micro-batch has a folder of that name" if name.lower() == BATCH_COLUMN else "")
            )
        known[name.lower()] = name


def _getter(name: str) -> Callable[[Any], Any]:
    return lambda value: value[name] if isinstance(value, dict) else getattr(value, name)


def _array(get: Callable[[Any], Any], field: "pa.Field[Any]", values: Sequence[Any]) -> "pa.Array":
    try:
        return array_of(list(map(get, values)), field.type)
    except KeyError:
        raise ValueError(f"field {field.name} is missing") from None
    except Exception as error:
        raise ValueError(f"field {field.name}: {error}") from error


def _of_batch(batch: "pa.RecordBatch", schema: "pa.Schema", *, with_others: bool) -> "list[pa.Array]":
    """The columns of a record batch that a table has.

    Args:
        batch: The record batch.
        schema: The columns of the table.
        with_others: Whether the record batch may have others.
    """
    import pyarrow as pa

    others = [name for name in batch.schema.names if name not in schema.names]
    if others and not with_others:
        raise ValueError(f"field {others[0]} is not in the schema of the lake: add it there, or drop the column before")
    arrays = []
    for column in schema:
        index = batch.schema.get_field_index(column.name)
        if index < 0 and not column.nullable:
            raise ValueError(f"field {column.name} is missing")
        try:
            arrays.append(pa.nulls(batch.num_rows, column.type) if index < 0 else batch.column(index).cast(column.type))
        except Exception as error:
            raise ValueError(f"field {column.name}: {error}") from error
    return arrays


def _nullable_inside(schema: "pa.Schema") -> "pa.Schema":
    """The schema with nested fields that may be null: a null inside a value would fail the file, and not the value."""
    import pyarrow as pa

    return pa.schema([pa.field(field.name, _relaxed(field.type), field.nullable) for field in schema])


def _relaxed(kind: "pa.DataType") -> "pa.DataType":
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return pa.struct([pa.field(kind.field(i).name, _relaxed(kind.field(i).type)) for i in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return pa.list_(_relaxed(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _relaxed(kind.item_type))
    return kind
