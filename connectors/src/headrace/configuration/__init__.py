"""Configuration files: TOML, checked against what connectors declare, every problem with its line."""

from headrace.configuration._connector import Configured, ConnectorTable, GatewayTable, load_connector, take_connector
from headrace.configuration._errors import ConfigurationError, Problem
from headrace.configuration._file import ConfigurationFile
from headrace.configuration._schema import connector_schema
from headrace.configuration._validate import nearest, validated

__all__ = [
    "ConfigurationError",
    "ConfigurationFile",
    "Configured",
    "ConnectorTable",
    "GatewayTable",
    "Problem",
    "connector_schema",
    "load_connector",
    "nearest",
    "take_connector",
    "validated",
]
