"""Sessions that Headrace can work with."""

from pyspark.sql import SparkSession

from headrace.engine._errors import HeadraceError


def refuse_connect(spark: SparkSession) -> None:
    """Refuses a session of Spark Connect, whose driver is another process.

    Raises:
        HeadraceError: it is one.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        raise HeadraceError(
            "Spark Connect is not supported, since Headrace watches queries in the driver's own process: make the session in "
            "this one, with headrace.engine.build_session(...) or SparkSession.builder without remote(...) and SPARK_REMOTE"
        )
