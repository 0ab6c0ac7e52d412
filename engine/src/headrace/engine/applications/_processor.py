"""Runs a keyed stage in Spark: a stateful processor whose groups are buckets."""

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessor, StatefulProcessorHandle

from headrace.engine.applications._durable import begin
from headrace.engine.applications._keyed_stage import keyed_stage_rows
from headrace.engine.applications._plan import BlockRow, Plan


class BucketProcessor(StatefulProcessor):
    """Runs one level of a plan. Spark creates one in each task."""

    def __init__(self, plan: Plan, level: int) -> None:
        self._plan = plan
        self._level = level

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark calls this first in each task."""
        self._store = _SparkStore(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """Spark calls this once for each bucket that has rows in the micro-batch."""
        arriving = (BlockRow(r[0], r[1], r[2], r[3], r[5], bytes(r[6]), r[4], r[7]) for r in rows)
        for row in keyed_stage_rows(self._plan, self._level, key[0], arriving, self._store):
            yield Row(
                bucket=row.bucket,
                target=row.target,
                stream=row.stream,
                sequence=row.sequence,
                peak=row.peak,
                messages=row.messages,
                block=row.block,
                branch=row.branch,
            )

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """Spark calls this for each initial state, in the first micro-batch of a rescaled checkpoint."""
        begin(self._store, bytes(initialState["change"]), pickle.loads(bytes(initialState["beside"])))

    def close(self) -> None:
        """Does nothing; Spark requires the method."""


class _SparkStore:
    """The state variables of a bucket. Spark sets the bucket before it calls the processor."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._head = handle.getValueState("head", "head binary")
        self.changes = _SparkPieces(handle.getMapState("changes", "number bigint", "change binary"))
        self.segments = _SparkPieces(handle.getMapState("snapshot", "segment int", "states binary"))

    def read_head(self) -> bytes | None:
        found = self._head.get()
        return None if found is None else bytes(found[0])

    def write_head(self, head: bytes) -> None:
        self._head.update((head,))


class _SparkPieces:
    """One state variable of a bucket."""

    def __init__(self, variable: MapState) -> None:
        self._variable = variable

    def read(self, number: int) -> bytes:
        found = self._variable.getValue((number,))
        assert found is not None, f"the head names piece {number}"
        return bytes(found[0])

    def write(self, number: int, piece: bytes) -> None:
        self._variable.updateValue((number,), (piece,))

    def drop(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._variable.removeKey((number,))
