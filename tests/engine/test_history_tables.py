"""Histories in tables, with the columns that divide them, as of the version that they have at the start; and on S3."""

import gzip
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import fs
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import StringType
from pyiceberg.utils.config import Config
from scripts.brokers import S3
from tests.engine.lakes import QUERY, lake_at
from tests.engine.test_history_files import rows
from tests.engine.test_lakes_on_s3 import s3_environ

from headrace.engine import HeadraceError, History
from headrace.engine.checkpoint.lake_batches import joined
from headrace.engine.history.index import Index
from headrace.engine.history.order import build
from headrace.engine.lakes.parquet_table import ParquetTable
from headrace.engine.lakes.task_files import TaskFiles
from headrace.engine.sink.writer import Task

SCHEMA = pa.schema([("n", pa.int64()), ("shop", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])
COLUMNS = {"key": "shop", "value": "n", "event_time": "at"}
ODD = ["a b/c%", "ü=1", None, "01"]


def orders(*numbers: int) -> pa.Table:
    return pa.table([list(numbers), [ODD[n % 4] for n in numbers], [10 * n for n in numbers]], schema=SCHEMA)


def planned(path: str, columns: dict[str, str] = COLUMNS) -> Index:
    """The history as a start finds it, and as a later one reads it in the checkpoint."""
    return Index.from_json(json.loads(build(History([path], columns), ["orders/*"]).dumps()))


def expected(*numbers: int) -> list[tuple[bytes | None, bytes]]:
    shops = (ODD[n % 4] for n in numbers)
    return [(None if shop is None else shop.encode(), b"%d" % n) for shop, n in zip(shops, numbers, strict=True)]


def catalog_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    uri = f"sqlite:///{folder}/catalog"
    for name, value in {"TYPE": "sql", "URI": uri}.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{name}", value)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # It has read the environment when it was imported.
    catalog = SqlCatalog("prod", uri=uri, warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("sales")
    return catalog


def test_a_delta_table_is_read_as_it_was_at_the_start_with_the_columns_that_divide_it(tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    write_deltalake(path, orders(2, 0, 3, 1), partition_by=["shop"])
    index = planned(path)
    write_deltalake(path, orders(4, 5), mode="append")
    DeltaTable(path).optimize.compact()
    assert rows(index) == expected(0, 1, 2, 3)
    assert rows(planned(path)) == expected(0, 1, 2, 3, 4, 5)
    DeltaTable(path).vacuum(0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(HeadraceError, match="put the file back, which the checkpoint has listed"):
        rows(index)


def test_whole_rows_of_divided_tables_have_the_types_of_their_columns(tmp_path: Path) -> None:
    table = pa.table(
        {"n": [1], "day": [date(2026, 1, 2)], "shop": [7], "open": [True], "at": pa.array([5], SCHEMA.field("at").type)}
    )
    write_deltalake(str(tmp_path), table, partition_by=["day", "shop", "open"])
    ((_, value),) = rows(planned(str(tmp_path), {"value": "*", "event_time": "at"}))
    found = json.loads(str(value, "utf-8") if isinstance(value, bytes) else "")
    assert {name: found[name] for name in ("n", "day", "shop", "open")} == {"n": 1, "day": "2026-01-02", "shop": 7, "open": True}


@pytest.mark.parametrize("by_name", [True, False], ids=["by the catalog", "by a file of metadata"])
def test_an_iceberg_table_is_read_as_it_was_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, by_name: bool
) -> None:
    table = catalog_at(tmp_path, monkeypatch).create_table("sales.orders", SCHEMA)
    with table.update_spec() as spec:
        spec.add_identity("shop")
    table.append(orders(2, 0, 3, 1))
    index = planned("iceberg:prod.sales.orders" if by_name else table.metadata_location.removeprefix("file://"))
    table.append(orders(4))
    table.delete("n = 2")
    assert rows(index) == expected(0, 1, 2, 3)
    assert rows(planned("iceberg:prod.sales.orders")) == expected(0, 1, 3, 4)


def test_an_iceberg_table_whose_files_cannot_be_read_by_names_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = catalog_at(tmp_path, monkeypatch).create_table("sales.orders", SCHEMA)
    table.append(orders(1))
    folder = table.location().removeprefix("file://")
    with pytest.raises(HeadraceError, match=r"name it as iceberg:CATALOG\.NAMESPACE\.TABLE"):
        planned(folder)
    with table.update_schema() as update:
        update.rename_column("shop", "store")
    with table.update_schema() as update:
        update.add_column("shop", StringType())
    with pytest.raises(HeadraceError, match=r"its column .* was renamed or replaced"):
        planned("iceberg:prod.sales.orders")
    for name in "iceberg:prod.sales.none", "iceberg:none.sales.orders":
        with pytest.raises(HeadraceError, match=f"history {name}: "):
            planned(name)


def test_a_divided_lake_of_parquet_is_read_with_its_columns_and_without_what_is_staged(tmp_path: Path) -> None:
    lake = lake_at(tmp_path / "t", partition_by=["shop"])
    with TaskFiles([lake], Task(QUERY, "run", 0, 0, 1), sync=False) as files:
        files.write(lake.path, pa.RecordBatch.from_pydict({"n": [0, 1, 2, 3], "shop": ODD}, schema=lake.columns.schema))
        (written,) = joined(files.finish())
    ParquetTable(lake.path).show(written)
    with TaskFiles([lake], Task(QUERY, "run", 1, 0, 1), sync=False) as files:
        files.write(lake.path, pa.RecordBatch.from_pydict({"n": [9], "shop": ["staged"]}, schema=lake.columns.schema))
        files.finish()
    found = rows(planned(lake.path, {"value": "*", "event_time": "n", "key": "shop"}))
    assert found == [
        (
            None if shop is None else shop.encode(),
            json.dumps({"n": n, "shop": shop}, separators=(",", ":"), ensure_ascii=False).encode(),
        )
        for n, shop in enumerate(ODD)
    ]


def parquet_at(store: fs.FileSystem, place: str) -> None:
    pq.write_table(orders(1, 0), f"{place}/0.parquet", filesystem=store)
    pq.write_table(orders(3, 2), f"{place}/deep/1.parquet", filesystem=store)


def lines_at(store: fs.FileSystem, place: str) -> None:
    for name, numbers in {"a.jsonl": (1, 0), "b.jsonl.gz": (3, 2)}.items():
        lines = "".join(json.dumps({"n": n, "shop": ODD[n], "at": 10 * n}) + "\n" for n in numbers).encode()
        with store.open_output_stream(f"{place}/{name}", compression=None) as file:
            file.write(gzip.compress(lines) if name.endswith(".gz") else lines)


def delta_at(store: fs.FileSystem, place: str) -> None:
    write_deltalake(f"s3://{place}", orders(3, 1, 2, 0), partition_by=["shop"])


@pytest.mark.parametrize("write", [parquet_at, lines_at, delta_at])
def test_histories_on_s3_are_read_with_the_credentials_of_the_environment(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Any, str], None]
) -> None:
    for name, value in s3_environ(s3).items():
        monkeypatch.setenv(name, value)
    store, place = (
        fs.S3FileSystem(endpoint_override=s3.url, region="us-east-1", request_timeout=60),
        f"{s3.bucket}/{tmp_path.name}",
    )
    write(store, place)
    index = planned(f"s3://{place}")
    assert rows(index) == expected(0, 1, 2, 3)
    with pytest.raises(HeadraceError, match="there are no files of Parquet or JSON lines"):
        planned(f"s3://{place}-none")
