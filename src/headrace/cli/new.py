"""`headrace new`: projects to begin with."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from headrace.contract.languages import LANGUAGES
from headrace.terminal import (
    EXIT_ENVIRONMENT,
    EXIT_INVALID,
    Failure,
    ProgramGroup,
    counted,
    json_option,
    print_line,
    print_result,
)

if TYPE_CHECKING:
    from headrace.scaffold import Created

F = TypeVar("F", bound=Callable[..., None])


def _options(command: F) -> F:
    """Adds what all projects have in common."""
    for decorator in (
        json_option(),
        click.option(
            "--sdk",
            type=click.Path(path_type=Path),
            metavar="PATH",
            help="Build with the SDK in a checkout of Headrace, such as headrace/sdk/go, in place of the released one.",
        ),
        click.option(
            "--into",
            type=click.Path(path_type=Path),
            metavar="FOLDER",
            default=".",
            help="Create the folder NAME in this folder; default: the working directory.",
        ),
        click.argument("name"),
    ):
        command = decorator(command)
    return command


_NOTHING = "nothing is created"
_language = click.option("--lang", "language", type=click.Choice(tuple(LANGUAGES)), required=True, help="Its language.")


@click.group(cls=ProgramGroup)
def new() -> None:
    """Create a project: a source, a sink or an application.

    It builds, passes its tests, and runs. Marks show the places to replace.

    \b
    Examples:
      headrace new source --lang go order-events
      headrace new sink --lang python ledger --into ~/connectors
      headrace new app word-count
    """


@new.command()
@_language
@_options
def source(language: str, name: str, into: Path, sdk: Path | None, as_json: bool) -> None:
    """Create the project of a source, which reads a file line by line.

    NAME consists of small letters, digits and hyphens. It is the name of the folder, the package and the connector.

    \b
    Example:
      headrace new source --lang go order-events
    """
    from headrace.scaffold import SCAFFOLDS, new_connector

    _create(as_json, lambda: new_connector("source", SCAFFOLDS[language], name, into, sdk))


@new.command()
@_language
@_options
def sink(language: str, name: str, into: Path, sdk: Path | None, as_json: bool) -> None:
    """Create the project of a sink, which writes files exactly once.

    NAME consists of small letters, digits and hyphens. It is the name of the folder, the package and the connector.

    \b
    Example:
      headrace new sink --lang python ledger --into ~/connectors
    """
    from headrace.scaffold import SCAFFOLDS, new_connector

    _create(as_json, lambda: new_connector("sink", SCAFFOLDS[language], name, into, sdk))


@new.command()
@_options
def app(name: str, into: Path, sdk: Path | None, as_json: bool) -> None:
    """Create the project of an application, which counts words.

    NAME consists of small letters, digits and hyphens. It is the name of the folder and the pipeline. For --sdk, name sdk/python.

    \b
    Example:
      headrace new app word-count
    """
    from headrace.scaffold import new_app

    _create(as_json, lambda: new_app(name, into, sdk))


def _create(as_json: bool, create: "Callable[[], Created]") -> None:
    from headrace.scaffold import ScaffoldError

    try:
        created = create()
    except ScaffoldError as error:
        raise Failure(str(error), EXIT_INVALID, summary=_NOTHING) from None
    except OSError as error:
        text = f"cannot write {error.filename}: {error.strerror}"
        raise Failure(text, EXIT_ENVIRONMENT, summary=_NOTHING) from None
    what = "an application" if created.kind == "app" else f"a {created.kind}"
    summary = f"created {created.folder}: {what} in {created.language}, {counted(len(created.files), 'file')}"
    if as_json:
        result = {
            "name": created.name,
            "kind": created.kind,
            "language": created.language,
            "folder": str(created.folder),
            "files": list(created.files),
            "next": list(created.commands),
            "hint": created.hint or None,
        }
        print_result(summary, result)
        return
    print_line(summary)
    if created.hint:
        print_line(created.hint, err=True)
    print_line("\nnext:")
    for line in created.commands:
        print_line(f"  {line}")
    print_line("\nREADME.md says how to test and run it")
