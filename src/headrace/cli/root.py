"""The `headrace` program. It imports a command's module only when the command is called."""

import importlib
import importlib.util
import signal
import sys
from dataclasses import dataclass
from typing import NoReturn

import click

from headrace.terminal import EXIT_ENVIRONMENT, Failure, ProgramGroup, run_program


@dataclass(frozen=True)
class _Lazy:
    """The location of a command, and its line in `headrace --help`."""

    module: str
    attribute: str
    summary: str


_GROUPS = {
    "Run": {
        "connect-server": _Lazy(
            "headrace.cli.connect_server", "connect_server", "Serve Spark Connect: its clients read streams and write to sinks."
        ),
        "gateway": _Lazy("headrace.gateway_cli", "gateway", "Run a gateway between connectors and Spark."),
        "install-service": _Lazy(
            "headrace.cli.install_service", "install_service", "Write a unit of systemd that runs a deployment."
        ),
        "prepare": _Lazy("headrace.cli.prepare", "prepare", "Speed up Spark's startup on this machine, once after installing."),
        "run": _Lazy("headrace.cli.run", "run", "Run an application or a deployment."),
    },
    "Connectors": {
        "connector": _Lazy("headrace.connectors_cli", "connector", "List, describe, check and run connectors."),
        "dead-letters": _Lazy("headrace.cli.dead_letters", "dead_letters", "Show what sinks have refused, and replay it."),
    },
    "Operate": {
        "checkpoint": _Lazy(
            "headrace.cli.checkpoint", "checkpoint", "Back up a checkpoint while its query runs, and restore it."
        ),
        "context": _Lazy("headrace.cli.context", "context", "Name gateways, so that commands find them."),
        "doctor": _Lazy("headrace.cli.doctor", "doctor", "Check this machine, and suggest fixes."),
        "drain": _Lazy("headrace.gateway_cli", "drain", "Let a gateway finish, and show the progress."),
        "events": _Lazy("headrace.gateway_cli", "events", "Show what happened at a gateway, and when."),
        "forget": _Lazy("headrace.gateway_cli", "forget", "Forget a pipeline or a stream that will not come back."),
        "lake": _Lazy("headrace.cli.lake", "lake", "Maintain the tables that applications write."),
        "pause": _Lazy("headrace.gateway_cli", "pause", "Pause a stream, a connector, a pipeline or a sink."),
        "peek": _Lazy("headrace.gateway_cli", "peek", "Show a sample of a stream's messages."),
        "positions": _Lazy("headrace.cli.positions", "positions", "Show where a query continues in its streams, and move it."),
        "ps": _Lazy("headrace.cli.ps", "ps", "List the processes of deployments, or read the log of one."),
        "restart": _Lazy("headrace.cli.restart", "restart", "Restart a process of a running deployment."),
        "resume": _Lazy("headrace.gateway_cli", "resume", "End the pause of a stream, a connector, a pipeline or a sink."),
        "state": _Lazy("headrace.cli.state", "state", "Inspect the states of an application."),
        "status": _Lazy("headrace.gateway_cli", "status", "Show a gateway's streams, sessions, pipelines and sinks."),
        "timeline": _Lazy("headrace.gateway_cli", "timeline", "Show when micro-batches reached each stage."),
        "top": _Lazy("headrace.gateway_cli", "top", "Show a gateway live in the terminal, what is wrong first."),
        "why": _Lazy("headrace.gateway_cli", "why", "Show why a message is not acknowledged yet."),
    },
    "Develop": {
        "completion": _Lazy("headrace.terminal.program", "completion", "Print the script that completes commands in a shell."),
        "conformance": _Lazy("headrace.conformance", "conformance", "Judge whether a connector keeps the rules of the protocol."),
        "new": _Lazy("headrace.cli.new", "new", "Create a project: a source, a sink or an application."),
    },
    "Laboratory": {
        "bench": _Lazy("headrace.laboratory.commands.bench", "bench", "Measure Headrace on this machine."),
        "chaos": _Lazy(
            "headrace.laboratory.commands.chaos", "chaos", "Kill processes at random, and check that each message counts once."
        ),
        "demo": _Lazy(
            "headrace.laboratory.commands.demo", "demo", "Run a complete job on real flight data, and check its result."
        ),
        "soak": _Lazy(
            "headrace.laboratory.commands.soak", "soak", "Run at a steady rate, and check whether any process's memory grows."
        ),
    },
}
"""The commands, by what somebody does who needs them, in the order of `headrace --help`."""
_COMMANDS = {name: lazy for group in _GROUPS.values() for name, lazy in group.items()}


def _leaf(module: str) -> str:
    return ".".join(module.split(".")[:2])


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(_leaf(module)) is not None


class _LazyGroup(ProgramGroup):
    """A group that imports its commands on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(name for name, lazy in _COMMANDS.items() if _is_installed(lazy.module))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = _COMMANDS.get(cmd_name)
        if lazy is None:
            return None
        if not _is_installed(lazy.module):
            extra = _leaf(lazy.module).removeprefix("headrace.")
            raise Failure(f"headrace {cmd_name} is not installed; run: pip install 'headrace[{extra}]'", EXIT_ENVIRONMENT)
        command = getattr(importlib.import_module(lazy.module), lazy.attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the command, or suggests the nearest ones."""
        name = args[0]
        if not name.startswith("-") and name not in _COMMANDS:
            if within := self._within_groups(ctx, name):
                raise click.UsageError(f"No such command {name!r}. Did you mean {' or '.join(within)}?", ctx)
            raise click.exceptions.NoSuchCommand(name, possibilities=self.list_commands(ctx), ctx=ctx)
        return super().resolve_command(ctx, args)

    def _within_groups(self, ctx: click.Context, name: str) -> list[str]:
        """Returns where a command of this name is, such as `'dead-letters replay'` for `replay`."""
        outer = [one for one in self.list_commands(ctx) if one not in _GROUPS["Laboratory"]]
        groups = [(one, self.get_command(ctx, one)) for one in outer]
        return [f"'{one} {name}'" for one, group in groups if isinstance(group, click.Group) and name in group.commands]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands in their groups, without importing them."""
        known = self.list_commands(ctx)
        widest = max(map(len, known))
        for title, group in _GROUPS.items():
            if rows := [(name.ljust(widest), lazy.summary) for name, lazy in group.items() if name in known]:
                with formatter.section(title):
                    formatter.write_dl(rows)


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="headrace", message="headrace %(version)s")
def cli() -> None:
    """Bring any stream to Spark, acknowledged by Spark's own checkpoint.

    \b
    Start a gateway, and show its status:
      headrace gateway
      headrace status

    Exit codes: 0 success, 1 failure, 2 usage or configuration error, 3 missing on this machine (such as Java),
    130 and 143 forced stop.
    """


def main() -> NoReturn:
    """Runs the program and exits with its code."""
    words = sys.argv[1:]
    runs_deployment = words[:1] == ["run"] and any(word.endswith(".toml") for word in words)
    if words[:2] == ["connector", "run"] or words[:1] == ["gateway"] or runs_deployment:
        # From the beginning: loading takes a while, and SIGHUP must not end them. The command handles it later.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    run_program(cli, "headrace")
