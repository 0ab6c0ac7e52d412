"""Checks the certificates of a deployment by a handshake in memory of each process with its gateway, with the files of both."""

import ssl
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.contract import clock
from headrace.contract.certificates import ClientFiles, ServerFiles
from headrace.doctor.deployment import DeploymentSite
from headrace.doctor.finding import Finding, failed, ok, warning

if TYPE_CHECKING:
    from headrace.connectors.configuration import GatewayTable
    from headrace.terminal import Connection

SOON_S = 14 * 86_400
"""How long before its end a certificate is a problem, in seconds."""
_FIX = "see docs/run/certificates.md: tls_ca is the authority of gateways, client_ca in [tls] is the authority of clients"
_ROUNDS = 10
"""After as many messages in each direction, a handshake has ended."""


def check_certificates(site: DeploymentSite) -> Finding:
    """Checks whether each process and the gateway accept each other's certificates, and whether any expires soon."""
    tls = site.config.tls
    callers = {name: one.gateway for name, one in site.deployment.connectors.items()}
    callers |= {name: one.gateway for name, one in site.deployment.applications.items()}
    callers |= {name: one.gateway for name, one in site.deployment.queries.items()}
    clients = {name: _files(one) for name, one in callers.items()}
    wrong = [f"{name}: {text}" for name, files in clients.items() if files is not None for _, text in files.problems()]
    if wrong:
        return failed("; ".join(wrong), "correct the files that its table gateway names")
    here = {name: clients[name] for name, one in callers.items() if one.address is None}
    if tls is None:
        if needless := [name for name, files in here.items() if files is not None]:
            return failed(f"{', '.join(needless)} would use TLS, and the gateway has none", "set [tls] of the gateway")
        server = None
    else:
        server = ServerFiles(tls.cert, tls.key, tls.client_ca)
        if problems := [text for _, text in server.problems()]:
            return failed("; ".join(problems), "correct the files that [tls] of the gateway names")
        # A program may set the options itself.
        unsure = [name for name, files in here.items() if files is None and name in site.deployment.queries]
        known = {name: files for name, files in here.items() if name not in unsure}
        refused = [f"{name}: {why}" for name, files in known.items() if (why := _refusal(server, files, site)) is not None]
        if refused:
            return failed("; ".join(refused), _FIX)
        if unsure:
            text = f"{', '.join(unsure)}: the gateway uses TLS, and its table gateway sets no tls_ca"
            return warning(text, "set it, unless the program sets the option tlsCa")
    return _expiry([*_paths_of_server(server), *(path for files in clients.values() for path in _paths_of_client(files))])


def _files(table: "GatewayTable") -> ClientFiles | None:
    """Returns the files with which a process calls a gateway; None if it does without TLS."""
    if not table.tls and table.tls_ca is None and table.tls_cert is None:
        return None
    return ClientFiles(table.tls_ca, table.tls_cert, table.tls_key)


def refusal_of(site: DeploymentSite, caller: "Connection") -> str | None:
    """Returns why a caller and the gateway of a deployment would not accept each other; None if they would."""
    tls = site.config.tls
    if tls is None:
        return "it would use TLS, and the gateway has none" if caller.encrypted else None
    server = ServerFiles(tls.cert, tls.key, tls.client_ca)
    if any(server.problems()):
        return None  # The check of certificates names them.
    client = ClientFiles(caller.tls_ca, caller.tls_cert, caller.tls_key) if caller.encrypted else None
    if client is not None and (problems := [text for _, text in client.problems()]):
        return "; ".join(problems)
    return _refusal(server, client, site)


def _refusal(server: ServerFiles, client: ClientFiles | None, site: DeploymentSite) -> str | None:
    """Returns why a process and the gateway would not accept each other; None if they would."""
    from headrace.deploy.commands import reachable

    if client is None:
        return "the gateway uses TLS, and its table gateway sets neither tls nor tls_ca"
    host = reachable(site.config.listen).rpartition(":")[0].strip("[]")
    try:
        _shake_hands(server, client, host)
    except ssl.SSLCertVerificationError as error:
        return f"the certificate of the {'gateway' if error.args[-1] == host else 'process'} is refused: {error.verify_message}"
    except ssl.SSLError as error:
        return str(error.reason or error).lower().replace("_", " ")
    return None


def _shake_hands(server: ServerFiles, client: ClientFiles, host: str) -> None:
    """Shakes hands as both would.

    Raises:
        SSLError: One refuses the other. The last argument is the host if it is the client that does.
    """
    of_server, of_client = ssl.SSLContext(server.protocol), ssl.SSLContext(client.protocol)
    server.load_into(of_server)
    client.load_into(of_client)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    calling = of_client.wrap_bio(back, there, server_hostname=host)
    answering = of_server.wrap_bio(there, back, server_side=True)
    for _ in range(_ROUNDS):
        with suppress(ssl.SSLWantReadError):
            try:
                calling.do_handshake()
            except ssl.SSLError as error:
                if not isinstance(error, ssl.SSLWantReadError):
                    error.args = (*error.args, host)
                raise
        with suppress(ssl.SSLWantReadError):
            answering.do_handshake()


def _paths_of_server(files: ServerFiles | None) -> Iterator[tuple[Path, bool]]:
    """Yields the files that contain certificates, and whether these are trusted authorities."""
    if files is not None:
        yield files.cert, False
        if files.client_ca is not None:
            yield files.client_ca, True


def _paths_of_client(files: ClientFiles | None) -> Iterator[tuple[Path, bool]]:
    for path, is_authority in ((files.cert, False), (files.ca, True)) if files is not None else ():
        if path is not None:
            yield path, is_authority


def _expiry(paths: list[tuple[Path, bool]]) -> Finding:
    """Returns the finding about certificates that fit: whether one expires soon. Of authorities, the last counts."""
    from cryptography import x509

    if not paths:
        return ok("no certificates are used")
    soon = []
    for path, is_authority in dict.fromkeys(paths):
        ends = [one.not_valid_after_utc.timestamp() for one in x509.load_pem_x509_certificates(path.read_bytes())]
        end = max(ends) if is_authority else min(ends)
        if end - clock.now() < SOON_S:
            soon.append(f"{path} expires on {datetime.fromtimestamp(end, UTC):%Y-%m-%d %H:%M} UTC")
    if soon:
        return warning("; ".join(soon), "replace them: new connections use the new files, and nothing has to be restarted")
    return ok(f"{', '.join(dict.fromkeys(str(path) for path, _ in paths))} fit, and are valid for 14 days")
