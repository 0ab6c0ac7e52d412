"""`python -m headrace.doctor.session`: starts Spark, runs a Python function on it, and prints its version as JSON."""

import json

from headrace.engine import build_session
from headrace.engine.spark.class_archive import class_archive


def main() -> None:
    """Runs one small job."""
    spark = build_session("headrace doctor", "local[1]", quick_start=True)
    try:
        total = spark.sparkContext.parallelize(range(10), 1).map(lambda number: number + 1).sum()
        assert total == 55
        print(json.dumps({"version": spark.version, "archive": class_archive().exists()}))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
