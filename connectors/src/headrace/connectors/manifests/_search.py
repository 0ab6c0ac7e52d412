"""Where manifests are: the folders of the search path, each with `NAME/headrace-connector.toml`."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.connectors._errors import ConnectorUnavailable
from headrace.connectors.manifests.trust import untrusted

if TYPE_CHECKING:
    from headrace.connectors._connector import Connector

MANIFEST = "headrace-connector.toml"
VARIABLE = "HEADRACE_CONNECTORS"
MAX_BYTES = 256 << 10
"""The size of the largest manifest that is read."""


@dataclass(frozen=True, slots=True)
class ManifestPlugin:
    """A folder with a manifest, which is not read yet.

    Attributes:
        folder: The folder of the search path.
        name: The name of the folder in it, which is the connector's.
    """

    folder: Path
    name: str

    @property
    def path(self) -> Path:
        """The manifest."""
        return self.folder / self.name / MANIFEST

    @property
    def origin(self) -> str:
        """Where the connector comes from: its manifest."""
        return str(self.path)

    def connector(self) -> "Connector":
        """Reads the manifest.

        Raises:
            ConnectorUnavailable: Others can change it, it cannot be read, or it is invalid.
        """
        from headrace.configuration import ConfigurationError
        from headrace.connectors.manifests.foreign import foreign_connector

        reason = untrusted(self.folder, 0) or untrusted(self.path, 1) or self._unreadable()
        if reason is not None:
            raise ConnectorUnavailable(self.name, self.origin, reason)
        try:
            # Links were followed for the checks, and must not lead elsewhere now.
            return foreign_connector(self.path.resolve(), self.name)
        except ConfigurationError as error:
            raise ConnectorUnavailable(self.name, self.origin, f"its manifest is invalid\n{error}") from None

    def _unreadable(self) -> str | None:
        if not self.path.is_file():
            return f"{self.path} is not a file"
        size = self.path.stat().st_size
        return f"its manifest has {size:,} bytes, and {MAX_BYTES:,} are allowed" if size > MAX_BYTES else None


@dataclass(frozen=True, slots=True)
class SearchPath:
    """The search path.

    Attributes:
        plugins: Every folder in it that has a manifest. The first of a name counts.
        notes: Errors in the path itself, a line for each.
    """

    plugins: tuple[ManifestPlugin, ...]
    notes: tuple[str, ...]

    @staticmethod
    def read(environ: Mapping[str, str] = os.environ) -> "SearchPath":
        """Reads the folders, but no manifest: the folders of HEADRACE_CONNECTORS, of the user, and of this Python."""
        plugins: list[ManifestPlugin] = []
        notes = []
        given = [Path(text) for text in environ.get(VARIABLE, "").split(":") if text]
        for folder in dict.fromkeys((*given, *_standard(environ))):
            if not folder.is_absolute():
                # A process of a deployment has another working directory than the command that starts it.
                notes.append(f"{VARIABLE}: {folder} is not used: write an absolute path, such as {folder.absolute()}")
                continue
            try:
                names = sorted(name for name in os.listdir(folder) if os.path.lexists(folder / name / MANIFEST))
            except OSError as error:
                if folder in given or not isinstance(error, FileNotFoundError):
                    notes.append(f"the connectors in {folder} cannot be listed: {error.strerror}")
                continue
            plugins += [ManifestPlugin(folder, name) for name in names]
        return SearchPath(tuple(plugins), tuple(notes))


def _standard(environ: Mapping[str, str]) -> list[Path]:
    """Returns the folders that are always searched."""
    # By the XDG specification, a relative path is to be ignored.
    given = Path(environ.get("XDG_DATA_HOME", ""))
    home = Path(os.path.expanduser("~"))
    data = given if given.is_absolute() else home / ".local" / "share"
    return [folder / "headrace" / "connectors" for folder in (data, Path(sys.prefix) / "share") if folder.is_absolute()]
