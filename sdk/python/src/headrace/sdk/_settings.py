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
    """Transport security.

    Attributes:
        ca: File with the certificates to trust, PEM; None trusts those of the system.
        certificate: File with this connector's own certificate chain, PEM, for mutual TLS.
        key: File with the private key that belongs to it, PEM.
        server_name: The name that the gateway's certificate must have, if it differs from the address.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class FrameTarget:
    """How large a frame should become before it is sent without waiting for more."""

    bytes: int = 256 * 1024
    messages: int = 8192


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings that rarely need a change. Times are in seconds, sizes in bytes.

    Attributes:
        linger_seconds: How long to collect messages for a frame, until the gateway sets another pace.
        frame: The size at which a frame is sent without waiting for more messages.
        drain_seconds: How long to wait for acknowledgements, or for a sink to finish, when the connector is asked to stop.
        partition_poll_seconds: How often the source is asked for its partitions.
        welcome_seconds: How long to wait for a gateway's answer before trying again.
        first_backoff_seconds: The longest wait before the first reconnect; it doubles with each further one.
        max_backoff_seconds: The longest wait before any reconnect.
        stuck_seconds: After how long a `read` that does not yield is reported; at shutdown, it is abandoned then.
        queue_bytes: How much may be queued for a sink (for each part of a two-phase sink) before the SDK stops reading from the
            gateway. If another part needs rows meanwhile, the excess goes to a temporary file.
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
    """The endpoint, with HEADRACE_GATEWAY and HEADRACE_TOKEN as defaults."""
    return Endpoint(
        gateway=gateway or os.environ.get("HEADRACE_GATEWAY") or DEFAULT_GATEWAY,
        token=token or os.environ.get("HEADRACE_TOKEN") or None,
        tls=tls,
    )


def is_loopback(gateway: str) -> bool:
    """Whether an address is on this machine."""
    host = gateway.rpartition(":")[0].strip("[]")
    return gateway.startswith("unix:") or host in ("localhost", "::1") or host.startswith("127.")


def stream_name(source: str, partition: str) -> str:
    """The name of a partition's stream.

    Raises:
        InvalidSource: A part contains characters other than letters, digits and `._-`, or the name is too long.
    """
    for what, part in (("source name", source), ("partition name", partition)):
        if not _PART.fullmatch(part):
            raise InvalidSource(f"{what} {part!r}: one or more letters, digits and '._-' are allowed")
    name = f"{source}/{partition}"
    if len(name) > MAX_NAME_BYTES:
        raise InvalidSource(f"stream name {name!r} has {len(name)} bytes, {MAX_NAME_BYTES} are allowed")
    return name
