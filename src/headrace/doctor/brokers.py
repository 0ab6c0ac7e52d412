"""Checks of what connectors need: client libraries, the systems that they connect to, and plugins that can be used."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.doctor.finding import Finding, Level, Site, failed, ok, skipped, warning
from headrace.doctor.versions import requirements
from headrace.terminal import EXIT_FAILED, EXIT_INVALID

_TIMEOUT_S = 1.0
_HOST = "127.0.0.1"


def broker(extra: str, port: int) -> Callable[[Site], Finding]:
    """Returns the check of a broker: its client library, and whether a server listens on the default port of this machine.

    Args:
        extra: The extra of headrace-connectors that installs the client.
        port: The broker's default port.
    """

    def check(site: Site) -> Finding:
        needs = list(requirements("headrace-connectors", extra))
        unmet = [need for need in needs if not need.is_met]
        fix = f"pip install 'headrace-connectors[{extra}]'"
        if any(need.installed for need in unmet):
            found = ", ".join(f"{need.name} {need.installed}, but {need.wanted} is required" for need in unmet)
            return failed(found, fix)
        if unmet:
            return skipped(f"the client library is not installed ({', '.join(need.name for need in unmet)})", fix)
        client = ", ".join(f"{need.name} {need.installed}" for need in needs)
        if _listens(port):
            return ok(f"{client}; a server listens on {_HOST}:{port}")
        return ok(f"{client}; no server on {_HOST}:{port}")

    return check


def _listens(port: int) -> bool:
    try:
        socket.create_connection((_HOST, port), _TIMEOUT_S).close()
    except OSError:
        return False
    return True


def check_connectors(site: Site) -> Finding:
    """Checks whether configured connectors can connect, as `headrace connector check` does."""
    if not site.connectors:
        return skipped("no configuration file was given", "to check connectors: headrace doctor --config FILE")
    findings = [_connector(target) for given in site.connectors for target in _targets(given)]
    worst = max(findings, key=lambda finding: (finding.level is Level.FAILED, finding.exit_code))
    found = "; ".join(finding.text for finding in findings)
    return ok(found) if worst.level is Level.OK else failed(found, worst.fix, worst.exit_code)


def _targets(option: str) -> list[str]:
    """Returns the file itself, or `FILE:NAME` for each connector of a deployment."""
    from headrace.configuration import ConfigurationError, ConfigurationFile

    try:
        names = ConfigurationFile(Path(option)).names(("connectors",))
    except ConfigurationError:
        return [option]  # It may be FILE:NAME; loading it reports any problem.
    return [f"{option}:{name}" for name in names] or [option]


def _connector(target: str) -> Finding:
    from headrace.configuration import ConfigurationError
    from headrace.connectors import ConnectorUnavailable, MissingExtra
    from headrace.connectors.configuration import load_connector
    from headrace.sdk import HeadraceError

    try:
        configured = load_connector(target)
        look = configured.implementation.check
        there = look(configured.parameters) if look is not None else None
    except ConfigurationError as error:
        return failed("; ".join(str(error).splitlines()), "correct the file", EXIT_INVALID)
    except MissingExtra as error:
        return failed(f"{target}: {error}", "install the client library")
    except ConnectorUnavailable as error:
        return failed(f"{target}: {error}", "to list the connectors of this machine: headrace connector list")
    except HeadraceError as error:
        return failed(f"{target}: {error}", f"after a change, check again: headrace connector check -c {target}", EXIT_FAILED)
    return ok(f"{target}: {configured.connector.name}{f', {there}' if there else ''}")


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
