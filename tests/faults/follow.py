"""A stateful query over lines, each of which begins with its key: a count and a checksum for each key."""

from collections.abc import Iterable, Iterator

import pandas as pd
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from headrace.laboratory.chaos.workload import State


def follow(frame: DataFrame) -> DataFrame:
    """For each row `stream sequence batch count checksum value`, count and checksum being its key's after it."""
    key = F.split_part(F.col("value").cast("string"), F.lit(" "), F.lit(1))
    rows = frame.select("stream", "sequence", "value", key.alias("of"))
    return rows.groupBy("of").applyInPandasWithState(
        _after_each, "key binary, value binary", "count long, checksum long", "append", GroupStateTimeout.NoTimeout
    )


def _after_each(key: tuple[str], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    count, checksum = state.get if state.exists else (0, 0)
    now, batch, rows = State(count, checksum), _batch(), []
    messages = pd.concat(list(frames)).sort_values("sequence")
    for stream, sequence, value in zip(messages["stream"], messages["sequence"], messages["value"], strict=True):
        now = now.after(bytes(value))
        rows.append(f"{stream} {sequence} {batch} {now.count} {now.checksum} ".encode() + bytes(value))
    state.update((now.count, now.checksum))
    yield pd.DataFrame({"key": [key[0].encode()] * len(rows), "value": rows})


def _batch() -> int:
    """The micro-batch that this task belongs to."""
    context = TaskContext.get()
    assert context is not None
    return int(context.getLocalProperty("streaming.sql.batchId") or -1)
