"""`headrace bench`: what Headrace does on this machine."""

import json
import sys
from collections.abc import Callable
from typing import Any

import click

from headrace.cli._output import EXIT_FAILED, console

CORE_PARTS = ("throughput", "latency", "stalled", "sessions", "curves")
SINK_PARTS = ("throughput", "latency", "recovery")


@click.group()
def bench() -> None:
    """Measure Headrace on this machine, each figure with a baseline from the same run.

    \b
    Examples:
      headrace bench core --json > core.json
      headrace bench sink --only latency
    """


def _benchmark(parts: tuple[str, ...]) -> Callable[[Callable[..., None]], click.Command]:
    """A benchmark of these parts."""

    def decorate(function: Callable[..., None]) -> click.Command:
        options = (
            click.option(
                "--only", "parts", multiple=True, type=click.Choice(parts), help="Run this part only; can be given again."
            ),
            click.option(
                "--quick", is_flag=True, help="Shorter runs, to see that everything works; the figures are not to be quoted."
            ),
            click.option("--json", "as_json", is_flag=True, help='Print {"figures": [...], "conditions": {...}}.'),
            click.option("--fail", is_flag=True, help="Exit with 1 where a target is not met."),
        )
        for option in reversed(options):
            function = option(function)
        return bench.command()(function)

    return decorate


@_benchmark(CORE_PARTS)
def core(parts: tuple[str, ...], quick: bool, as_json: bool, fail: bool) -> None:
    """Measure the way from a connector through the gateway into Spark, and back.

    Takes about five minutes, and a few minutes with --quick. Progress goes to standard error.

    \b
    Example:
      headrace bench core --only throughput --only latency
    """
    from headrace.bench._core import run

    _report("headrace bench core", run, parts or CORE_PARTS, quick, as_json, fail)


@_benchmark(SINK_PARTS)
def sink(parts: tuple[str, ...], quick: bool, as_json: bool, fail: bool) -> None:
    """Measure the way from a connector through Spark into a two-phase file sink.

    Takes about five minutes. Progress goes to standard error.

    \b
    Example:
      headrace bench sink --only throughput
    """
    from headrace.bench._sink import run

    _report("headrace bench sink", run, parts or SINK_PARTS, quick, as_json, fail)


def _report(title: str, run: Any, parts: tuple[str, ...], quick: bool, as_json: bool, fail: bool) -> None:
    """Runs a benchmark and prints what it found."""
    from headrace.bench._figures import document, table

    figures, conditions = run(parts, quick, lambda text: print(text, file=sys.stderr, flush=True))
    if as_json:
        click.echo(json.dumps(document(figures, conditions), indent=2))
    else:
        console().print(table(title, figures))
        console().print(f"conditions: {json.dumps(conditions)}")
    if fail and any(figure.met is False for figure in figures):
        sys.exit(EXIT_FAILED)
