"""The program: finds a command's module by its name and loads it only when the command is called."""

import importlib
import importlib.util
from dataclasses import dataclass
from typing import NoReturn

import click

from headrace.terminal import run_program


@dataclass(frozen=True)
class _Lazy:
    """Where a command is, and what `headrace --help` says of it."""

    module: str
    attribute: str
    summary: str


_COMMANDS = {
    "bench": _Lazy("headrace.cli._bench", "bench", "Measure Headrace on this machine."),
    "chaos": _Lazy("headrace.cli._chaos", "chaos", "Kill everything at random, and prove that each message counts once."),
    "connector": _Lazy("headrace.connectors_cli", "connector", "Run the connectors that come with Headrace."),
    "demo": _Lazy("headrace.cli._demo", "demo", "Run a whole job on real flights, and check its result."),
    "dlq": _Lazy("headrace.connectors_cli", "dlq", "Look at dead letters, and give them again."),
    "forget": _Lazy("headrace.gateway_cli", "forget", "Forget a pipeline that will not come back."),
    "gateway": _Lazy("headrace.gateway_cli", "gateway", "Run a gateway between connectors and Spark."),
    "prepare": _Lazy("headrace.cli._prepare", "prepare", "Have Spark start quicker on this machine, once after installing."),
    "run": _Lazy("headrace.cli._run", "run", "Run an application: a pipeline of Python functions, on Spark."),
    "soak": _Lazy("headrace.cli._soak", "soak", "Run everything at a steady rate, and see whether any process grows."),
    "state": _Lazy("headrace.cli._state", "state", "Look at the states that an application keeps."),
    "status": _Lazy("headrace.gateway_cli", "status", "Show a gateway's streams, sessions and pipelines."),
}


class _LazyGroup(click.Group):
    """A group whose commands are modules, imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(name for name, lazy in _COMMANDS.items() if importlib.util.find_spec(lazy.module) is not None)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        lazy = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(lazy.module), lazy.attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name].summary) for name in self.list_commands(ctx)])


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="headrace", message="headrace %(version)s")
def cli() -> None:
    """Bring any stream to Spark, acknowledged by Spark's own checkpoint.

    \b
    Start a gateway, and look at it:
      headrace gateway
      headrace status

    Exit codes: 0 all is well, 1 it failed, 2 something was asked for wrongly, 3 this machine lacks something,
    130 and 143 it was stopped by force.
    """


def main() -> NoReturn:
    """Runs the program and exits with its code."""
    run_program(cli, "headrace")
