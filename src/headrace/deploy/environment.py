"""The environment of each process of a deployment: it contains the secrets of this process, and of no other one.

With its token, it is known what a process may do at the gateway: nobody asks for what would be refused.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.configuration import ConfigurationError, read_env_file
from headrace.connectors.configuration import GatewayTable
from headrace.contract.names import covers
from headrace.contract.settings import OF_CONNECTION, TLS_CA, TLS_CERT, TLS_KEY
from headrace.contract.token_files import TokenFileError, descriptor_of, keep_descriptor, read_token
from headrace.deploy.configuration import Deployment, gateway_config
from headrace.logs.output import FORMAT_VARIABLE

_TLS = (TLS_CA, TLS_CERT, TLS_KEY)
TOKEN, TOKEN_FILE = OF_CONNECTION["token"].variable, OF_CONNECTION["token_file"].variable
_OF_THE_SYSTEM = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|PWD|HOSTNAME|TERM|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|XDG_\w+|LD_\w+|\w*_proxy|\w*_PROXY"
    r"|JAVA_\w+|JDK_\w+|SPARK_\w+|PYSPARK_\w+|HADOOP_\w+|PYTHON\w+|VIRTUAL_ENV|SSL_CERT_\w+|HEADRACE_(?!TOKEN|SECRET)\w+"
)
"""Variables that programs need whoever names them, and that contain no secrets."""


def environment(
    deployment: Deployment, process: str, gateway: GatewayTable | None = None, environ: Mapping[str, str] = os.environ
) -> Mapping[str, str]:
    """Returns the environment of a process.

    Variables that the deployment names, or that its file of variables contains, are left out unless this process itself reads
    them. A token is in the environment, or its file, since other users can read command lines.

    Args:
        deployment: The deployment.
        process: The name of the process.
        gateway: How it reaches its gateway; None for the gateway itself.
        environ: The environment of the supervisor.
    """
    own = deployment.read_by.get(process, frozenset())
    secret = (deployment.named | deployment.variables.keys() | {TOKEN, TOKEN_FILE}) - own
    kept = {name: value for name, value in environ.items() if name not in secret or _OF_THE_SYSTEM.fullmatch(name)}
    if process in deployment.applications or process in deployment.queries:
        kept |= {name: value for name, value in deployment.variables.items() if name in own}
    if deployment.log_format is not None:
        kept[FORMAT_VARIABLE] = deployment.log_format
    if gateway is None:
        return kept
    given = token_of(deployment, gateway, environ)
    if given.file is not None:
        kept[TOKEN_FILE] = str(given.file)
    elif given.token is not None:
        kept[TOKEN] = given.token
    # A program of the user has no options; the other processes have these files in theirs, or in the deployment's file.
    files = {one.variable: getattr(gateway, one.name) for one in _TLS if process in deployment.queries}
    return {**kept, **{name: str(file.absolute()) for name, file in files.items() if file is not None}}


def descriptors(gateway: GatewayTable) -> tuple[int, ...]:
    """Returns the file descriptors that a process inherits for its token.

    Raises:
        TokenFileError: The descriptor contains no token.
    """
    kept = keep_descriptor(gateway.token_file) if gateway.token_file is not None else None
    return () if kept is None else (kept,)


@dataclass(frozen=True, slots=True)
class Given:
    """The token of a process, or the file that contains it.

    Attributes:
        token: The token; None if it is in a file, or if there is none.
        file: The file; None if it is in none.
    """

    token: str | None = field(default=None, repr=False)
    file: Path | None = None


def token_of(deployment: Deployment, gateway: GatewayTable, environ: Mapping[str, str] = os.environ) -> Given:
    """Returns the token of a process: its own, or else the token of the whole deployment.

    Args:
        deployment: The deployment.
        gateway: How the process reaches its gateway.
        environ: The environment of the supervisor.
    """
    if gateway.token_file is not None:
        return Given(file=gateway.token_file)
    if gateway.token is not None:
        return Given(gateway.token.get_secret_value())
    for given in (deployment.variables, environ):
        file = given.get(TOKEN_FILE)
        if file and descriptor_of(Path(file)) is None:
            return Given(file=Path(file).absolute())
        if given.get(TOKEN):
            return Given(given[TOKEN])
    return Given()


def may_read_status(deployment: Deployment, secret: str | None) -> bool:
    """Returns whether a token may read the status; true if that cannot be known here."""
    return _allows(deployment, secret, "admin", None)


def may_supervise(deployment: Deployment, secret: str | None) -> bool:
    """Returns whether a token may register the deployment; true if that cannot be known here."""
    return _allows(deployment, secret, "supervise", deployment.path.name)


def secret_of(deployment: Deployment, gateway: GatewayTable) -> str | None:
    """Returns the token of a process; None if it has none."""
    given = token_of(deployment, gateway)
    try:
        return read_token(given.file) if given.file is not None else given.token
    except TokenFileError:
        return None


def _allows(deployment: Deployment, secret: str | None, right: str, name: str | None) -> bool:
    from headrace.gateway import token_digest

    try:
        variables = {} if deployment.env_file is None else read_env_file(deployment.env_file)
        tokens = gateway_config(deployment.gateway, {**os.environ, **variables}).tokens
    except ConfigurationError:
        return True
    if not tokens:
        return True
    digest = token_digest(secret or "")
    granted: Any = next((getattr(token, right) for token in tokens if digest in token.sha256), False)
    return bool(granted) if name is None else any(covers(pattern, name) for pattern in granted or ())
