"""The parameters of connectors that listen: the address, and TLS."""

import os
import socket
import ssl
from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from headrace.connectors._parameters import Parameters
from headrace.sdk import InvalidSource


class Listening(Parameters):
    """The parameters of a connector that listens."""

    listen: str = Field(description="The address to listen on, HOST:PORT.")
    tls_certificate: Path | None = Field(None, description="Listen with TLS, with this certificate chain, PEM.")
    tls_key: Path | None = Field(None, description="The private key of the certificate, PEM.")
    tls_client_ca: Path | None = Field(None, description="Require client certificates signed by one of these authorities, PEM.")

    @field_validator("listen")
    @classmethod
    def _is_address(cls, listen: str) -> str:
        host, _, port = listen.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ValueError("write it as HOST:PORT, with 0.0.0.0 as the host for all addresses of this machine")
        return listen

    @model_validator(mode="after")
    def _tls_adds_up(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key go together: give both, or neither")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ValueError("tls_client_ca needs tls_certificate and tls_key")
        return self

    @property
    def host(self) -> str:
        """The address to listen on."""
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port; 0 for any free one."""
        return int(self.listen.rpartition(":")[2])

    def open(self) -> socket.socket:
        """Opens the listening socket.

        Raises:
            InvalidSource: The address does not belong to this machine, or is in use.
        """
        try:
            family = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0][0]
            listener = socket.create_server((self.host, self.port), family=family, backlog=1024)
        except OSError as error:
            why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
            raise InvalidSource(f"cannot listen on {self.listen}: {why}; set listen to another address") from error
        listener.setblocking(False)
        return listener

    def tls(self) -> ssl.SSLContext | None:
        """Returns the TLS context of connections; None without TLS.

        Raises:
            InvalidSource: A file cannot be read, or is not a certificate or key.
        """
        if self.tls_certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.tls_certificate, self.tls_key)
            if self.tls_client_ca is not None:
                context.load_verify_locations(self.tls_client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except OSError as error:
            files = ", ".join(str(file) for file in (self.tls_certificate, self.tls_key, self.tls_client_ca) if file)
            raise InvalidSource(f"cannot use {files}: {error}") from error
        return context

    def check(self) -> str:
        """Checks whether the connector can listen; returns a line with the address.

        Raises:
            InvalidSource: The address cannot be used, or a TLS file is invalid.
        """
        self.tls()
        self.open().close()
        return f"{self.listen} is free to listen on"
