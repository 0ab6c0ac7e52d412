"""Why a connector cannot be used.

HeadraceError
├── ConnectorUnavailable    it is there, but cannot be used on this machine
│   └── MissingExtra        its client library is not installed
└── CheckFailed             the check command of a connector has found a problem
"""

from headrace.contract.errors import HeadraceError


class ConnectorUnavailable(HeadraceError):
    """A connector is there, but cannot be used; the message names it, where it comes from, and the reason.

    Attributes:
        connector: The name of the connector.
        origin: Where it comes from: a distribution, or a manifest.
        reason: Why it cannot be used, and what to do.
    """

    exit_code = 3

    def __init__(self, name: str, origin: str, reason: str, message: str | None = None) -> None:
        """Takes the attributes, and the message if it is not made of them."""
        name = name if name.isprintable() else repr(name)
        super().__init__(message or f"connector {name} of {origin} cannot be used: {reason}")
        self.connector = name
        self.origin = origin
        self.reason = reason


class MissingExtra(ConnectorUnavailable, ImportError):
    """The client library of a connector is not installed; the message states how to install it."""

    def __init__(self, name: str, distribution: str, extra: str, module: str) -> None:
        """Takes the connector, its distribution, the extra that installs its client library, and the module that is missing."""
        reason = f"needs the module {module}: pip install '{distribution}[{extra}]'"
        super().__init__(name, distribution, reason, f"connector {name} {reason}")


class CheckFailed(HeadraceError):
    """The check command of a connector failed, or did not end in time; the message is what it said."""
