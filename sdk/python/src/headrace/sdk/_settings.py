"""How a connector runs: where the gateway is, who the connector is, and how patient it is."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from headrace.sdk._errors import InvalidSource
from headrace.sdk._gather import FrameTarget

DEFAULT_GATEWAY = "127.0.0.1:7433"

_PART = re.compile(r"[A-Za-z0-9._-]+")
_MAX_STREAM_NAME_BYTES = 255


@dataclass(frozen=True, slots=True)
class Tls:
    """Transport security.

    Attributes:
        ca: File with the certificates to trust, PEM; None trusts those of the system.
        certificate: File with this connector's own certificate chain, PEM, for mutual TLS.
        key: File with the private key that belongs to it, PEM.
        server_name: The name that the gateway's certificate must carry, where it differs from the address.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """What rarely needs a change.

    Attributes:
        linger_seconds: How long to gather messages for a frame, until the gateway sets another pace.
        frame: How large a frame should become before it is sent without waiting for more.
        drain_seconds: How long to wait for acknowledgements, or for a sink to finish, when the connector is asked to stop.
        partition_poll_seconds: How often the source is asked for its partitions.
        welcome_seconds: How long to wait for a gateway's answer before trying again.
        first_backoff_seconds: The longest wait before the first reconnect; it doubles with each further one.
        max_backoff_seconds: The longest wait before any reconnect.
        stuck_seconds: After how long a `read` that does not yield is reported; at shutdown it is given up then.
        queue_bytes: How much may wait for a sink, in each part where parts are staged; the gateway is read no further then. Where
            another part waits for its rows meanwhile, what is more goes to a temporary file.
        hold_bytes: How much of unfinished transactions to hold in memory for a batch-idempotent sink; the rest goes to a
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
    """Where the gateway is, and how the connector shows who it is."""

    gateway: str
    token: str | None
    tls: Tls | None


def endpoint(gateway: str | None, token: str | None, tls: Tls | None) -> Endpoint:
    """Fills in from HEADRACE_GATEWAY and HEADRACE_TOKEN what was not given."""
    return Endpoint(
        gateway=gateway or os.environ.get("HEADRACE_GATEWAY") or DEFAULT_GATEWAY,
        token=token or os.environ.get("HEADRACE_TOKEN") or None,
        tls=tls,
    )


def is_loopback(gateway: str) -> bool:
    """True for an address that does not leave this machine."""
    host = gateway.rpartition(":")[0].strip("[]")
    return gateway.startswith("unix:") or host in ("localhost", "::1") or host.startswith("127.")


def stream_name(source: str, partition: str) -> str:
    """The name of a partition's stream.

    Raises:
        InvalidSource: A part holds something else than letters, digits and `._-`, or the name is too long.
    """
    for what, part in (("source name", source), ("partition name", partition)):
        if not _PART.fullmatch(part):
            raise InvalidSource(f"{what} {part!r}: one or more letters, digits and '._-' are allowed")
    name = f"{source}/{partition}"
    if len(name) > _MAX_STREAM_NAME_BYTES:
        raise InvalidSource(f"stream name {name!r} has {len(name)} bytes, {_MAX_STREAM_NAME_BYTES} are allowed")
    return name
