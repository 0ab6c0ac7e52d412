"""The parameters of connectors that listen: the address, and TLS."""

import os
import socket
from pathlib import Path
from typing import Self

from pydantic import Field, field_validator, model_validator

from headrace.connectors._parameters import Parameters
from headrace.connectors.tls_files import server_context
from headrace.contract.addresses import open_listeners, split_address
from headrace.contract.certificates import ReloadingContext, ServerFiles
from headrace.sdk import InvalidSource

_BACKLOG = 1024


class Listening(Parameters):
    """The parameters of a connector that listens."""

    listen: str = Field(description="The address to listen on, HOST:PORT.")
    tls_certificate: Path | None = Field(None, description="Listen with TLS, with this certificate chain, PEM.")
    tls_key: Path | None = Field(None, description="The private key of the certificate, PEM.")
    tls_client_ca: Path | None = Field(None, description="Require client certificates of these authorities, PEM.")

    @field_validator("listen")
    @classmethod
    def _is_address(cls, listen: str) -> str:
        try:
            split_address(listen)
        except ValueError:
            raise ValueError("write it as HOST:PORT, with [::] as the host for all addresses of this machine") from None
        return listen

    @model_validator(mode="after")
    def _tls_adds_up(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key go together: give both, or neither")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ValueError("tls_client_ca needs tls_certificate and tls_key")
        return self

    def open(self) -> list[socket.socket]:
        """Opens the listening sockets, all with the same port.

        Raises:
            InvalidSource: The address does not belong to this machine, or is in use.
        """
        host, port = split_address(self.listen)
        try:
            return open_listeners(host, port, _BACKLOG)
        except OSError as error:
            why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
            raise InvalidSource(f"cannot listen on {self.listen}: {why}; set listen to another address") from error

    def tls(self) -> ReloadingContext | None:
        """Returns the TLS context of connections, which follows changes of the files; None without TLS.

        Raises:
            InvalidSource: A file cannot be read, or is not a certificate or key.
        """
        if self.tls_certificate is None or self.tls_key is None:
            return None
        files = ServerFiles(self.tls_certificate, self.tls_key, self.tls_client_ca)
        problems = [f"{_PARAMETERS[name]}: {text}" for name, text in files.problems()]
        if problems:
            raise InvalidSource(f"cannot use {self.tls_certificate} and {self.tls_key}: {'; '.join(problems)}")
        return server_context(files)

    def check(self) -> str:
        """Checks whether the connector can listen; returns a line with the address.

        Raises:
            InvalidSource: The address cannot be used, or a TLS file is invalid.
        """
        self.tls()
        for listener in self.open():
            listener.close()
        return f"{self.listen} is free to listen on"


_PARAMETERS = {"cert": "tls_certificate", "key": "tls_key", "client_ca": "tls_client_ca"}
