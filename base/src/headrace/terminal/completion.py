"""`completion`: prints the shell completion script of a program."""

from typing import TYPE_CHECKING

import click

from headrace.terminal.program import ProgramCommand

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
