"""The options of every command that starts Spark."""

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from headrace.contract.settings import OF_RUN
from headrace.logs.output import FORMAT_VARIABLE, FORMATS, VERBOSE_VARIABLE
from headrace.terminal import EXIT_ENVIRONMENT, EXIT_INVALID, Failure, setting_option

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class SparkOptions:
    """How to start Spark.

    Attributes:
        master: Spark's master URL; None for the one that spark-submit sets, else `local[*]`.
        conf: Spark settings by name.
    """

    master: str | None
    conf: Mapping[str, str]


def spark_options(command: _Command) -> _Command:
    """Adds --master, --conf and --verbose. The command receives the first two as one argument, `on`."""

    @setting_option(OF_RUN["master"], metavar="URL")
    @verbose_option
    @setting_option(OF_RUN["conf"])
    @functools.wraps(command)
    def with_spark(*arguments: Any, master: str | None, conf: tuple[str, ...], **options: Any) -> Any:
        return command(*arguments, on=SparkOptions(master, pairs("--conf", conf)), **options)

    return with_spark  # type: ignore[return-value]


def verbose_option(command: _Command) -> _Command:
    """Adds --verbose, which also applies to the processes that the command starts."""

    def show_all(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
        if value:
            os.environ[VERBOSE_VARIABLE] = "1"

    return setting_option(OF_RUN["verbose"], "-v", expose_value=False, callback=show_all)(command)


def log_format_option(command: _Command) -> _Command:
    """Adds --log-format; the command passes it to the processes that it starts."""
    return click.option(
        "--log-format",
        type=click.Choice(FORMATS),
        envvar=FORMAT_VARIABLE,
        default="console",
        help=f"Format of the log on standard error, also of Spark's Python processes.  [default: {FORMAT_VARIABLE}, or console]",
    )(command)


def pairs(option: str, arguments: tuple[str, ...]) -> dict[str, str]:
    """Parses the NAME=VALUE arguments of a repeatable option.

    Raises:
        Failure: An argument is not NAME=VALUE.
    """
    found = {}
    for text in arguments:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise Failure(f"{option} {text}: want NAME=VALUE", EXIT_INVALID)
        found[name.strip()] = value.strip()
    return found


def require_java() -> None:
    """Checks that this machine has a Java that Spark runs on.

    Raises:
        Failure: It has none; the message names what to install.
    """
    from headrace import processes

    try:
        processes.require_java()
    except processes.JavaMissing as error:
        raise Failure(str(error), EXIT_ENVIRONMENT) from None
