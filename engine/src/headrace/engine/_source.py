"""The data source that Spark knows as `headrace`."""

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from headrace.engine._options import Defaults, parse
from headrace.engine._reader import Reader
from headrace.engine._schema import SCHEMA

FORMAT = "headrace"


class HeadraceSource(DataSource):
    """Streams of a Headrace gateway. Spark makes it anew in each process that needs it."""

    defaults = Defaults()

    def __init__(self, options: MutableMapping[str, str]) -> None:
        # Not kept as Spark gave them: whatever prints this object must not find a token in it.
        self._options = parse(options, self.defaults)

    @classmethod
    def name(cls) -> str:
        """What users write in `format(...)`."""
        return FORMAT

    def schema(self) -> StructType:
        """The same columns for every stream."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of one run."""
        return Reader(self._options)
