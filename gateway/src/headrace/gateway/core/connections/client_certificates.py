"""The certificates that clients present, so that each is a problem before it expires, whichever host has its file."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headrace.contract import clock

MAX_COUNT = 2_000
"""Of as many connections the certificates are kept: of those seen last."""
KEPT_S = 15.0
"""For how long the certificate of a client counts that has no call in progress: it may call again at once."""
MAX_NAME = 200


@dataclass(slots=True)
class _Presented:
    name: str
    expires_at_s: int
    read_at: float
    seen_at: float


class ClientCertificates:
    """The certificates of the connections that calls come from now."""

    def __init__(self) -> None:
        self._by_peer: dict[str, _Presented] = {}
        """By the address of the connection."""

    def note(self, peer: str, read: Callable[[], bytes | None]) -> None:
        """Notes a call.

        Args:
            peer: The address and the port that it comes from.
            read: Returns the certificate of the connection in PEM format, None if it has none. It is not read for each call.
        """
        now = clock.monotonic()
        # The last one to be seen is the last one to be dropped.
        presented = self._by_peer.pop(peer, None)
        if presented is None or now - presented.read_at > KEPT_S:
            # Another connection may have the address by now.
            presented = _presented(read(), now)
        if presented is None:
            return
        presented.seen_at = now
        self._by_peer[peer] = presented
        if len(self._by_peer) > MAX_COUNT:
            del self._by_peer[next(iter(self._by_peer))]

    def in_use(self, peers: Iterable[str]) -> dict[str, int]:
        """Returns when the certificates in use expire, in seconds since 1970: by the name in them, the first that expires.

        Args:
            peers: Where the calls come from that are in progress.
        """
        now = clock.monotonic()
        for peer in peers:
            if (presented := self._by_peer.get(peer)) is not None:
                presented.seen_at = now
        self._by_peer = {peer: one for peer, one in self._by_peer.items() if now - one.seen_at <= KEPT_S}
        found: dict[str, int] = {}
        for one in self._by_peer.values():
            found[one.name] = min(one.expires_at_s, found.get(one.name, one.expires_at_s))
        return found


def _presented(pem: bytes | None, now: float) -> _Presented | None:
    # Imported here: a gateway whose clients present none does not pay for it.
    from cryptography import x509

    if pem is None:
        return None
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        expires_at_s = int(certificate.not_valid_after_utc.timestamp())
        name = certificate.subject.rfc4514_string()
    except ValueError:
        # gRPC has accepted it, and another parser does not: its call is served, and nothing is known of its end.
        return None
    return _Presented((name or f"serial number {certificate.serial_number:x}")[:MAX_NAME], expires_at_s, now, now)
