"""What is wrong with the gateway itself: a file that it cannot use, a certificate that expires, work that fails, descriptors."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.contract import clock

MAX_COUNT = 100
"""How many faults are kept at a time."""


class OwnFaultKind(StrEnum):
    """The kinds of these faults, which are also kinds of problems."""

    CONFIGURATION_INVALID = "configuration-invalid"
    CERTIFICATE_INVALID = "certificate-invalid"
    CERTIFICATE_EXPIRES = "certificate-expires"
    GATEWAY_FAILS = "gateway-fails"
    DESCRIPTORS_EXHAUSTED = "descriptors-exhausted"


@dataclass(frozen=True, slots=True)
class OwnFault:
    """One fault.

    Attributes:
        part: The part concerned, such as `file /etc/headrace/gateway.toml`.
        kind: Its kind.
        cause: The cause, for people.
        remedy: What to do.
        since: Since when, on the monotonic clock.
    """

    part: str
    kind: OwnFaultKind
    cause: str
    remedy: str
    since: float = field(default_factory=clock.monotonic)

    @property
    def age_ms(self) -> int:
        """For how long, in milliseconds."""
        return max(0, int((clock.monotonic() - self.since) * 1000))


class OwnFaults:
    """The faults that there are now, at most one of each part and kind."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, OwnFaultKind], OwnFault] = {}

    def __iter__(self) -> Iterator[OwnFault]:
        return iter(list(self._by_key.values()))

    def note(self, part: str, kind: OwnFaultKind, cause: str, remedy: str) -> None:
        """Notes that something is wrong. If it was before, its cause is replaced, and its age stays."""
        known = self._by_key.get((part, kind))
        if known is None and len(self._by_key) >= MAX_COUNT:
            return
        since = clock.monotonic() if known is None else known.since
        self._by_key[part, kind] = OwnFault(part, kind, cause, remedy, since)

    def end(self, part: str, kind: OwnFaultKind) -> None:
        """Notes that something is right again, or still."""
        self._by_key.pop((part, kind), None)
