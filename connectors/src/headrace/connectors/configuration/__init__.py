"""The configuration of connectors: configuration files, tables of deployments, and a JSON Schema of both for editors."""

from headrace.connectors.configuration._schema import connector_schema
from headrace.connectors.configuration._table import Configured, ConnectorTable, GatewayTable, load_connector, take_connector

__all__ = ["Configured", "ConnectorTable", "GatewayTable", "connector_schema", "load_connector", "take_connector"]
