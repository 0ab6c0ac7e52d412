"""The input of an application in Spark's data source: a reader that runs the steps before the first shuffle."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from headrace.engine.applications.stages.plan import ROWS, Plan

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader

    from headrace.engine.source.options import Options


@dataclass(frozen=True)
class Input:
    """An application in the data source. Spark starts a process for each method, so each imports only what it needs."""

    plan: Plan

    @property
    def rows(self) -> StructType:
        """The columns of the rows before the first shuffle."""
        return ROWS

    def reader(self, options: "Options") -> "DataSourceStreamReader":
        """A reader that runs the steps before the first shuffle."""
        from headrace.engine.applications.stages.source_stage import source_stage_rows, stream_end_rows
        from headrace.engine.source.reader import Reader

        if options.history is not None:
            import json

            from headrace.engine.applications.history.reader import HistoryReader
            from headrace.engine.history.index import Index

            return HistoryReader(options, self.plan, Index.from_json(json.loads(options.history)))
        kind = Reader
        if options.real_time is not None:
            from headrace.engine.applications.real_time.reader import RealTimeReader

            kind = RealTimeReader
        return kind(options, partial(source_stage_rows, self.plan), partial(stream_end_rows, self.plan))
