"""`headrace checkpoint`: copies a checkpoint while its query runs, examines copies, and restores them."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from headrace.cli.spark_options import SparkOptions, spark_options
from headrace.cli.stored import checkpoint_option, named_checkpoint, spark_unless_local, target_argument
from headrace.terminal import Failure, ProgramGroup, bytes_text, counted, json_option, print_result, print_text

if TYPE_CHECKING:
    from headrace.engine import Verification

_SHOWN = 20
_JSON = json_option()


@click.group(cls=ProgramGroup)
def checkpoint() -> None:
    """Copy a checkpoint while its query runs, examine copies, and restore them.

    \b
    Examples:
      headrace checkpoint backup app.py --into /backup/orders-monday
      headrace checkpoint verify /backup/orders-monday
      headrace checkpoint restore /backup/orders-monday --into checkpoints/orders
    """


@checkpoint.command()
@target_argument
@checkpoint_option
@click.option("--into", metavar="DIR", required=True, help="The folder of the backup; it must not exist.")
@_JSON
@spark_options
def backup(target: str, checkpoint: str | None, into: str, as_json: bool, on: SparkOptions) -> None:
    """Copy a checkpoint with its states, as of its last committed micro-batch, even while its query runs.

    What belongs to an unfinished micro-batch stays out. On disks of this machine, this needs no Java; for any other file system
    that Spark supports, it starts Spark, with --conf as for headrace run.

    \b
    Examples:
      headrace checkpoint backup app.py --into /backup/orders-monday
      headrace checkpoint backup hdfs://files:8020/checkpoints/orders --into hdfs://files:8020/backup/orders-monday --json

    Exit codes: 0 copied and whole, 1 the checkpoint is damaged or a file cannot be read or written, 2 usage error.
    """
    from headrace.engine import back_up_checkpoint

    place = named_checkpoint(target, checkpoint)
    with _reported(), spark_unless_local("checkpoint", on, place, into) as spark:
        made = back_up_checkpoint(place, into, spark)
    size = f"{counted(len(made.files), 'file')}, {bytes_text(made.bytes)}"
    summary = f"micro-batch {made.batch} of {made.checkpoint} is copied to {into} ({size})"
    result = {"backup": into, "checkpoint": made.checkpoint, "query": made.query, "batch": made.batch}
    if as_json:
        print_result(summary, {**result, "files": len(made.files), "bytes": made.bytes})
    else:
        print_text(summary)


@checkpoint.command()
@click.argument("folder", metavar="DIR")
@_JSON
@spark_options
@click.pass_context
def verify(ctx: click.Context, /, folder: str, as_json: bool, on: SparkOptions) -> None:
    """Examine a backup, or a checkpoint, even while its query runs, and name what is torn or damaged.

    It compares each byte of a backup with the bytes that were copied. Of a checkpoint, it reads the files that the last committed
    micro-batch needs: logs, runs, and the description of each bucket of states.

    \b
    Examples:
      headrace checkpoint verify /backup/orders-monday
      headrace checkpoint verify checkpoints/orders --json | jq '.result.wrong'

    Exit codes: 0 whole, 1 torn or damaged, 2 usage error.
    """
    from headrace.engine import verify_checkpoint

    with _reported(), spark_unless_local("checkpoint", on, folder) as spark:
        found = verify_checkpoint(folder, spark)
    summary = _summary(folder, found)
    if as_json:
        result = {"batch": found.batch, "files": found.files, "wrong": list(found.wrong), "backup": found.backup is not None}
        print_result(summary, result, error=summary if found.wrong else None)
    else:
        print_text(summary)
        for sentence in found.wrong[:_SHOWN]:
            print_text(f"  {sentence}")
        if len(found.wrong) > _SHOWN:
            print_text(f"  and {len(found.wrong) - _SHOWN:,} more")
    ctx.exit(1 if found.wrong else 0)


@checkpoint.command()
@click.argument("folder", metavar="BACKUP")
@click.option("--into", metavar="DIR", required=True, help="The folder of the checkpoint; it must not exist.")
@_JSON
@spark_options
def restore(folder: str, into: str, as_json: bool, on: SparkOptions) -> None:
    """Copy the checkpoint of a backup to a new folder, from which its query then continues.

    Each file is examined on the way; no query starts on a checkpoint that is not whole. Never run both the old checkpoint and the
    restored one. Tell the gateway to forget the pipeline first if it knows later micro-batches.

    \b
    Example:
      headrace checkpoint restore /backup/orders-monday --into checkpoints/orders
      headrace forget orders
      headrace run app.py --checkpoint checkpoints/orders

    Exit codes: 0 restored, 1 the backup is not whole or a file cannot be read or written, 2 usage error.
    """
    from headrace.engine import restore_checkpoint

    with _reported(), spark_unless_local("checkpoint", on, folder, into) as spark:
        made = restore_checkpoint(folder, into, spark)
    summary = f"{into} continues after micro-batch {made.batch} of {made.checkpoint}"
    if as_json:
        print_result(summary, {"checkpoint": into, "query": made.query, "batch": made.batch})
    else:
        print_text(summary)


def _summary(folder: str, verification: "Verification") -> str:
    what = "backup" if verification.backup is not None else "checkpoint"
    if verification.batch is None:
        return f"{folder} cannot be used"
    if verification.wrong:
        return f"the {what} {folder} is not whole: {len(verification.wrong):,} of its {counted(verification.files, 'file')} wrong"
    return f"the {what} {folder} is whole: micro-batch {verification.batch}, {counted(verification.files, 'file')}"


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    from headrace.engine import CheckpointError

    try:
        yield
    except Py4JJavaError as error:
        raise Failure(f"the file system failed: {error.java_exception.getMessage()}") from None
    except CheckpointError as error:
        raise Failure(str(error)) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise Failure(f"{where}{error.strerror or error}") from None
