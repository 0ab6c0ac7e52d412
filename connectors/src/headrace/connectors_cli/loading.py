"""Finds and loads connectors by name or from a file; whatever is wrong ends the command with one clear line."""

import os
from typing import TYPE_CHECKING, Any

from headrace.terminal import Failure

if TYPE_CHECKING:
    from headrace.connectors import Connector, Implementation, Parameters
    from headrace.connectors._connector import AnyConnector
    from headrace.connectors.configuration import Configured
    from headrace.connectors.manifests import Program


def connector_of(name: str) -> "Connector | None":
    """Returns the connector with a name, None if there is none.

    Raises:
        Failure: There is one, and it cannot be used.
    """
    from headrace.connectors import ConnectorUnavailable, find_connector

    try:
        return find_connector(name)
    except ConnectorUnavailable as error:
        raise Failure(str(error), error.exit_code) from None


def configuration(target: str) -> "Configured":
    """Returns the connector that `FILE` or `FILE:NAME` configures.

    Raises:
        Failure: The file is invalid, or the connector cannot be used.
    """
    quiet_grpc()
    from headrace.configuration import ConfigurationError
    from headrace.connectors import ConnectorUnavailable
    from headrace.connectors.configuration import load_connector

    try:
        return load_connector(target)
    except (ConfigurationError, ConnectorUnavailable) as error:
        raise Failure(str(error), error.exit_code) from None


def implementation_of(connector: "Connector") -> "Implementation[Any]":
    """Imports a connector.

    Raises:
        Failure: It cannot be used, for instance because its client library is not installed; the message says what to do.
    """
    quiet_grpc()
    from headrace.connectors import ConnectorUnavailable

    try:
        return connector.load()
    except ConnectorUnavailable as error:
        raise Failure(str(error), error.exit_code) from None


def built(implementation: "Implementation[Any]", parameters: "Parameters") -> "AnyConnector | Program":
    """Builds a connector.

    Raises:
        Failure: Its parameters do not allow it to run.
    """
    from headrace.sdk import HeadraceError

    try:
        return implementation.build(parameters)
    except HeadraceError as error:
        raise Failure(str(error), error.exit_code) from None


def quiet_grpc() -> None:
    """Silences gRPC's own log lines, which name no cause that a user could act on; to be called before gRPC is imported."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
