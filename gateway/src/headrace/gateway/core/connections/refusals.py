"""Who was refused last, and why: callers that the gateway did not admit, and parts whose sessions it has ended.

Health names the refusal as the cause why a part is away. Bounded, however many names callers invent.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from headrace.contract import clock
from headrace.contract.limits import MAX_NAME_BYTES
from headrace.gateway.core.base.errors import ProtocolError
from headrace.protocol.v1 import admin_pb2 as pb

MAX_PARTS = 200
"""How many refused parts are remembered."""
MAX_STRANGERS = 50
"""How many addresses are remembered whose callers have not shown who they are."""
SERIES_S = 60.0
"""A refusal of a part continues a series for this time after another one, in seconds: its age is the first one's."""
_MAX_TEXT = 500


class Role(StrEnum):
    """The role that a caller asks for."""

    SOURCE = "source"
    SINK = "sink"
    QUERY = "query"
    SUPERVISOR = "supervisor"


_ROLES = {
    "SourceService/Ingest": Role.SOURCE,
    "SinkService/Attach": Role.SINK,
    "EngineService/Attach": Role.QUERY,
    "AdminService/Supervise": Role.SUPERVISOR,
}


def connector_part(instance: str, sink: str = "") -> str:
    """Returns a connector as health names it; of a sink, with that: instances of sources and of other sinks may have its name.

    It is empty if one of the names cannot be shown.
    """
    names = (instance, sink) if sink else (instance,)
    if not all(name.isprintable() and 0 < len(name) <= MAX_NAME_BYTES for name in names):
        return ""
    return f"connector {instance}" + (f" of sink {sink}" if sink else "")


def role_of(method: str) -> Role | None:
    """Returns what a caller of a method wants to be; None for a method with which no part begins."""
    return _ROLES.get(method.rpartition(".")[2])


@dataclass(frozen=True, slots=True)
class Refusal:
    """The last refusal of a part, or of the callers of an address that are not known.

    Attributes:
        role: The role that the caller asks for.
        part: The part, as health names it; empty if the caller has not shown which one it is.
        peer: The address of the caller.
        text: The status and the error.
        remedy: What to do.
        was_admitted: Whether it had a session, which the gateway has ended.
        began_at: When the series of its refusals began, on the monotonic clock.
        occurred_at: When the last one was.
    """

    role: Role
    part: str
    peer: str
    text: str
    remedy: str
    was_admitted: bool
    began_at: float
    occurred_at: float

    def status(self) -> pb.RefusedCall:
        """Returns it as of now."""
        now = clock.monotonic()
        return pb.RefusedCall(
            role=self.role,
            part=self.part,
            peer=self.peer,
            cause=self.text,
            remedy=self.remedy,
            was_admitted=self.was_admitted,
            age_ms=max(0, int((now - self.began_at) * 1000)),
            last_ms=max(0, int((now - self.occurred_at) * 1000)),
        )


class Refusals:
    """The last refusal of each part, until the part is admitted, and of each address whose callers are not known."""

    def __init__(self) -> None:
        self._parts: OrderedDict[str, Refusal] = OrderedDict()
        self._strangers: OrderedDict[tuple[Role, str], Refusal] = OrderedDict()

    def __iter__(self) -> Iterator[Refusal]:
        yield from list(self._parts.values())
        yield from list(self._strangers.values())

    def note(self, role: Role, part: str, peer: str, error: ProtocolError, *, was_admitted: bool = False) -> None:
        """Notes that a part was refused; without a part, that a caller was that has not shown which one it is."""
        if error.counts_as_refusal:
            text = f"{error.status.name}: {error}"
            self._note(role, part, peer, text, error.remedy, was_admitted=was_admitted)

    def note_stranger(self, method: str, peer: str, text: str) -> None:
        """Notes that a call without a known token, or without any right for its method, was refused."""
        if (role := role_of(method)) is not None:
            remedy = (
                f"give the {role} a token that the gateway's configuration has with the right for it, and restart the {role}; "
                "if nobody has started it, look at who calls from there"
            )
            self._note(role, "", peer, text, remedy, was_admitted=False)

    def admit(self, part: str) -> None:
        """Forgets the refusal of a part, which works now."""
        self._parts.pop(part, None)

    def _note(self, role: Role, part: str, peer: str, text: str, remedy: str, *, was_admitted: bool) -> None:
        now = clock.monotonic()
        key = (role, peer.rpartition(":")[0])
        known = self._parts.pop(part, None) if part else self._strangers.pop(key, None)
        began_at = known.began_at if known is not None and now - known.occurred_at <= SERIES_S else now
        refusal = Refusal(role, part, peer, text[:_MAX_TEXT], remedy, was_admitted, began_at, now)
        if part:
            self._parts[part] = refusal
            if len(self._parts) > MAX_PARTS:
                self._parts.popitem(last=False)
            return
        self._strangers[key] = refusal
        if len(self._strangers) > MAX_STRANGERS:
            self._strangers.popitem(last=False)
