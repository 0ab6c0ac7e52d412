"""All connectors of this machine: the bundled ones, and plugins. A plugin that cannot be used affects no other connector."""

from dataclasses import dataclass
from typing import Protocol

from headrace.connectors._connector import Connector
from headrace.connectors._errors import ConnectorUnavailable
from headrace.connectors._registry import CONNECTORS
from headrace.connectors.manifests import SearchPath
from headrace.connectors.plugins import damaged_distributions, python_plugins
from headrace.contract.names import is_name


@dataclass(frozen=True, slots=True)
class Catalog:
    """The connectors on this machine.

    Attributes:
        connectors: The connectors that can be declared: the bundled ones, then plugins by name. The client library of one of
            them may be missing.
        unavailable: The plugins that cannot be used, each with the reason.
        notes: Errors in the search path of manifests, and in the entry points of distributions, a line for each
            problem.
    """

    connectors: tuple[Connector, ...]
    unavailable: tuple[ConnectorUnavailable, ...]
    notes: tuple[str, ...] = ()


class Plugin(Protocol):
    """A connector that is not bundled, and that is not read or imported yet."""

    @property
    def name(self) -> str:
        """The name of the connector."""

    @property
    def origin(self) -> str:
        """Where it comes from."""

    def connector(self) -> Connector:
        """Reads or imports it.

        Raises:
            ConnectorUnavailable: It cannot be used.
        """


def catalog() -> Catalog:
    """Returns all connectors. Reads the manifests, and imports the declarations of plugins, but no implementation."""
    connectors = list(CONNECTORS)
    holders = {known.name: f"a {known.origin} connector" for known in CONNECTORS}
    unavailable: list[ConnectorUnavailable] = []
    path = SearchPath.read()
    for plugin in _plugins(path):
        if plugin.name in holders:
            reason = f"its name is taken by {holders[plugin.name]}; one of them must be renamed or removed"
            unavailable.append(ConnectorUnavailable(plugin.name, plugin.origin, reason))
            continue
        holders[plugin.name] = f"a connector of {plugin.origin}"
        try:
            connectors.append(plugin.connector())
        except ConnectorUnavailable as error:
            unavailable.append(error)
    damaged = [
        f"the entry points of {name} cannot be read, so its connectors are not known: pip install --force-reinstall {name}"
        for name in damaged_distributions()
    ]
    return Catalog(tuple(connectors), tuple(unavailable), (*path.notes, *damaged))


def find_connector(name: str) -> Connector | None:
    """Returns the connector with a name, None if there is none. Imports no other plugin than this one.

    Raises:
        ConnectorUnavailable: There is one, and it cannot be used.
    """
    bundled = next((known for known in CONNECTORS if known.name == name), None)
    if bundled is not None:
        return bundled
    plugin = next((plugin for plugin in _plugins(SearchPath.read()) if plugin.name == name), None)
    return None if plugin is None else plugin.connector()


def connector_names() -> list[str]:
    """Returns the names of all connectors, also of unusable ones, without importing anything."""
    names = [*(known.name for known in CONNECTORS), *(plugin.name for plugin in _plugins(SearchPath.read()))]
    return [name for name in dict.fromkeys(names) if is_name(name)]


def _plugins(path: SearchPath) -> list[Plugin]:
    """Returns all plugins; the first of a name counts."""
    return [*python_plugins(), *path.plugins]
