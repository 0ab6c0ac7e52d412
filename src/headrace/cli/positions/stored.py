"""The checkpoint that a command names, by its folder or by the application that writes it."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.cli.application import load
from headrace.cli.spark_options import SparkOptions, require_java
from headrace.terminal import EXIT_INVALID, Failure

if TYPE_CHECKING:
    from headrace.engine import StoredPositions


@contextlib.contextmanager
def stored_positions(target: str, checkpoint: str | None, on: SparkOptions) -> "Iterator[tuple[StoredPositions, str]]":
    """The positions of a query, and its checkpoint.

    Raises:
        Failure: There is no such application or checkpoint, or it cannot be read.
    """
    if is_application(target):
        folder = checkpoint or str(Path("checkpoints", load(target).pipeline.name).absolute())
    elif checkpoint is not None:
        raise Failure("--checkpoint is for an application: name either it or the checkpoint", EXIT_INVALID)
    else:
        folder = target
    require_java()
    with _spark(on) as spark:
        from headrace.engine import CheckpointError, StoredPositions

        try:
            yield StoredPositions(spark, folder), folder
        except CheckpointError as error:
            raise Failure(str(error)) from None


@contextlib.contextmanager
def _spark(on: SparkOptions) -> Iterator[Any]:
    from headrace.engine import build_session

    spark = build_session("headrace positions", on.master, on.conf, quick_start=True, quiet=True)
    try:
        yield spark
    finally:
        spark.stop()


def is_application(target: str) -> bool:
    """Whether a command names an application, rather than a checkpoint."""
    return target.partition(":")[0].endswith(".py")
