"""The check of plugins: connectors that other distributions and manifests bring."""

from typing import TYPE_CHECKING

from headrace.doctor.finding import Finding, Site, ok, skipped, warning

if TYPE_CHECKING:
    from headrace.connectors import ConnectorUnavailable


def check_plugins(site: Site) -> Finding:
    """Checks whether each plugin can be used: it can be read, and what it imports or executes is there.

    One that cannot be used affects no other connector, so it is a warning.
    """
    from headrace.connectors import BUNDLED, ConnectorUnavailable, catalog

    known = catalog()
    plugins = [connector for connector in known.connectors if connector.distribution != BUNDLED]
    unavailable = list(known.unavailable)
    for connector in plugins:
        try:
            connector.require_usable()
        except ConnectorUnavailable as error:
            unavailable.append(error)
    if not unavailable and not known.notes:
        return ok(", ".join(connector.name for connector in plugins)) if plugins else skipped("there are none")
    found = [f"{error.connector} of {error.origin}: {'; '.join(error.reason.splitlines())}" for error in unavailable]
    # A note says itself what to do.
    advice = ["correct what the notes of headrace connector list name"] if known.notes else []
    return warning("; ".join((*found, *known.notes)), "; ".join((*map(_fix, unavailable), *advice)))


def _fix(error: "ConnectorUnavailable") -> str:
    """Returns what to do about a plugin that cannot be used."""
    from headrace.connectors import MissingExtra

    name, origin = error.connector, error.origin
    if isinstance(error, MissingExtra):
        return f"{name}: install its client library"
    if origin.startswith("/"):
        return f"{name}: correct {origin}, or what it names, or remove its folder"
    return f"{name}: pip install --upgrade {origin}, or pip uninstall {origin}"
