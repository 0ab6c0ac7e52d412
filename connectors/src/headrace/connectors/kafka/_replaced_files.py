"""Notices TLS files that were replaced. librdkafka reads them only when a client is created."""

import logging
import ssl

from headrace.connectors.kafka._connection import KafkaConnection
from headrace.contract.certificates import Stamp, stamp_of

log = logging.getLogger(__name__)


class TlsFiles:
    """The TLS files of a client, as they were when it was created."""

    def __init__(self, connection: KafkaConnection) -> None:
        """Remembers the files as they are now."""
        self._connection = connection
        self._seen = self._stamps()

    def are_replaced(self) -> bool:
        """Returns whether the files are others now, and can be used; they are usually replaced one by one."""
        stamps = self._stamps()
        if stamps == self._seen or not self._can_be_used():
            return False
        self._seen = stamps
        log.info("TLS files replaced: connecting to %s anew", self._connection.servers)
        return True

    def _stamps(self) -> list[Stamp]:
        connection = self._connection
        paths = (connection.tls_ca, connection.tls_certificate, connection.tls_key)
        return [stamp_of(path) for path in paths if path is not None]

    def _can_be_used(self) -> bool:
        connection = self._connection
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        password = connection.tls_key_password.get_secret_value() if connection.tls_key_password else ""
        try:
            if connection.tls_ca is not None:
                context.load_verify_locations(connection.tls_ca)
            if connection.tls_certificate is not None:
                context.load_cert_chain(connection.tls_certificate, connection.tls_key, password)
        except (OSError, ValueError):
            return False
        return True
