"""The Spark data source `headrace`.

Spark starts separate processes to load a stream, to plan it, to read, to write and to commit. A query starts once each has
imported what it needs, so modules that only some of them need are imported where they are used.
"""

from collections.abc import Mapping, MutableMapping
from functools import cached_property
from types import MappingProxyType
from typing import Protocol

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, DataSourceStreamWriter
from pyspark.sql.types import StructType

from headrace.contract.errors import HeadraceError
from headrace.engine.sink.options import parse_sink
from headrace.engine.source.options import Options, parse
from headrace.engine.source.schema import SCHEMA
from headrace.engine.wire.gateway_options import Defaults

FORMAT = "headrace"


class Application(Protocol):
    """An application in this data source: it converts messages to rows."""

    @property
    def rows(self) -> StructType:
        """The schema of its reader."""

    def reader(self, options: Options) -> DataSourceStreamReader:
        """A reader that runs the application's first steps."""


class HeadraceSource(DataSource):
    """Streams of a Headrace gateway, or one of its sinks. Spark creates one in each process that needs it."""

    defaults = Defaults()
    applications: Mapping[str, Application] = MappingProxyType({})
    """The applications of the session by name."""
    registered = False
    """True for the class that `register` creates: only then are queries monitored, and commits reported to sinks."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        # Whether they are a reader's or a writer's options is known later.
        self._settings = dict(options)

    @classmethod
    def name(cls) -> str:
        """The name for `format(...)`."""
        return FORMAT

    @cached_property
    def _options(self) -> Options:
        return parse(self._settings, self.defaults)

    def schema(self) -> StructType | str:
        """The same columns for every stream. Spark calls this when a stream is loaded, so invalid options fail early."""
        options = parse(self._settings, self.defaults)
        if options.application is not None:
            return self._application(options.application).rows
        if options.decode is not None:
            from headrace.engine.source.decoding import typed_schema

            return typed_schema(options)
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of one run."""
        options = self._options
        if options.application is not None:
            return self._application(options.application).reader(options)
        from headrace.engine.source.reader import Reader

        if options.decode is not None:
            from headrace.engine.source.decoding import TypedRows

            return Reader(options, TypedRows(options, schema))
        return Reader(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The writer of one batch, which appends, even in complete mode. Spark itself rejects update mode."""
        options = parse_sink(self._settings, self.defaults)
        if not self.registered:
            raise HeadraceError(
                "this session was not registered by headrace.engine.register or build_session: commits would not be reported to "
                "the sink, which would make nothing visible; register the session"
            )
        from headrace.engine.codec import check_schema
        from headrace.engine.sink.writer import Writer

        # Where rows that could not be decoded have no place, their columns are refused like any other.
        check_schema(schema, with_errors=options.dead_letters is not None or options.skip_refused)
        return Writer(options)

    def _application(self, name: str) -> Application:
        found = self.applications.get(name)
        if found is None:
            raise HeadraceError(f"this session has no application {name!r}; start it with headrace.engine.start")
        return found
