"""The configuration of connectors: configuration files, tables of deployments, and a JSON Schema of both for editors."""

from headrace.connectors.configuration._schema import connector_schema
from headrace.connectors.configuration._table import (
    ENV_FILE,
    Configured,
    ConnectorTable,
    GatewayTable,
    check_token_file,
    load_connector,
    take_connector,
)

__all__ = [
    "ENV_FILE",
    "Configured",
    "ConnectorTable",
    "GatewayTable",
    "check_token_file",
    "connector_schema",
    "load_connector",
    "take_connector",
]
