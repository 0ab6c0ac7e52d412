"""The certificate files of a connector, checked before gRPC takes them: it reports none of their faults."""

import ssl
from pathlib import Path

import grpc

from headrace.sdk._errors import InvalidSource
from headrace.sdk._settings import Tls, TlsNames


class InvalidCertificates(InvalidSource):
    """A certificate file cannot be used, or one of a pair is missing; if somebody is replacing it, it may soon be valid."""


def credentials(tls: Tls, names: TlsNames) -> grpc.ChannelCredentials:
    """Reads the certificate files.

    Args:
        tls: The files.
        names: The user's names for them.

    Raises:
        InvalidCertificates: A file cannot be read, is not what it should be, or one of a pair is missing.
    """
    if tls.certificate is not None and tls.key is None:
        raise InvalidCertificates(f"{names.certificate} is {tls.certificate}, but {names.key} is not set: set both, or neither")
    if tls.key is not None and tls.certificate is None:
        raise InvalidCertificates(f"{names.key} is {tls.key}, but {names.certificate} is not set: set both, or neither")
    ca = _read(tls.ca, names.ca)
    certificate, key = _read(tls.certificate, names.certificate), _read(tls.key, names.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if tls.ca is not None:
            context.load_verify_locations(tls.ca)
    except ssl.SSLError as error:
        raise InvalidCertificates(
            f"{names.ca}: {tls.ca} has no valid certificate in PEM ({_reason(error)}): name a file with those to trust"
        ) from error
    try:
        if tls.certificate is not None:
            # Without a password, OpenSSL would ask at the terminal for the password of an encrypted key.
            context.load_cert_chain(tls.certificate, tls.key, password="")
    except ssl.SSLError as error:
        raise InvalidCertificates(
            f"{names.certificate} and {names.key}: {tls.certificate} and {tls.key} are not a certificate and its key in PEM "
            f"({_reason(error)}): name files that belong together, with a key that is not encrypted"
        ) from error
    return grpc.ssl_channel_credentials(root_certificates=ca, private_key=key, certificate_chain=certificate)


def _read(path: Path | None, name: str) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise InvalidCertificates(
            f"{name}: cannot read {path}: {error.strerror}: name a PEM file that this process may read"
        ) from error


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")
