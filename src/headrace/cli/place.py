"""Where a command finds a deployment: on this machine, or at the gateway that the command line names."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from headrace.contract.settings import OF_CONNECTION
from headrace.terminal import EXIT_INVALID, Connection, Failure

_OF_A_CALL = tuple(setting for setting in OF_CONNECTION.values() if setting.name not in ("gateway", "token_file"))
_C = TypeVar("_C", bound=Callable[..., Any])


def deployment_option(at_gateway: str) -> Callable[[_C], _C]:
    """Adds the option `--deployment`.

    Args:
        at_gateway: What its help tells of a command that asks a gateway.
    """
    return click.option(
        "--deployment",
        type=click.Path(path_type=Path),
        metavar="FILE",
        default="deploy.toml",
        show_default=True,
        help=f"The file of the deployment; {at_gateway}.",
    )


def is_given(option: str) -> bool:
    """Whether an option is on the command line: HEADRACE_GATEWAY alone does not choose the gateway."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


def asks_gateway(deployment: Path, connection: Connection) -> bool:
    """Whether the command asks a gateway, and not the supervisor of a deployment on this machine.

    The gateway of a context in use is asked, unless the command line names a deployment.

    Raises:
        Failure: It asks a supervisor, and has options that are for a gateway, or there is no deployment.
    """
    if is_given("gateway") or is_given("context") or (connection.context is not None and not is_given("deployment")):
        return True
    if given := [setting.option for setting in _OF_A_CALL if is_given(setting.name)]:
        text = f"{', '.join(given)}: only with --gateway or --context; without them, the deployment on this machine is asked"
        raise Failure(text, EXIT_INVALID)
    # One whose file is gone runs on.
    if not deployment.exists() and not deployment.absolute().with_suffix(".run").exists():
        text = f"there is no {deployment}: name the deployment with --deployment, or its gateway with --gateway or --context"
        raise Failure(text, EXIT_INVALID)
    return False


def name_at_gateway(deployment: Path) -> str:
    """Returns the name of the deployment that a gateway is asked about; empty if the command line names none."""
    return deployment.name if is_given("deployment") else ""
