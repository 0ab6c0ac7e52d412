from collections.abc import Iterator

import hypothesis
import pytest
from pyspark.sql import SparkSession

# The machine is shared: how long one example takes says nothing.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of this process, as `build_session` makes it."""
    from headrace.engine import build_session

    session = build_session("tests", master="local[2]", conf={"spark.sql.shuffle.partitions": 2})
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
