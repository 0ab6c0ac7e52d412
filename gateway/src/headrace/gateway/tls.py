"""Server credentials from PEM files. The files are checked first, since gRPC's errors do not name the invalid one."""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator
from typing import cast

import grpc
import structlog

from headrace.gateway.config import Tls
from headrace.gateway.stamps import stamp_of

_INTERVAL_S = 1.0
_GRACE_S = 0.25

_log = structlog.get_logger("headrace.gateway")


def check_files(tls: Tls) -> Iterator[tuple[str, str]]:
    """Yields the key and the problem of each file that cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.cert, tls.key, password=_no_password)
    except ValueError as error:
        yield "key", f"{tls.key}: {error}"
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            yield "key", f"{tls.key} is not the key of the certificate {tls.cert}"
        else:
            yield "cert", f"{tls.cert} and {tls.key} are not a PEM certificate and its key"
    except OSError as error:
        yield "key", f"cannot be read: {error.strerror}"
    if tls.client_ca is not None:
        try:
            context.load_verify_locations(tls.client_ca)
        except ssl.SSLError:
            yield "client_ca", f"{tls.client_ca} contains no PEM certificate"
        except OSError as error:
            yield "client_ca", f"cannot be read: {error.strerror}"


def _no_password() -> str:
    raise ValueError("the key is encrypted; give one without a passphrase, in a file that only the gateway can read")


def server_credentials(tls: Tls) -> grpc.ServerCredentials:
    """Creates the server's credentials; clients must authenticate if `client_ca` is set. Call `check_files` first.

    Each connection uses the current contents of the files, so certificates can be rotated without a restart.
    """
    files = _RotatedFiles(tls)
    # gRPC takes None for "no change", which its type stubs do not know.
    changed = cast("Callable[[], grpc.ServerCertificateConfiguration]", files.changed)
    return grpc.dynamic_ssl_server_credentials(
        _certificates(tls), changed, require_client_authentication=tls.client_ca is not None
    )


def server_context(tls: Tls) -> ssl.SSLContext:
    """Creates the context of the HTTP server; clients must present a certificate if `client_ca` is set."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.cert, tls.key, password=_no_password)
    if tls.client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(tls.client_ca)
    return context


async def follow_files(tls: Tls, context: ssl.SSLContext) -> None:
    """Loads a new certificate and its key into a context, for new connections. Runs until cancelled.

    A new `client_ca` is not loaded: a context cannot forget the authority that it trusts.
    """
    seen = [stamp_of(tls.cert), stamp_of(tls.key)]
    while True:
        await asyncio.sleep(_INTERVAL_S)
        stamps = [stamp_of(tls.cert), stamp_of(tls.key)]
        # Files are replaced one by one: if they do not match yet, they are read again. `_RotatedFiles` logs the problems.
        if stamps != seen and not list(check_files(tls)):
            seen = stamps
            context.load_cert_chain(tls.cert, tls.key, password=_no_password)


class _RotatedFiles:
    """Detects changes of the files. gRPC calls it before each handshake, on its own threads, one at a time.

    What it returns replaces what handshakes use, and gRPC frees the previous one, also if a handshake on another thread has
    found it and not taken hold of it yet: the process then crashes. So it returns something only if it is new, and only after a
    pause in which no other handshake begins and those have moved on.
    """

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._seen = self._stamps()

    def changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Returns the contents of the files if they are new and can be used, and None otherwise."""
        stamps = self._stamps()
        if stamps == self._seen:
            return None
        # Files are replaced one by one: if they do not match yet, the next connection reads them again.
        problems = list(check_files(self._tls))
        if problems:
            _log.error("new TLS files cannot be used; the old ones stay in force", problems=[text for _, text in problems])
            return None
        self._seen, new = stamps, _certificates(self._tls)
        _log.info("TLS files replaced")
        time.sleep(_GRACE_S)
        return new

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [stamp_of(path) for path in (self._tls.cert, self._tls.key, self._tls.client_ca) if path is not None]


def _certificates(tls: Tls) -> grpc.ServerCertificateConfiguration:
    pair = (tls.key.read_bytes(), tls.cert.read_bytes())
    client_ca = tls.client_ca.read_bytes() if tls.client_ca is not None else None
    return grpc.ssl_server_certificate_configuration([pair], root_certificates=client_ca)
