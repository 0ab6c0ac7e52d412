"""What a token may do at the gateway of a deployment, by the gateway's configuration: nobody asks for what would be refused."""

import os
from typing import Any

from headrace.configuration import ConfigurationError, read_env_file
from headrace.connectors.configuration import GatewayTable
from headrace.contract.names import covers
from headrace.contract.token_files import TokenFileError, read_token
from headrace.deploy.configuration import Deployment, gateway_config
from headrace.deploy.environment import token_of


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
