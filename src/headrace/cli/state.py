"""`headrace state`: inspects the states of an application that is not running."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.application import load
from headrace.cli.spark_options import SparkOptions, require_java, spark_options
from headrace.terminal import EXIT_INVALID, Failure, ProgramGroup, console, json_option, print_json, print_line, print_result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.engine import StoredStates

_APP = click.argument("app", metavar="APP.PY[:NAME]")
_CHECKPOINT = click.option("--checkpoint", metavar="DIR", help="The application's checkpoint.  [default: checkpoints/<name>]")
_STEP = click.option("--step", metavar="NAME", help="The step to read; optional if only one keeps states.")


@click.group(cls=ProgramGroup)
def state() -> None:
    """Inspect the states of an application, as of the last micro-batch in its checkpoint. The application must not be running.

    \b
    Examples:
      headrace state show app.py
      headrace state get app.py GOOG --step market
      headrace state export app.py > states.jsonl
    """


@state.command()
@_APP
@_CHECKPOINT
@json_option()
@spark_options
def show(app: str, checkpoint: str | None, as_json: bool, on: SparkOptions) -> None:
    """Show which steps keep states, and for how many keys.

    \b
    Example:
      headrace state show app.py --checkpoint /data/checkpoints/orders
    """
    from headrace.terminal.tables import plain_table

    with _stored(app, checkpoint, on) as (stored, _):
        sizes = stored.sizes()
        batch = stored.committed.batch
    if as_json:
        print_result(f"states after micro-batch {batch}", {"batch": batch, "steps": [dataclasses.asdict(size) for size in sizes]})
        return
    print_line(f"After micro-batch {batch}:")
    table = plain_table("step", "#keys")
    for size in sizes:
        table.add_row(size.step, f"{size.keys:,}")
    console().print(table)


@state.command()
@_APP
@click.argument("key")
@_STEP
@_CHECKPOINT
@json_option()
@spark_options
def get(app: str, key: str, step: str | None, checkpoint: str | None, as_json: bool, on: SparkOptions) -> None:
    """Print the state of a key, as a JSON object, or with --json as its result.

    KEY is text; it matches keys that are text, bytes or integers.

    \b
    Example:
      headrace state get app.py GOOG --step market
    """
    with _stored(app, checkpoint, on) as (stored, steps):
        chosen = _step(steps, step)
        for candidate in _keys(key):
            found = stored.find(chosen, candidate)
            if found is not None:
                document = {"step": chosen, "key": key, "state": plain(found)}
                if as_json:
                    print_result(f"state of key {key} in step {chosen}", document)
                else:
                    print_json(document)
                return
    raise Failure(f"step {chosen} keeps no state for key {key}")


@state.command()
@_APP
@_STEP
@_CHECKPOINT
@spark_options
def export(app: str, step: str | None, checkpoint: str | None, on: SparkOptions) -> None:
    """Print all states, one JSON object per line.

    \b
    Example:
      headrace state export app.py --step market > states.jsonl
    """
    with _stored(app, checkpoint, on) as (stored, steps):
        for chosen in [step] if step else steps:
            for key, found in stored.all(_step(steps, chosen)):
                print_line(json.dumps({"step": chosen, "key": plain(key), "state": plain(found)}))


@state.command()
@_APP
@_CHECKPOINT
@click.option("--into", metavar="DIR", required=True, help="The new checkpoint; it must not exist.")
@click.option("--shared-checkpoint", is_flag=True, help="Both are on a file system that all cluster nodes mount.")
@click.option("--parallelism", type=click.IntRange(1), metavar="N", required=True, help="Number of buckets of keys.")
@json_option()
@spark_options
def rescale(
    app: str, checkpoint: str | None, into: str, shared_checkpoint: bool, parallelism: int, as_json: bool, on: SparkOptions
) -> None:
    """Copy a checkpoint, with a different number of buckets.

    The old checkpoint stays unchanged. From then on, run the application only with the new one, never with both.

    \b
    Example:
      headrace state rescale app.py --into checkpoints/orders-8 --parallelism 8
    """
    from headrace.engine import CheckpointError
    from headrace.engine import rescale as take_over

    application = load(app)
    with _spark(on) as spark:
        try:
            old = _folder(application.pipeline.name, checkpoint)
            code = application.folder
            keys = take_over(
                application.pipeline, spark, old, into, parallelism, folder=code, shared_checkpoint=shared_checkpoint
            )
        except CheckpointError as error:
            raise Failure(str(error)) from None
    summary = f"{keys:,} states divided among {parallelism} buckets; continue with headrace run {app} --checkpoint {into}"
    if as_json:
        print_result(summary, {"checkpoint": into, "parallelism": parallelism, "keys": keys})
    else:
        print_line(summary)


def _folder(pipeline: str, checkpoint: str | None) -> str:
    return checkpoint or str(Path("checkpoints", pipeline).absolute())


@contextlib.contextmanager
def _spark(on: SparkOptions) -> "Iterator[SparkSession]":
    require_java()
    from headrace.engine import build_session

    spark = build_session("headrace state", on.master, on.conf, quick_start=True, quiet=True)
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def _stored(app: str, checkpoint: str | None, on: SparkOptions) -> "Iterator[tuple[StoredStates, list[str]]]":
    application = load(app)
    graph = application.pipeline.graph
    steps = [step.name for step in graph.keyed]
    if not steps:
        raise Failure(f"{app}: pipeline {graph.name} keeps no states", EXIT_INVALID)
    with _spark(on) as spark:
        from headrace.engine import CheckpointError, StoredStates

        try:
            yield StoredStates(spark, _folder(graph.name, checkpoint), graph), steps
        except CheckpointError as error:
            raise Failure(str(error)) from None


def _step(steps: list[str], name: str | None) -> str:
    if name is None and len(steps) == 1:
        return steps[0]
    if name not in steps:
        what = f"there is no step {name}" if name else "several steps keep states"
        raise Failure(f"{what}; name one with --step: {', '.join(steps)}", EXIT_INVALID)
    assert name is not None
    return name


def _keys(text: str) -> Iterator[str | bytes | int]:
    yield text
    yield text.encode()
    with contextlib.suppress(ValueError):
        yield int(text)


def plain(value: Any) -> Any:
    """Converts a state or a key to JSON types: an instance to its fields, bytes to text with escapes for invalid UTF-8."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(plain(key)): plain(kept) for key, kept in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(one) for one in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return plain(vars(value)) if hasattr(value, "__dict__") else repr(value)
