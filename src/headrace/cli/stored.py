"""The checkpoint that a command names, and the session of Spark that reads it."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.application import load
from headrace.cli.spark_options import SparkOptions, require_java
from headrace.terminal import EXIT_INVALID, Failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OTHER_SYSTEMS = ("HADOOP_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME")
"""Variables of the environment that name settings, perhaps also a default file system."""


target_argument = click.argument("target", metavar="CHECKPOINT|APP.PY[:NAME]")
checkpoint_option = click.option(
    "--checkpoint", metavar="DIR", help="With APP.PY: its checkpoint.  [default: checkpoints/<name>]"
)
both_shared_option = click.option(
    "--shared-checkpoint", is_flag=True, help="Both are on a file system that all cluster nodes mount."
)


def checkpoint_of(pipeline: str, checkpoint: str | None) -> str:
    """Returns the checkpoint of an application: the folder that its user names, or by default `checkpoints/<name>`."""
    return checkpoint or str(Path("checkpoints", pipeline).absolute())


def named_checkpoint(target: str, checkpoint: str | None) -> str:
    """Returns the checkpoint that a command names by its folder, or by the application that writes it.

    Raises:
        Failure: There is no such application, or the command names a checkpoint twice.
    """
    if is_application(target):
        return checkpoint_of(load(target).pipeline.name, checkpoint)
    if checkpoint is not None:
        raise Failure("--checkpoint is for an application: name either it or the checkpoint", EXIT_INVALID)
    return target


def is_application(target: str) -> bool:
    """Whether a command names an application, rather than a checkpoint."""
    return target.partition(":")[0].endswith(".py")


def is_local(place: str, on: SparkOptions) -> bool:
    """Whether a folder is on a disk of this machine for sure, so that no Spark is needed to read it."""
    if "://" in place.removeprefix("file://"):
        return False
    if place.startswith("file:"):
        return True
    # A path without a scheme is on the default file system, which settings may name.
    return not any(map(os.environ.get, _OTHER_SYSTEMS)) and "spark.hadoop.fs.defaultFS" not in on.conf


@contextlib.contextmanager
def spark_session(command: str, on: SparkOptions) -> "Iterator[SparkSession]":
    """A session of Spark for a command, until the block ends.

    Raises:
        Failure: This machine has no Java that Spark runs on.
    """
    require_java()
    from headrace.engine import build_session

    spark = build_session(f"headrace {command}", on.master, on.conf, quick_start=True, quiet=True)
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def spark_unless_local(command: str, on: SparkOptions, *places: str) -> "Iterator[SparkSession | None]":
    """A session of Spark, unless all places are on disks of this machine, which need none."""
    if all(is_local(place, on) for place in places):
        yield None
        return
    with spark_session(command, on) as spark:
        yield spark
