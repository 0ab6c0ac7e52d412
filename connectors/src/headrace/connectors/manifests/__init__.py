"""Connectors in any language: programs that a manifest describes, found on a search path."""

import importlib
from typing import TYPE_CHECKING, Any

from headrace.connectors.manifests._search import MANIFEST, ManifestPlugin, SearchPath

if TYPE_CHECKING:
    from headrace.connectors.manifests._model import Manifest, ParameterTable
    from headrace.connectors.manifests._program import OF_THE_GATEWAY, Program

__all__ = ["MANIFEST", "OF_THE_GATEWAY", "Manifest", "ManifestPlugin", "ParameterTable", "Program", "SearchPath"]

_HOME = {"Manifest": "_model", "OF_THE_GATEWAY": "_program", "ParameterTable": "_model", "Program": "_program"}


def __getattr__(name: str) -> Any:
    """Imports the module of a name on first access: what lists connectors needs no models as long as there is no manifest."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
