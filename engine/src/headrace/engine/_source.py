"""The data source that Spark knows as `headrace`.

Spark starts a process to load a stream, one to plan it, others to read, to write and to commit. A query begins once each has
imported what it needs, so that what only some need is imported where they use it.
"""

from collections.abc import Mapping, MutableMapping
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, DataSourceStreamWriter
from pyspark.sql.types import StructType

from headrace.engine._errors import HeadraceError
from headrace.engine._gateway_options import Defaults
from headrace.engine._options import Options, parse
from headrace.engine._schema import SCHEMA
from headrace.engine._sink_options import parse_sink

if TYPE_CHECKING:
    from headrace.engine.pipelines._plan import Plan

FORMAT = "headrace"


class HeadraceSource(DataSource):
    """Streams of a Headrace gateway, or one of its sinks. Spark makes it anew in each process that needs it."""

    defaults = Defaults()
    plans: "Mapping[str, Plan]" = MappingProxyType({})
    """The applications of the session by name."""
    registered = False
    """True for the class that `register` makes: only then is the query watched, and told to sinks what is committed."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        # Whether they are a reader's or a writer's, Spark says later.
        self._given = dict(options)

    @classmethod
    def name(cls) -> str:
        """What users write in `format(...)`."""
        return FORMAT

    @cached_property
    def _options(self) -> Options:
        return parse(self._given, self.defaults)

    def schema(self) -> StructType:
        """The same columns for every stream. Spark asks when a stream is loaded, so that wrong options fail there."""
        if parse(self._given, self.defaults).application is None:
            return SCHEMA
        from headrace.engine.pipelines._plan import ROWS

        return ROWS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of one run."""
        from headrace.engine._reader import Reader

        options = self._options
        if options.application is None:
            return Reader(options)
        from headrace.engine.pipelines._arrivals import arriving_rows, ending_rows

        plan = self._plan(options.application)
        return Reader(options, partial(arriving_rows, plan), partial(ending_rows, plan))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The writer of one batch, which appends: in complete mode, too. Spark refuses update mode by itself."""
        options = parse_sink(self._given, self.defaults)
        if not self.registered:
            raise HeadraceError(
                "this session was not registered by headrace.engine.register or build_session: nobody would tell the sink what "
                "is committed, and nothing would become visible; register it"
            )
        if options.application is not None:
            from headrace.engine.pipelines._results import BlockWriter

            return BlockWriter(options, self._plan(options.application))
        from headrace.engine._encode import check_schema
        from headrace.engine._writer import Writer

        check_schema(schema)
        return Writer(options)

    def _plan(self, application: str) -> "Plan":
        plan = self.plans.get(application)
        if plan is None:
            raise HeadraceError(f"this session has no application {application!r}; start it with headrace.engine.start")
        return plan
