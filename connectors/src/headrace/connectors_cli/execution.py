"""Replaces this process by the program of a connector."""

import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from headrace.contract.token_files import descriptor_of
from headrace.logs.output import FORMAT_VARIABLE, VERBOSE_VARIABLE, is_verbose
from headrace.terminal import EXIT_ENVIRONMENT, Connection, Failure

if TYPE_CHECKING:
    from headrace.connectors.manifests import Program

BEFORE: list[Callable[[], None]] = []
"""What to do before this process is replaced: what its threads have done until then ends with it."""


def execute(program: "Program", connection: Connection, instance: str | None, verbose: bool, log_format: str) -> NoReturn:
    """Replaces this process by a program: the program gets the signals, and the command exits with its exit code.

    Raises:
        Failure: It cannot be executed.
    """
    from headrace.sdk import HeadraceError

    try:
        executable = program.executable()
        environ = {**program.environ(), **_reaching(connection), "HEADRACE_INSTANCE": instance or program.instance}
        environ[FORMAT_VARIABLE] = log_format
        # As 1 or 0, which is all that programs in other languages must know.
        environ[VERBOSE_VARIABLE] = "1" if verbose or is_verbose() else "0"
        for prepare in BEFORE:
            prepare()
        sys.stdout.flush()
        sys.stderr.flush()
        # Python ignores these, and a program inherits what is ignored.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execve(executable, (executable, *program.words[1:]), environ)
    except HeadraceError as error:
        raise Failure(str(error), error.exit_code) from None
    except (OSError, ValueError) as error:
        raise Failure(str(program.not_started(error)), EXIT_ENVIRONMENT) from None


def _reaching(connection: Connection) -> dict[str, str]:
    """Returns the variables that say how to reach the gateway."""
    from headrace.connectors.manifests import OF_THE_GATEWAY

    files = (connection.tls_ca, connection.tls_cert, connection.tls_key)
    paths = [str(path.absolute()) if path is not None else None for path in files]
    file = connection.token_file
    # A descriptor is read once, and here; a file is read again by whoever knows the variable.
    again = str(file.path) if file is not None and descriptor_of(file.path) is None else None
    values = (connection.gateway, connection.secret, again, "1" if connection.encrypted else None, *paths)
    return {name: value for name, value in zip(OF_THE_GATEWAY, values, strict=True) if value}
