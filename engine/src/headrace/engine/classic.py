"""Checks that a Spark session is one that Headrace supports."""

from pyspark.sql import SparkSession

from headrace.contract.errors import HeadraceError


def refuse_connect(spark: SparkSession) -> None:
    """Rejects a Spark Connect session, whose driver is another process.

    Raises:
        HeadraceError: The session is a Spark Connect session.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        raise HeadraceError(
            "Spark Connect is not supported, because Headrace monitors queries from within the driver process: create the "
            "session in this process, with headrace.engine.build_session(...) or with SparkSession.builder without remote(...) "
            "and SPARK_REMOTE"
        )
