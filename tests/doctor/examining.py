"""Single checks of `headrace doctor`."""

from importlib import metadata
from typing import Any

from headrace.doctor import CHECKS, Finding, Site, examine
from headrace.terminal import Connection

VERSION = metadata.version("headrace")
_DEFAULT = Connection("127.0.0.1:7433")


def check(name: str, connection: Connection = _DEFAULT, **site: Any) -> Finding:
    """What one check finds."""
    (finding,) = findings(name, connection, **site)
    return finding


def findings(name: str, connection: Connection = _DEFAULT, **site: Any) -> list[Finding]:
    """All that one check finds."""
    wanted = [check for check in CHECKS if check.name == name]
    return [finding for _, finding in examine(Site(connection, **site), wanted)]
