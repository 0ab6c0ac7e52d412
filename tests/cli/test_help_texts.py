"""Help says what a reader needs, in one way: whole sentences, units of numbers, and an example that the program takes."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest
from tests.cli.test_help_widths import helps

MAX_OPTION = 220
"""In characters, without a list of what the option takes."""
ONE_OF = re.compile(r", one of [^.]*\.")
ALWAYS = {"help", "version"}


@pytest.fixture(scope="module")
def commands() -> list[click.Context]:
    return list(helps())


def options(commands: list[click.Context]) -> Iterator[tuple[str, click.Option, str]]:
    """Each option, with the command, and its help without the default."""
    for ctx in commands:
        for option in ctx.command.get_params(ctx):
            if isinstance(option, click.Option) and not option.hidden and option.name not in ALWAYS:
                yield f"{ctx.command_path} {option.opts[0]}", option, (option.help or "").partition("  [")[0]


def examples(command: click.Command) -> list[str]:
    """The command lines of the examples in a help."""
    _, heading, rest = (command.help or "").partition("Example")
    lines = rest.partition("\n\n")[0].splitlines()[1:] if heading else []
    return [line.strip() for line in lines]


def test_every_help_has_an_example(commands: list[click.Context]) -> None:
    assert len(commands) > 150
    assert [ctx.command_path for ctx in commands if not examples(ctx.command) and ctx.parent is not None] == []


def test_every_example_names_a_command_and_gives_it_options_that_it_takes(commands: list[click.Context]) -> None:
    roots = [ctx for ctx in commands if ctx.info_name == "headrace"]
    seen = 0
    for ctx in commands:
        for example in examples(ctx.command) if ctx.find_root().info_name == "headrace" else []:
            words = [word for word in shlex.split(example) if not re.fullmatch(r"HEADRACE_\w+=.*", word)]
            if words[:1] != ["headrace"]:
                continue  # Such as `eval "$(headrace completion bash)"`.
            ends = next((at for at, word in enumerate(words) if word in ("|", ">", ">>")), len(words))
            command, arguments = _resolved(roots[0], words[1:ends])
            given, _, _ = command.make_parser(click.Context(command)).parse_args(arguments)
            absent = [param.name for param in command.params if param.required and param.name not in given and not param.envvar]
            assert absent == [] or "--list" in arguments, f"{example}: {absent}"
            seen += 1
    assert seen > 120


def _resolved(root: click.Context, words: list[str]) -> tuple[click.Command, list[str]]:
    command, arguments = root.command, words
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        inner = command.get_command(root, arguments[0])
        assert inner is not None, words
        command, arguments = inner, arguments[1:]
    return command, arguments


def test_every_help_of_an_option_is_a_sentence_of_moderate_length(commands: list[click.Context]) -> None:
    found = list(options(commands))
    assert len(found) > 800
    assert {where for where, _, text in found if not text.rstrip().endswith(".")} == set()
    assert {where for where, _, text in found if len(ONE_OF.sub(".", text)) > MAX_OPTION} == set()


def test_every_paragraph_of_a_help_ends_a_sentence(commands: list[click.Context]) -> None:
    for ctx in commands:
        for paragraph in (ctx.command.help or "").split("\n\n"):
            if "\b" not in paragraph:
                assert paragraph.rstrip().endswith((".", ":")), f"{ctx.command_path}: {paragraph}"


def test_a_number_in_an_option_has_a_name_or_a_unit_in_place_of_its_type(commands: list[click.Context]) -> None:
    numbers = (click.types.IntParamType, click.types.FloatParamType)
    found = [(where, option) for where, option, _ in options(commands) if isinstance(option.type, numbers) and not option.count]
    assert len(found) > 20
    assert {where for where, option in found if option.metavar is None} == set()


def test_an_option_that_may_be_given_more_than_once_says_so_in_one_word(commands: list[click.Context]) -> None:
    for where, option, text in options(commands):
        assert ("Repeatable." in text) == option.multiple, where
        assert not re.search(r"be repeated|repeatable\b", text), where


def test_no_option_begins_with_most_which_also_means_the_majority(commands: list[click.Context]) -> None:
    assert {where for where, _, text in options(commands) if re.match(r"Most\b", text)} == set()
