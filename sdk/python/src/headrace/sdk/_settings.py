"""Settings of a connector: the gateway's address, credentials, and timeouts."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from headrace.contract.limits import DEFAULT_GATEWAY, MAX_NAME_BYTES
from headrace.contract.names import NAME
from headrace.sdk._errors import InvalidSource

_PART = re.compile(NAME)


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
        stuck_seconds: How long a `read` may take to yield when it is being closed, before the SDK logs a warning; at shutdown,
            the SDK then abandons it.
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
    queue_bytes: int = 8 << 20
    hold_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The gateway's address, and the connector's credentials."""

    gateway: str
    token: str | None
    tls: Tls | None


def endpoint(gateway: str | None, token: str | None, tls: Tls | None) -> Endpoint:
    """Returns the endpoint, with HEADRACE_GATEWAY and HEADRACE_TOKEN as defaults."""
    return Endpoint(
        gateway=gateway or os.environ.get("HEADRACE_GATEWAY") or DEFAULT_GATEWAY,
        token=token or os.environ.get("HEADRACE_TOKEN") or None,
        tls=tls,
    )


def is_loopback(gateway: str) -> bool:
    """Returns whether an address is on this machine."""
    host = gateway.rpartition(":")[0].strip("[]")
    return gateway.startswith("unix:") or host in ("localhost", "::1") or host.startswith("127.")


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
