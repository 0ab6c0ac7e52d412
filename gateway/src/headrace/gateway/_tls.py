"""Server credentials from PEM files, checked so that a wrong file is named before gRPC says only that it failed."""

import ssl
from collections.abc import Iterator

import grpc

from headrace.gateway._config import Tls


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
            yield "client_ca", f"{tls.client_ca} holds no PEM certificate"
        except OSError as error:
            yield "client_ca", f"cannot be read: {error.strerror}"


def _no_password() -> str:
    raise ValueError("the key is encrypted; give one without a passphrase, in a file that only the gateway can read")


def server_credentials(tls: Tls) -> grpc.ServerCredentials:
    """The credentials to listen with; mutual where `client_ca` is given. The files were checked by `check_files`."""
    pair = (tls.key.read_bytes(), tls.cert.read_bytes())
    client_ca = tls.client_ca.read_bytes() if tls.client_ca is not None else None
    return grpc.ssl_server_credentials([pair], root_certificates=client_ca, require_client_auth=client_ca is not None)
