"""The files of tables with a log, as of the version that they have when a history is planned."""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from headrace.engine._errors import HistoryError
from headrace.engine.history.files import LAKE_INSTALL, PARQUET, File, Values, store_of
from headrace.engine.iceberg_catalogs import open_catalog
from headrace.engine.s3_environment import of_pyiceberg

if TYPE_CHECKING:
    from pyiceberg.table import DataScan, Table

ICEBERG = "iceberg:"
METADATA = ".metadata.json"
_EPOCH = date(1970, 1, 1)


def of_delta(path: str) -> Iterator[File]:
    """The files of the present version of a Delta table.

    Raises:
        HistoryError: The library for such tables is missing, or the table cannot be read.
    """
    try:
        import pyarrow.dataset as ds
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError:
        raise HistoryError(f"history {path}: it is a Delta table: {LAKE_INSTALL}") from None
    try:
        table = DeltaTable(path)
        features = set(table.protocol().reader_features or ())
        if "deletionVectors" in features:
            raise HistoryError(f"history {path}: its deletion vectors cannot be read; write the table anew without them")
        if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
            raise HistoryError(
                f"history {path}: its files have other names for its columns; write the table anew without mapping"
            )
        found = [
            (each.path, ds.get_partition_keys(each.partition_expression)) for each in table.to_pyarrow_dataset().get_fragments()
        ]
        by = table.metadata().partition_columns
    except DeltaError as error:
        raise HistoryError(f"history {path}: {error}") from None
    base = path.rstrip("/")
    yield from _sized((f"{base}/{name}", tuple((column, _plain(keys[column])) for column in by)) for name, keys in found)


def of_iceberg(path: str) -> Iterator[File]:
    """The files of the present snapshot of an Iceberg table: `iceberg:` and its name in a catalog, or a file of its metadata.

    Raises:
        HistoryError: The library for such tables is missing, or the table cannot be read.
    """
    try:
        from pyiceberg.table import StaticTable
    except ImportError:
        raise HistoryError(f"history {path}: it is an Iceberg table: install headrace-engine[iceberg]") from None
    try:
        if path.startswith(ICEBERG):
            catalog, _, name = path.removeprefix(ICEBERG).partition(".")
            table: Table = open_catalog(catalog, {}).load_table(name)
        else:
            table = StaticTable.from_metadata(path, of_pyiceberg())
        _check_names(path, table)
        files = list(_planned(path, table, table.scan()))
    except HistoryError:
        raise
    except Exception as error:  # A catalog raises what its server, its database or its client does.
        raise HistoryError(f"history {path}: {type(error).__name__}: {error}") from None
    yield from files


def _planned(path: str, table: "Table", scan: "DataScan") -> Iterator[File]:
    schema, specs = table.schema(), table.specs()
    for task in scan.plan_files():
        if task.delete_files:
            raise HistoryError(f"history {path}: it has files of deleted rows, which cannot be read; rewrite its data files")
        if task.file.file_format != "PARQUET":
            raise HistoryError(f"history {path}: {task.file.file_path} is no file of Parquet; rewrite its data files")
        values = []
        for number, field in enumerate(specs[task.file.spec_id].fields):
            if str(field.transform) == "identity" and (name := schema.find_column_name(field.source_id)):
                values.append((name, _plain(_of_type(str(schema.find_type(field.source_id)), task.file.partition[number]))))
        yield File(task.file.file_path.removeprefix("file://"), PARQUET, task.file.file_size_in_bytes, tuple(values))


def _check_names(path: str, table: "Table") -> None:
    """Checks that each column had one name in all files: they are read by their names.

    Raises:
        HistoryError: One was renamed, or another one has its name now.
    """
    names: dict[int, str] = {}
    numbers: dict[str, int] = {}
    for schema in table.metadata.schemas:
        for field in schema.fields:
            here = names.setdefault(field.field_id, field.name), numbers.setdefault(field.name, field.field_id)
            if here != (field.name, field.field_id):
                raise HistoryError(
                    f"history {path}: its column {field.name} was renamed or replaced, so that older files mean another column; "
                    "copy the table to a new one"
                )


def _of_type(kind: str, value: Any) -> Any:
    """The value of a partition of Iceberg, whose dates are days and whose timestamps are microseconds."""
    if isinstance(value, int) and kind == "date":
        return _EPOCH + timedelta(days=value)
    if isinstance(value, int) and kind.startswith("timestamp") and not kind.endswith("_ns"):
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
    return value


def _plain(value: Any) -> str | int | bool | None:
    """The value of a partition as a value of JSON."""
    if value is None or isinstance(value, (str, int, bool)):
        return value
    return value.isoformat() if isinstance(value, date) else str(value)


def _sized(files: Iterable[tuple[str, Values]]) -> Iterator[File]:
    for path, values in files:
        store, inner = store_of(path)
        (found,) = store.get_file_info([inner])
        yield File(path, PARQUET, found.size, values)
