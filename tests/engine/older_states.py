"""States as versions before 0.2 stored them: in Spark's state store, by a stateful operator of Spark for each keyed stage."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessor, StatefulProcessorHandle

from headrace.engine.applications import _start
from headrace.engine.applications._keyed_stage import keyed_stage_rows
from headrace.engine.applications._plan import ROWS, BlockRow, Plan
from headrace.engine.sink._options import SinkOptions


class BucketProcessor(StatefulProcessor):
    """Runs one level of a plan. Spark creates one in each task."""

    def __init__(self, plan: Plan, level: int) -> None:
        self._plan = plan
        self._level = level

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._store = _Store(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        arriving = (BlockRow(r[0], r[1], r[2], r[3], r[5], bytes(r[6]), r[4], r[7]) for r in rows)
        for row in keyed_stage_rows(self._plan, self._level, key[0], arriving, self._store):
            yield Row(**{name: getattr(row, name) for name in ROWS.names})

    def close(self) -> None:
        pass


class _Store:
    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._head = handle.getValueState("head", "head binary")
        self.changes = _Pieces(handle.getMapState("changes", "number bigint", "change binary"))
        self.segments = _Pieces(handle.getMapState("snapshot", "segment int", "states binary"))

    def read_head(self) -> bytes | None:
        found = self._head.get()
        return None if found is None else bytes(found[0])

    def write_head(self, head: bytes) -> None:
        self._head.update((head,))


class _Pieces:
    def __init__(self, variable: MapState) -> None:
        self._variable = variable

    def read(self, number: int) -> bytes:
        found = self._variable.getValue((number,))
        assert found is not None
        return bytes(found[0])

    def write(self, number: int, piece: bytes) -> None:
        self._variable.updateValue((number,), (piece,))

    def drop(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._variable.removeKey((number,))


def add_older_stages(plan: Plan, rows: DataFrame, root: str, options: SinkOptions | None) -> DataFrame:
    """Takes the place of `add_keyed_stages`: the last stage only delivers the results."""
    for level in range(1, plan.graph.shuffles + 1):
        rows = rows.groupBy("bucket").transformWithState(BucketProcessor(plan, level), ROWS, "append", "none")
    return rows.mapInArrow(_start._function(_start.KeyedTask(plan, 0, root, True, options)), ROWS)


def forget_files(checkpoint: Path) -> None:
    """Deletes what those versions did not have."""
    shutil.rmtree(checkpoint / "headrace" / "states")
