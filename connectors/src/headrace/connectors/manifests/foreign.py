"""A connector that a manifest describes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.configuration import ConfigurationFile
from headrace.connectors._connector import Connector, Implementation
from headrace.connectors._parameters import Parameters
from headrace.connectors.manifests._model import Manifest, inconsistencies
from headrace.connectors.manifests._program import Program
from headrace.connectors.manifests.checking import checked
from headrace.connectors.manifests.parameters import faults, parameters_class
from headrace.contract.names import is_name

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignConnector(Connector):
    """A connector that is a program of its own.

    Attributes:
        manifest: What its manifest says.
        path: The manifest, an absolute path.
    """

    manifest: Manifest
    path: Path

    @property
    def origin(self) -> str:
        """Where it comes from: its manifest."""
        return str(self.path)

    @property
    def program(self) -> dict[str, str | list[str]]:
        """What the manifest says about the program: version, language, command, check and capabilities."""
        shown = self.manifest.model_dump(include={"version", "language", "command", "check", "capabilities"}, exclude_none=True)
        return dict(shown)

    def load(self) -> Implementation[Any]:
        """Returns how to build what is executed. Does not look for the program yet."""
        return Implementation(parameters_class(self.manifest), self._program, self._check)

    def require_usable(self) -> None:
        """Looks for the programs of the manifest.

        Raises:
            ConnectorUnavailable: One is missing, or cannot be executed.
        """
        for words in (self.manifest.command, self.manifest.check):
            if words is not None:
                Program(self.name, self.path, tuple(words), "{}", {}, self.name).executable()

    def _program(self, parameters: Parameters) -> Program:
        return Program.of(self.name, self.path, tuple(self.manifest.command), parameters, self.manifest.kind)

    def _check(self, parameters: Parameters) -> str:
        self._program(parameters).executable()
        if self.manifest.check is None:
            return "it declares no check command, so its system was not contacted"
        return checked(Program.of(self.name, self.path, tuple(self.manifest.check), parameters, self.manifest.kind))


def foreign_connector(path: Path, name: str) -> ForeignConnector:
    """Reads a manifest.

    Args:
        path: The manifest, an absolute path.
        name: The name of its folder.

    Raises:
        ConfigurationError: It is invalid; the error lists every problem with its line.
    """
    # A manifest is the same for every user, so texts with ${NAME} are left as they are.
    reading = ConfigurationFile(path, environ=None)
    table = reading.table()
    version = table.get("manifest_version")
    if isinstance(version, int) and version != _VERSION:
        reading.report(("manifest_version",), f"must be {_VERSION}; a newer version needs a newer Headrace")
        reading.check()
    manifest = reading.take(Manifest, table)
    if manifest is not None:
        if manifest.name != name:
            reading.report(("name",), f"must be {name}, the name of its folder; rename one of them")
        elif not is_name(name):
            reading.report(("name",), "may contain letters, digits and ._- only")
        for key, told in (*inconsistencies(manifest), *faults(manifest)):
            reading.report(key, told)
    reading.check()
    assert manifest is not None
    return ForeignConnector(
        manifest.name,
        manifest.kind,
        replayable=manifest.replayable,
        mode=manifest.mode,
        summary=manifest.summary,
        module="",
        loses=manifest.loses,
        distribution="",
        manifest=manifest,
        path=path,
    )
