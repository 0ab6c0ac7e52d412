"""Starts Spark's Python workers while a query is planned. Its first micro-batch would wait for them, and for their imports."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

# Imports of an application's first tasks.
from headrace.engine.applications.stages import keyed_task  # noqa: F401
from headrace.engine.source import reader  # noqa: F401

log = logging.getLogger("headrace.engine")


def start_workers(spark: SparkSession) -> None:
    """Starts a Python worker for each core of the session. Does not wait for them.

    An application's tasks use these: Spark starts others for other environment variables and other settings.
    """
    context = spark.sparkContext
    cores = context.defaultParallelism
    try:
        context.parallelize([], cores).mapPartitions(_nothing)._jrdd.countAsync()
    except Exception:
        log.info("cannot start Python workers before the first micro-batch, which starts them then", exc_info=True)


def _nothing(elements: Iterable[Any]) -> Iterator[Any]:
    """A worker that runs this has imported this module, and what it imports."""
    # Arrow imports pandas, if there is one, with the first values from Python.
    pa.array([None])
    # Spark ends a worker that has not read all.
    yield from elements
