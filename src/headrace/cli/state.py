"""`headrace state`: inspects the states of an application, which may run, and rescales a stopped one."""

import contextlib
import dataclasses
import itertools
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.application import load
from headrace.cli.spark_options import SparkOptions, spark_options
from headrace.cli.stored import both_shared_option, checkpoint_of, spark_session, spark_unless_local
from headrace.contract.names import nearest
from headrace.terminal import (
    EXIT_INVALID,
    Failure,
    ProgramGroup,
    console,
    counted,
    json_option,
    print_json,
    print_line,
    print_result,
)

if TYPE_CHECKING:
    from headrace.engine import StoredStates

_APP = click.argument("app", metavar="APP.PY[:NAME]")
_CHECKPOINT = click.option("--checkpoint", metavar="DIR", help="The application's checkpoint.  [default: checkpoints/<name>]")
_STEP = click.option("--step", metavar="NAME", help="Only the states of this step.")


@click.group(cls=ProgramGroup)
def state() -> None:
    """Inspect the states of an application as of its last committed micro-batch, while it runs or not; rescale a stopped one.

    On a disk of this machine, only rescale needs Java; any other file system is read by Spark.

    \b
    Examples:
      headrace state show app.py
      headrace state query app.py market GOOG
      headrace state export app.py > states.jsonl
    """


@state.command()
@_APP
@_CHECKPOINT
@json_option()
@spark_options
def show(app: str, checkpoint: str | None, as_json: bool, on: SparkOptions) -> None:
    """Show which steps keep states, for how many keys, and what bounds them.

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
    table = plain_table("step", "#keys", "bound", prose=True)
    for size in sizes:
        table.add_row(size.step, f"{size.keys:,}", size.bound)
    console().print(table)


@state.command()
@_APP
@click.argument("step")
@click.argument("key", required=False)
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, metavar="N", help="Without KEY: how many states to print."
)
@_CHECKPOINT
@json_option()
@spark_options
def query(app: str, step: str, key: str | None, limit: int, checkpoint: str | None, as_json: bool, on: SparkOptions) -> None:
    """Print the state of a key in a step, or without KEY the states of some keys.

    KEY is text; it matches keys that are text, bytes or numbers. Write a tuple as a list in JSON, and None as null. Only one
    segment of the states is read, and the changes since.

    \b
    Examples:
      headrace state query app.py market GOOG
      headrace state query app.py market '["GOOG", 7]' --json
      headrace state query app.py market --limit 100
    """
    from headrace.engine import plain

    with _stored(app, checkpoint, on) as (stored, steps):
        chosen = _step(steps, step)
        if key is None:
            _list_states(stored, chosen, limit, as_json)
            return
        found = _find(stored, chosen, key)
        batch = stored.committed.batch
        if found is None:
            raise Failure(_absent(stored, chosen, key))
    document = {"step": chosen, "key": key, "batch": batch, "state": plain(found)}
    if as_json:
        print_result(f"state of key {key} in step {chosen} after micro-batch {batch}", document)
    else:
        print_json(document)


@state.command()
@_APP
@_STEP
@_CHECKPOINT
@spark_options
def export(app: str, step: str | None, checkpoint: str | None, on: SparkOptions) -> None:
    """Print all states, one JSON object per line, all as of one micro-batch.

    \b
    Example:
      headrace state export app.py --step market > states.jsonl
    """
    from headrace.engine import plain

    with _stored(app, checkpoint, on) as (stored, steps):
        for of, key, found in stored.each([_step(steps, step)] if step else steps):
            print_line(json.dumps({"step": of, "key": plain(key), "state": plain(found)}))


@state.command()
@_APP
@_CHECKPOINT
@click.option("--into", metavar="DIR", required=True, help="The new checkpoint; it must not exist.")
@both_shared_option
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
    with spark_session("state", on) as spark:
        try:
            old = checkpoint_of(application.pipeline.name, checkpoint)
            code = application.folder
            keys = take_over(
                application.pipeline, spark, old, into, parallelism, folder=code, shared_checkpoint=shared_checkpoint
            )
        except CheckpointError as error:
            raise Failure(str(error)) from None
    summary = (
        f"{counted(keys, 'state')} divided among {parallelism} buckets; continue with headrace run {app} --checkpoint {into}"
    )
    if as_json:
        print_result(summary, {"checkpoint": into, "parallelism": parallelism, "keys": keys})
    else:
        print_line(summary)


def _find(stored: "StoredStates", step: str, text: str) -> Any:
    """The state of the first key with a state that a text may mean; None if there is none."""
    from headrace.engine import OptionError

    for key in _keys(text):
        # Some texts mean a value that cannot be a key, such as NaN.
        with contextlib.suppress(OptionError):
            if (found := stored.find(step, key)) is not None:
                return found
    return None


def _list_states(stored: "StoredStates", step: str, limit: int, as_json: bool) -> None:
    """Prints the first states of a step."""
    from headrace.engine import plain
    from headrace.terminal.tables import plain_table

    found = list(itertools.islice(stored.all(step), limit + 1))
    states = [{"key": plain(key), "state": plain(kept)} for key, kept in found[:limit]]
    batch, has_more = stored.committed.batch, len(found) > limit
    if as_json:
        document = {"step": step, "batch": batch, "states": states, "has_more": has_more}
        print_result(f"states of step {step} after micro-batch {batch}", document)
        return
    print_line(f"After micro-batch {batch}:")
    table = plain_table("key", "state")
    for each in states:
        table.add_row(*(one if isinstance(one, str) else json.dumps(one) for one in each.values()))
    console().print(table)
    if has_more:
        print_line(f"There are more; print them with --limit, or all with headrace state export --step {step}")


def _absent(stored: "StoredStates", step: str, key: str) -> str:
    """The reason why a key has no state, with the keys that the step does have if they are of another type."""
    from headrace.engine import plain

    absent = f"step {step} keeps no state for key {key} after micro-batch {stored.committed.batch}"
    sample = next((kept for kept, _ in stored.all(step)), None)
    tried = set(map(type, _keys(key)))
    if sample is None or type(sample) in tried:
        return absent
    return f"{absent}; its keys are of type {type(sample).__name__}, such as {json.dumps(plain(sample))}: write KEY in JSON"


@contextlib.contextmanager
def _stored(app: str, checkpoint: str | None, on: SparkOptions) -> "Iterator[tuple[StoredStates, list[str]]]":
    application = load(app)
    graph = application.pipeline.graph
    steps = [step.name for step in graph.keyed]
    if not steps:
        raise Failure(f"{app}: pipeline {graph.name} keeps no states", EXIT_INVALID)
    folder = checkpoint_of(graph.name, checkpoint)
    with spark_unless_local("state", on, folder) as spark:
        from headrace.engine import CheckpointError, StoredStates
        from headrace.pipelines import StateError

        try:
            yield StoredStates(spark, folder, graph), steps
        except (CheckpointError, StateError) as error:
            raise Failure(str(error)) from None


def _step(steps: list[str], name: str) -> str:
    if name not in steps:
        raise Failure(f"there is no step {name} with states; name one: {', '.join(steps)}{nearest(name, steps)}", EXIT_INVALID)
    return name


def _keys(text: str) -> Iterator[Any]:
    """The keys that a text may mean."""
    yield text
    yield os.fsencode(text)
    with contextlib.suppress(ValueError):
        yield int(text)
    with contextlib.suppress(ValueError, RecursionError):
        document = json.loads(text)
        if document is None or isinstance(document, (float, list)):
            yield _of_tuples(document)


def _of_tuples(document: Any) -> Any:
    return tuple(map(_of_tuples, document)) if isinstance(document, list) else document
