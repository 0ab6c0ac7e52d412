"""Files of the past, of each kind, and what is refused before an application starts."""

import gzip
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from headrace.engine import HeadraceError, History
from headrace.engine.codec import record_batch
from headrace.engine.history.index import Index
from headrace.engine.history.order import build

TIME = pa.timestamp("us", tz="UTC")


def table() -> pa.Table:
    return pa.table({"shop": ["a", "b"], "amount": [1, 2], "at": pa.array([5, 3], TIME)})


def rows(index: Index) -> list[tuple[object, object]]:
    return [
        (row["key"], row["value"]) for frame in index.run(0, index.slices).frames() for row in record_batch([frame]).to_pylist()
    ]


def test_lines_of_json_are_values_in_the_order_of_their_times(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"user":"u1","at":2000}\n\n{"user":7,"at":1000}\n{"user":null,"at":null}')
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as packed:
        packed.write('{"user":"u3","at":1500}\n')
    (tmp_path / "_SUCCESS").write_text("")
    found = rows(build(History([str(tmp_path)], {"key": "user", "event_time": "at:ms"}), ["orders/*"]))
    assert [key for key, _ in found] == [None, b"7", b"u3", b"u1"]
    assert found[1][1] == b'{"user":7,"at":1000}'


def test_rows_of_a_delta_table_are_values_as_json(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), table())
    columns = {"key": "shop", "value": "*", "event_time": "at"}
    assert rows(build(History([str(tmp_path)], columns), ["orders/*"])) == [
        (b"b", b'{"shop":"b","amount":2,"at":"1970-01-01T00:00:00.000003+00:00"}'),
        (b"a", b'{"shop":"a","amount":1,"at":"1970-01-01T00:00:00.000005+00:00"}'),
    ]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"value": "at", "event_time": "at"}, "keys and values are text or bytes"),
        ({"event_time": "at"}, "there is no column value; .* or value=\\*"),
        ({"value": "*", "event_time": "nope"}, "there is no column nope"),
        ({"value": "shop", "event_time": "shop"}, "event times are timestamps"),
        ({"price": "amount"}, "no field of a message"),
    ],
)
def test_columns_that_make_no_messages_are_refused_before_the_start(
    tmp_path: Path, columns: Mapping[str, str], reason: str
) -> None:
    pq.write_table(table(), tmp_path / "a.parquet")
    with pytest.raises(HeadraceError, match=reason):
        build(History([str(tmp_path)], columns), ["orders/*"])


def test_a_file_that_has_changed_since_the_start_is_refused(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "a.parquet")
    index = build(History([str(tmp_path)], {"value": "*", "event_time": "at"}), ["orders/*"])
    (tmp_path / "a.parquet").write_bytes(b"short")
    with pytest.raises(HeadraceError, match="now has 5; put it back"):
        rows(index)


def test_files_of_other_kinds_and_other_patterns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(HeadraceError, match=r"its name ends with none of \.parquet"):
        build(History([str(tmp_path)]), ["orders/*"])
    with pytest.raises(HeadraceError, match="name the streams of these messages"):
        build(History([str(tmp_path)]), ["orders/*", "rates/*"])
