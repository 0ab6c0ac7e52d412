"""Runs a program, and click commands whose help depends on the program that runs them."""

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from headrace.contract.settings import Form, Setting
from headrace.terminal.examples import ExamplesFormatter
from headrace.terminal.results import failures_as_json, note_words

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])
_UNCUT = 1_000
"""Longer than every first sentence of a help, in characters."""


class ProgramCommand(click.Command):
    """A command whose help names the program that runs it."""

    def get_help(self, ctx: click.Context) -> str:
        """Returns the help, with examples for the running program."""
        return _help_of(self, ctx)


class ProgramGroup(click.Group):
    """A group that is mounted in `headrace` and is also a separate program.

    Args:
        typed: For the root of a program: how commands of `headrace` are typed in it, such as
            `{"headrace gateway": "headrace-gateway"}`.
    """

    command_class = ProgramCommand

    def __init__(self, *arguments: Any, typed: Mapping[str, str] | None = None, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.typed = dict(typed or {})

    def get_help(self, ctx: click.Context) -> str:
        """Returns the help, with examples for the running program."""
        return _help_of(self, ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands, each with its whole first sentence; click cuts it where the line ends."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        if rows := [(name, each.get_short_help_str(_UNCUT)) for name, each in commands if each is not None and not each.hidden]:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the words of a call."""
        note_words(ctx, args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command that is called; its failure is one JSON object if the call has --json."""
        with failures_as_json(ctx):
            return super().invoke(ctx)

    def program(self, name: str, *more: click.Command) -> "ProgramGroup":
        """Returns this group as a program: the same options and commands, the commands in `more`, `completion`, `--version`.

        Args:
            name: The name of the program, and of its distribution.
            more: Further commands.
        """
        commands = [completion, *more]
        group = ProgramGroup(
            name,
            typed={
                **{f"headrace {each.name}": f"{name} {each.name}" for each in commands},
                "headrace.fish": f"{name}.fish",
                f"headrace {self.name}": name,
            },
            callback=self.callback,
            params=[*self.params],
            help=self.help,
            invoke_without_command=self.invoke_without_command,
            commands={**self.commands, **{str(each.name): each for each in commands}},
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        return click.version_option(package_name=name, message=f"{name} %(version)s")(group)


def _help_of(command: click.Command, ctx: click.Context) -> str:
    formatter = ExamplesFormatter(lambda text: as_typed(text, ctx), width=ctx.terminal_width, max_width=ctx.max_content_width)
    command.format_help(ctx, formatter)
    return formatter.getvalue().rstrip("\n")


def as_typed(text: str, ctx: click.Context | None = None) -> str:
    """Replaces commands of `headrace` in a text with the commands of the running program.

    Args:
        text: The text, such as `headrace connector list names them all`.
        ctx: The context of the running command; None for the current one, if any.
    """
    ctx = ctx or click.get_current_context(silent=True)
    root = None if ctx is None else ctx.find_root().command
    if isinstance(root, ProgramGroup):
        for of_headrace, here in root.typed.items():
            text = text.replace(of_headrace, here)
    return text


def run_program(command: click.Command, name: str) -> NoReturn:
    """Runs a program, and exits with its exit code."""
    try:
        code = command.main(prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # The reader of the output has closed the pipe; keep the interpreter from reporting it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


TIME = click.DateTime(("%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"))
"""A time on the command line, in UTC unless it names a zone."""


def setting_option(setting: Setting, *short: str, **attributes: Any) -> Callable[[_Decorated], _Decorated]:
    """Returns what adds a setting to a command as an option: by its form, and with further attributes of click's option."""
    match setting.form:
        case Form.FLAG:
            attributes = {"is_flag": True, **attributes}
        case Form.SWITCH:
            attributes = {"default": None, **attributes}
        case Form.SEVERAL | Form.PAIRS:
            attributes = {"multiple": True, "metavar": "NAME=VALUE" if setting.form is Form.PAIRS else None, **attributes}
        case Form.VALUE:
            pass
    switch = f"{setting.option}/--no-{setting.option[2:]}" if setting.form is Form.SWITCH else setting.option
    return click.option(*short, switch, setting.name, help=setting.help, **attributes)


if TYPE_CHECKING:
    from click.shell_completion import ShellComplete

SHELLS = ("bash", "zsh", "fish")


@click.command(cls=ProgramCommand)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in a shell.

    \b
    Examples, for this session, and for all:
      eval "$(headrace completion bash)"
      headrace completion bash >> ~/.bashrc
      headrace completion zsh >> ~/.zshrc
      headrace completion fish > ~/.config/fish/completions/headrace.fish
    """
    root = ctx.find_root()
    name = root.info_name or "headrace"
    click.echo(_completer(root.command, name, shell).source())


def _completer(command: click.Command, name: str, shell: str) -> "ShellComplete":
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    # The variable with which a shell requests completion, derived from the program's name as in `click.Command.main`.
    variable = f"_{name}_COMPLETE".replace("-", "_").replace(".", "_").upper()
    return found(command, {}, name, variable)
