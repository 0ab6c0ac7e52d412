"""Command-line options for the parameters of a connector, and back."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import click

from headrace.configuration import validated
from headrace.connectors import Connector, Parameter, Parameters
from headrace.terminal import EXIT_INVALID, Failure, as_typed

_PREFIX = "parameter_"


class _Line(click.types.StringParamType):
    """Text that may contain spaces. An environment variable may contain several values, one per line."""

    envvar_list_splitter = "\n"


def option_of(parameter: Parameter, connector: Connector) -> click.Option:
    """Returns the option for a parameter; a secret can also be set in the environment."""
    name, option = f"{_PREFIX}{parameter.name}", parameter.option
    default = f"  [default: {parameter.default_text}]" if parameter.default_text and not parameter.flag else ""
    attributes: dict[str, Any] = {"required": parameter.required, "help": f"{parameter.description}{default}"}
    if parameter.flag:
        on = parameter.default is True
        attributes["help"] += f"  [default: {option[2:] if on else f'no-{option[2:]}'}]"
        return click.Option([name, f"{option}/--no-{option[2:]}"], default=None, **attributes)
    if parameter.several or parameter.pairs:
        attributes |= {"multiple": True, "help": f"{parameter.description} Repeatable.{default}"}
    if parameter.choices:
        attributes["type"] = click.Choice(parameter.choices)
    else:
        attributes["metavar"] = parameter.metavar
    if parameter.secret:
        attributes |= {"envvar": _variable(parameter, connector), "show_envvar": True, "type": _Line()}
    return click.Option([name, option], **attributes)


def taken_from(model: type[Parameters], declared: Sequence[Parameter], values: Mapping[str, Any]) -> Parameters:
    """Returns the parameters of a connector from the values of the options.

    Raises:
        Failure: They are invalid; the failure names each invalid option.
    """
    given: dict[str, Any] = {}
    for parameter in declared:
        value = values[f"{_PREFIX}{parameter.name}"]
        if value is not None and value != ():
            given[parameter.name] = dict(_pair(parameter, text) for text in value) if parameter.pairs else value
    result = validated(model, given)
    if not isinstance(result, list):
        return result
    options = {parameter.name: parameter.option for parameter in declared}
    raise Failure("\n".join(_line(options, key, message) for key, message in result), EXIT_INVALID)


def is_parameter(name: str) -> bool:
    """Returns whether the value of an option is a parameter of the connector, by the name that click has for the option."""
    return name.startswith(_PREFIX)


def example_of(connector: Connector, declared: Sequence[Parameter], verb: str = "run") -> str:
    """Returns an example command line that runs or checks a connector, with its required options and secrets."""
    secrets = [f"{_variable(parameter, connector)}=..." for parameter in declared if parameter.required and parameter.secret]
    words = [*secrets, as_typed(f"headrace connector {verb}"), connector.name]
    for parameter in declared:
        if (parameter.required or parameter.examples) and not parameter.secret:
            examples = parameter.examples or (parameter.choices or (parameter.name.upper(),))[:1]
            words += [parameter.option, *(() if parameter.flag else (shlex.quote(str(examples[0])),))]
    return " ".join(words)


def _variable(parameter: Parameter, connector: Connector) -> str:
    """The environment variable of a secret."""
    return re.sub("[^A-Z0-9]", "_", f"HEADRACE_{connector.name}_{parameter.name}".upper())


def _pair(parameter: Parameter, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        # A value may be a secret.
        raise Failure(f"{parameter.option}: write NAME=VALUE", EXIT_INVALID)
    return name.strip(), value.strip()


def _line(options: Mapping[str, str], key: tuple[str | int, ...], message: str) -> str:
    return f"{options[str(key[0])]}: {message}" if key else message
