"""The bundled connectors, and what connectors of others are made of. A connector is imported when it is first used."""

import importlib
from typing import TYPE_CHECKING, Any

from headrace.connectors._catalog import Catalog, catalog, connector_names, find_connector
from headrace.connectors._connector import BUNDLED, RESERVED, Connector, Implementation
from headrace.connectors._errors import CheckFailed, ConnectorUnavailable, MissingExtra
from headrace.connectors._registry import CONNECTORS

if TYPE_CHECKING:
    from headrace.connectors._dead_letters import DeadLetter, DeadLetterSource, dead_letters
    from headrace.connectors._declared import Parameter, declared
    from headrace.connectors._discarded import Discardable, discardable
    from headrace.connectors._parameters import Parameters
    from headrace.connectors._records import BadRecord
    from headrace.connectors.file import FileSink, FileSource, Format, Rotation, SinkFormat
    from headrace.connectors.stdout import StdoutSink

__all__ = [
    "BUNDLED",
    "CONNECTORS",
    "RESERVED",
    "BadRecord",
    "Catalog",
    "CheckFailed",
    "Connector",
    "ConnectorUnavailable",
    "DeadLetter",
    "DeadLetterSource",
    "Discardable",
    "FileSink",
    "FileSource",
    "Format",
    "Implementation",
    "MissingExtra",
    "Parameter",
    "Parameters",
    "Rotation",
    "SinkFormat",
    "StdoutSink",
    "catalog",
    "connector_names",
    "dead_letters",
    "declared",
    "discardable",
    "find_connector",
]

_MODULES = {
    "_dead_letters": ("DeadLetter", "DeadLetterSource", "dead_letters"),
    "_declared": ("Parameter", "declared"),
    "_discarded": ("Discardable", "discardable"),
    "_parameters": ("Parameters",),
    "_records": ("BadRecord",),
    "file": ("FileSink", "FileSource", "Format", "Rotation", "SinkFormat"),
    "stdout": ("StdoutSink",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Imports the module of a name on first access, so that listing the connectors loads none of them."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
