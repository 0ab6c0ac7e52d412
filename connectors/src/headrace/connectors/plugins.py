"""Connectors in Python that other distributions bring: entry points of the group `headrace.connectors`.

An entry point has the name of its connector, so that only the plugin that is asked for is imported.
"""

from dataclasses import dataclass, replace
from importlib.metadata import Distribution, EntryPoint, distributions

from headrace.connectors._connector import Connector, one_line
from headrace.connectors._errors import ConnectorUnavailable

GROUP = "headrace.connectors"
"""The group of the entry points; each names a `Connector`."""


@dataclass(frozen=True, slots=True)
class PythonPlugin:
    """A connector that an entry point names.

    Attributes:
        entry: The entry point.
        distribution: The name of its distribution.
    """

    entry: EntryPoint
    distribution: str

    @property
    def name(self) -> str:
        """The name of the connector."""
        return self.entry.name

    @property
    def origin(self) -> str:
        """Where it comes from."""
        return self.distribution

    def connector(self) -> Connector:
        """Imports its declaration, but not its implementation.

        Raises:
            ConnectorUnavailable: It cannot be imported, or does not declare what it should.
        """
        try:
            declared = self.entry.load()
        except (Exception, SystemExit) as error:
            raise self._unavailable(f"{self.entry.value} cannot be imported: {one_line(error)}") from error
        if not isinstance(declared, Connector):
            raise self._unavailable(f"{self.entry.value} is not a headrace.connectors.Connector")
        if declared.name != self.name:
            raise self._unavailable(f"{self.entry.value} is named {declared.name}; give it the name of its entry point")
        return replace(declared, distribution=self.distribution)

    def _unavailable(self, reason: str) -> ConnectorUnavailable:
        return ConnectorUnavailable(self.name, self.origin, reason)


def python_plugins() -> list[PythonPlugin]:
    """Returns all plugins, by name and distribution, without importing them."""
    found: dict[str, list[PythonPlugin]] = {}
    for distribution in distributions():
        if entries := _entries(distribution):
            # The first distribution of a name on the path is the one that is imported.
            name = _name(distribution)
            found.setdefault(name, [PythonPlugin(entry, name) for entry in entries])
    plugins = [plugin for of_one in found.values() for plugin in of_one]
    return sorted(plugins, key=lambda plugin: (plugin.name, plugin.distribution))


def damaged_distributions() -> list[str]:
    """Returns the names of the distributions whose entry points cannot be read, so that their connectors are not known."""
    return sorted({_name(distribution) for distribution in distributions() if _entries(distribution) is None})


def _entries(distribution: Distribution) -> list[EntryPoint] | None:
    """Returns the connectors of a distribution; None if that cannot be read."""
    try:
        return list(distribution.entry_points.select(group=GROUP))
    except Exception:  # Damaged entry points of one distribution, which pip reports, must not hide the others.
        return None


def _name(distribution: Distribution) -> str:
    try:
        return distribution.metadata["Name"] or "a distribution without a name"
    except Exception:
        return "a distribution without metadata"
