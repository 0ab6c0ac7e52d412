"""Refreshing a view of a gateway until Ctrl-C; the last one stays, marked as stale, while the gateway is away."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from headrace.terminal import Failure, console, duration_text, print_json

if TYPE_CHECKING:
    from rich.console import RenderableType

interval_option = click.option(
    "--interval-seconds",
    "interval",
    type=click.FloatRange(min=0.1),
    metavar="N",
    default=1.0,
    show_default=True,
    help="Time between refreshes.",
)
watch_option = click.option("--watch", is_flag=True, help="Refresh until Ctrl-C.")


def watch_view(fetch: Callable[[], "RenderableType"], interval: float) -> None:
    """Shows a view until interrupted. While it cannot be fetched, keeps the last one, says since when, and keeps trying."""
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    out, shown, shown_at = console(), None, 0.0
    # Ctrl-C is how it ends.
    with suppress(KeyboardInterrupt), Live(console=out, auto_refresh=False, screen=out.is_terminal) as live:
        while True:
            try:
                view = shown = fetch()
                shown_at = time.monotonic()
            except Failure as failure:
                view = Text(failure.message, style="bold red")
                if shown is not None:
                    age = duration_text(int((time.monotonic() - shown_at) * 1000))
                    view = Group(view, Text(f"stale, from {age} ago", style="bold yellow"), shown)
            if out.is_terminal:
                live.update(view, refresh=True)
            else:
                out.print(view)
            time.sleep(interval)


def watch_json(fetch: Callable[[], Any], interval: float) -> None:
    """Prints one document per line until interrupted, or until a call fails."""
    with suppress(KeyboardInterrupt):
        while True:
            print_json(fetch(), compact=True)
            time.sleep(interval)
