"""The one shape of `--json`: each command that has the option prints its result, or why it failed, as one object.

    {"command": "pause", "ok": true, "summary": "stream orders/0 is paused", "result": {...}, "error": null}

A command that prints as it runs, such as with `--watch`, prints bare objects before, one per line; none of them has `ok`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from headrace.terminal.output import Failure, print_json

_Command = TypeVar("_Command", bound=Callable[..., Any])
_ASKED = "headrace.json"
"""The context of the command that was called with --json, in what all contexts of a call share."""
_WORDS = "headrace.words"


class JsonOption(click.Option):
    """The option --json of a command that prints its result in the one shape."""


def json_option(lines: str = "", *, hidden: bool = False) -> Callable[[_Command], _Command]:
    """Adds `--json`, as the parameter `as_json`.

    Args:
        lines: The lines that the command prints before its result, one object each, as in "with --watch, each status as a line".
        hidden: Whether the help leaves it out.
    """
    text = f"Print one object {{command, ok, summary, result, error}}{f'; {lines}' if lines else ''}."
    # Eager, so that a wrong value of another option is reported as JSON, too.
    return click.option(
        "--json", "as_json", cls=JsonOption, is_flag=True, is_eager=True, hidden=hidden, callback=_note, help=text
    )


def print_result(summary: str, result: Mapping[str, Any] | None, error: str | None = None, *, compact: bool = False) -> None:
    """Prints the result of the running command, in the one shape.

    Args:
        summary: One line for people.
        result: The result of the command; its page documents the fields.
        error: What went wrong, if the command fails although it has a result.
        compact: Whether it is printed on one line also on a terminal.
    """
    _print(click.get_current_context(), summary, result, error, compact=compact)


def note_words(ctx: click.Context, words: Sequence[str]) -> None:
    """Notes the words of a call, before they are parsed; only the words of the whole call count."""
    ctx.meta.setdefault(_WORDS, tuple(words))


@contextmanager
def failures_as_json(ctx: click.Context) -> Iterator[None]:
    """Prints the failure of a command as JSON if its call has --json, and exits with the same code as without."""
    try:
        yield
    except click.ClickException as error:
        asked = _json_context(ctx, error)
        if asked is None:
            raise
        text = error.message if isinstance(error, Failure) else error.format_message()
        summary = getattr(error, "summary", None) or text.partition("\n")[0]
        _print(asked, summary, getattr(error, "result", None), text)
        ctx.exit(error.exit_code)


def command_name(ctx: click.Context) -> str:
    """Returns the name of a command as it is typed after `headrace`, whichever program runs it: `gateway reload`."""
    names: list[str] = []
    while ctx.parent is not None:
        names.insert(0, ctx.info_name or "")
        ctx = ctx.parent
    typed: Mapping[str, str] = getattr(ctx.command, "typed", {})
    path = " ".join([ctx.command.name or "", *names])
    for of_headrace, here in sorted(typed.items(), key=lambda pair: -len(pair[1])):
        if f"{path} ".startswith(f"{here} "):
            return f"{of_headrace}{path[len(here) :]}".removeprefix("headrace ")
    return " ".join(names)


def _note(ctx: click.Context, parameter: click.Parameter, value: bool) -> bool:
    if value and not ctx.resilient_parsing:
        ctx.meta[_ASKED] = ctx
    return value


def _json_context(ctx: click.Context, error: click.ClickException) -> click.Context | None:
    """Returns the context of the command that fails, if its call has --json; None if it has not."""
    asked: click.Context | None = ctx.meta.get(_ASKED)
    if asked is None and isinstance(error, click.UsageError) and error.ctx is not None:
        # The words could not be parsed, so that no callback has seen the option.
        words = ctx.meta.get(_WORDS, ())
        known = any(isinstance(parameter, JsonOption) for parameter in error.ctx.command.params)
        return error.ctx if known and "--json" in words else None
    return asked


def _print(
    ctx: click.Context, summary: str, result: Mapping[str, Any] | None, error: str | None, *, compact: bool = False
) -> None:
    document = {"command": command_name(ctx), "ok": error is None, "summary": summary, "result": result, "error": error}
    print_json(document, compact=compact)
