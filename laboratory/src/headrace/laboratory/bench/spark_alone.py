"""A driver of Spark's own, to be killed: `python -m headrace.laboratory.bench.spark_alone FOLDER` runs an empty query.

It imports nothing of Headrace's, whose time would count.
"""

import sys

from pyspark.sql import SparkSession


def main() -> None:
    """Runs a query from Spark's rate source, one row per second, into its noop sink."""
    builder = SparkSession.builder.master("local[*]").config("spark.ui.showConsoleProgress", False)
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    writer = spark.readStream.format("rate").load().writeStream.format("noop")
    writer.option("checkpointLocation", f"{sys.argv[1]}/checkpoint").start().awaitTermination()


if __name__ == "__main__":
    main()
