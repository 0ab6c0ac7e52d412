"""Server credentials from PEM files. The files are checked first, since gRPC's errors do not name the invalid one."""

import logging
import time
from collections.abc import Callable, Iterator
from typing import cast

import grpc

from headrace.contract.certificates import ReloadingContext, ServerFiles, Stamp
from headrace.gateway.config import Tls

_GRACE_S = 0.25

_log = logging.getLogger("headrace.gateway")


def check_files(tls: Tls) -> Iterator[tuple[str, str]]:
    """Yields the key and the problem of each file that cannot be used."""
    yield from _files(tls).problems()


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


def server_context(tls: Tls) -> ReloadingContext:
    """Creates the context of the HTTP server; clients must present a certificate if `client_ca` is set. Call `check_files` first.

    Each connection uses the current contents of the files.
    """
    # `_RotatedFiles` logs the changes.
    return ReloadingContext(_files(tls), lambda problems: None)


def _files(tls: Tls) -> ServerFiles:
    return ServerFiles(tls.cert, tls.key, tls.client_ca)


class _RotatedFiles:
    """Detects changes of the files. gRPC calls it before each handshake, on its own threads, one at a time.

    What it returns replaces what handshakes use, and gRPC frees the previous one, even if a handshake on another thread has
    found it and not taken hold of it yet: the process then crashes. So it returns something only if it is new, and only after a
    pause in which no other handshake begins and those have moved on.
    """

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._last_stamps = self._stamps()

    def changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Returns the contents of the files if they are new and can be used, and None otherwise."""
        stamps = self._stamps()
        if stamps == self._last_stamps:
            return None
        # Files are replaced one by one: if they do not match yet, the next connection reads them again.
        problems = list(check_files(self._tls))
        if problems:
            _log.error(
                "new TLS files cannot be used; the old ones stay in force", extra={"problems": [text for _, text in problems]}
            )
            return None
        self._last_stamps, new = stamps, _certificates(self._tls)
        _log.info("TLS files replaced")
        time.sleep(_GRACE_S)
        return new

    def _stamps(self) -> list[Stamp]:
        return _files(self._tls).stamps()


def _certificates(tls: Tls) -> grpc.ServerCertificateConfiguration:
    pair = (tls.key.read_bytes(), tls.cert.read_bytes())
    client_ca = tls.client_ca.read_bytes() if tls.client_ca is not None else None
    return grpc.ssl_server_certificate_configuration([pair], root_certificates=client_ca)
