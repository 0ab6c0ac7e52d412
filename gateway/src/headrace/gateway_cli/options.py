"""Options that several commands share."""

import click

from headrace.gateway_cli.previews import FORMS

form_option = click.option("--form", type=click.Choice(FORMS), default="auto", show_default=True, help="How to show values.")
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
