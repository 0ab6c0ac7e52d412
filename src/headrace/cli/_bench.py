"""`headrace bench`: what Headrace does on this machine."""

import json
import sys

import click

from headrace.cli._output import EXIT_FAILED, console

CORE_PARTS = ("throughput", "latency", "stalled", "sessions", "curves")


@click.group()
def bench() -> None:
    """Measure Headrace on this machine, each figure with a baseline from the same run.

    \b
    Example:
      headrace bench core --json > core.json
    """


@bench.command()
@click.option("--only", "parts", multiple=True, type=click.Choice(CORE_PARTS), help="Run this part only; can be given again.")
@click.option("--quick", is_flag=True, help="Shorter runs, to see that everything works; the figures are not to be quoted.")
@click.option("--json", "as_json", is_flag=True, help='Print {"figures": [...], "conditions": {...}}.')
@click.option("--fail", is_flag=True, help="Exit with 1 where a target is not met.")
def core(parts: tuple[str, ...], quick: bool, as_json: bool, fail: bool) -> None:
    """Measure the way from a connector through the gateway into Spark, and back.

    Takes about five minutes, and a few minutes with --quick. Progress goes to standard error.

    \b
    Example:
      headrace bench core --only throughput --only latency
    """
    from headrace.bench._core import run
    from headrace.bench._figures import document, table

    figures, conditions = run(parts or CORE_PARTS, quick, lambda text: print(text, file=sys.stderr, flush=True))
    if as_json:
        click.echo(json.dumps(document(figures, conditions), indent=2))
    else:
        console().print(table("headrace bench core", figures))
        console().print(f"conditions: {json.dumps(conditions)}")
    if fail and any(figure.met is False for figure in figures):
        sys.exit(EXIT_FAILED)
