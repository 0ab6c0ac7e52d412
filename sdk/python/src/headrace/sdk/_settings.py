"""Settings of a connector: the gateway's address, credentials, and timeouts."""

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.contract.limits import DEFAULT_GATEWAY, MAX_NAME_BYTES
from headrace.contract.names import NAME
from headrace.contract.settings import GATEWAY, TLS, TLS_CA, TLS_CERT, TLS_KEY, TOKEN, TOKEN_FILE
from headrace.contract.token_files import TokenFile
from headrace.sdk._errors import InvalidSource

_PART = re.compile(NAME)
_ON = ("1", "true", "yes", "on")
_OFF = ("", "0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS settings.

    Attributes:
        ca: PEM file with the certificates to trust; None trusts the system's.
        certificate: PEM file with this connector's certificate chain, for mutual TLS.
        key: PEM file with the private key of the certificate.
        server_name: The name that the gateway's certificate must have, if it differs from the address.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class FrameTarget:
    """The size at which a frame is sent without waiting for more messages."""

    bytes: int = 256 * 1024
    messages: int = 8192


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that rarely need to be changed. Times are in seconds, sizes in bytes.

    Attributes:
        linger_seconds: How long to collect messages for a frame, until the gateway sets another pace.
        frame: The size at which a frame is sent without waiting for more messages.
        drain_seconds: How long to wait for acknowledgements, or for a sink to finish, when the connector is stopped.
        partition_poll_seconds: The interval at which the SDK calls `partitions`.
        welcome_seconds: How long to wait for the gateway's Welcome before retrying.
        first_backoff_seconds: The maximum wait before the first reconnect; it doubles with each further one.
        max_backoff_seconds: The maximum wait before any reconnect.
        stuck_seconds: How long a method may take before the SDK logs and reports its name and where it stands; again after twice
            the time, and so on. A `read` of a blocking source must yield within this time, None if it has nothing. At shutdown,
            the SDK then abandons it.
        close_seconds: How long to wait, at the end, for methods that still run and then for `close`, together.
        queue_bytes: The size of a sink's queue (of each part's queue, for a two-phase sink) at which the SDK stops reading from
            the gateway. If another part needs rows in the meantime, the excess goes to a temporary file.
        hold_bytes: How much of unfinished transactions to keep in memory for a batch-idempotent sink; the rest goes to a
            temporary file.
    """

    linger_seconds: float = 0.005
    frame: FrameTarget = field(default_factory=FrameTarget)
    drain_seconds: float = 10.0
    partition_poll_seconds: float = 3.0
    welcome_seconds: float = 10.0
    first_backoff_seconds: float = 0.05
    max_backoff_seconds: float = 2.0
    stuck_seconds: float = 10.0
    close_seconds: float = 10.0
    queue_bytes: int = 8 << 20
    hold_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class TlsNames:
    """The user's names for the files of `Tls`, for errors."""

    ca: str = "Tls.ca"
    certificate: str = "Tls.certificate"
    key: str = "Tls.key"


_VARIABLES = TlsNames(TLS_CA.variable, TLS_CERT.variable, TLS_KEY.variable)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The gateway's address, and the connector's credentials, with the token as it was when a session began."""

    gateway: str
    token: str | None
    tls: Tls | None
    tls_names: TlsNames
    token_file: TokenFile | None = None

    def now(self) -> "Endpoint":
        """Returns the endpoint with the token that its file contains now.

        Raises:
            TokenFileError: The file contains no token, and never did.
        """
        return self if self.token_file is None else replace(self, token=self.token_file.token())


def endpoint(gateway: str | None, token: str | None, token_file: Path | None, tls: Tls | None) -> Endpoint:
    """Returns the endpoint, with HEADRACE_GATEWAY, HEADRACE_TOKEN_FILE, HEADRACE_TOKEN and the variables of TLS as defaults.

    Raises:
        InvalidSource: HEADRACE_TLS is neither 1 nor 0, or both a token and its file are given.
        TokenFileError: The file contains no token.
    """
    if token and token_file is not None:
        raise InvalidSource("token and token_file exclude each other: give the token, or the file that contains it")
    path = token_file or (None if token else _path(TOKEN_FILE.variable))
    found = Endpoint(
        gateway=gateway or os.environ.get(GATEWAY.variable) or DEFAULT_GATEWAY,
        token=token or os.environ.get(TOKEN.variable) or None,
        token_file=None if path is None else TokenFile(path),
        tls=tls or _tls_of_the_environment(),
        tls_names=_VARIABLES if tls is None else TlsNames(),
    )
    return found.now()


def _tls_of_the_environment() -> Tls | None:
    """Returns the TLS settings that HEADRACE_TLS, HEADRACE_TLS_CA, HEADRACE_TLS_CERT and HEADRACE_TLS_KEY make; None for none."""
    files = Tls(_path(_VARIABLES.ca), _path(_VARIABLES.certificate), _path(_VARIABLES.key))
    text = os.environ.get(TLS.variable, "")
    if text.lower() not in (*_ON, *_OFF):
        raise InvalidSource(f"{TLS.variable} is {text!r}: 1 turns TLS on, 0 leaves it to the files")
    return files if text.lower() in _ON or files != Tls() else None


def _path(variable: str) -> Path | None:
    text = os.environ.get(variable)
    return Path(text) if text else None


def stream_name(source: str, partition: str) -> str:
    """Returns the name of a partition's stream.

    Raises:
        InvalidSource: `source` or `partition` is empty or contains characters other than letters, digits and `._-`, or the
            resulting name is too long.
    """
    for what, part in (("source name", source), ("partition name", partition)):
        if not _PART.fullmatch(part):
            raise InvalidSource(f"{what} {part!r}: one or more letters, digits and '._-' are allowed")
    name = f"{source}/{partition}"
    if len(name) > MAX_NAME_BYTES:
        raise InvalidSource(f"stream name {name!r} has {len(name)} bytes, {MAX_NAME_BYTES} are allowed")
    return name
