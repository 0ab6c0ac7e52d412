"""The reason why a run makes no progress, as its driver reports it."""

from dataclasses import dataclass

from headrace.contract import clock
from headrace.gateway.core.base.bounds import check_length
from headrace.gateway.core.base.errors import MalformedMessage
from headrace.gateway.core.connections import MAX_TEXT_BYTES
from headrace.protocol.v1 import metrics_pb2 as pb

_KINDS = frozenset(pb.RunFaultKind.values()) - {pb.RUN_FAULT_KIND_UNSPECIFIED}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a run."""

    told: pb.RunFault
    run: str
    """The run whose driver has reported it."""
    began_at: float
    """On the monotonic clock."""

    @staticmethod
    def of(reported: pb.RunFault, run: str) -> "Fault":
        """Checks what the driver of a run has reported.

        Raises:
            MalformedMessage: its kind is unknown, or its text is too long.
        """
        if reported.kind not in _KINDS:
            raise MalformedMessage(f"RunFault of kind {reported.kind}: it is not one of the RunFaultKinds")
        if len(reported.message) > MAX_TEXT_BYTES or len(reported.message.encode()) > MAX_TEXT_BYTES:
            raise MalformedMessage(f"message in RunFault, {reported.message[:80]!r}...: it has at most {MAX_TEXT_BYTES} bytes")
        check_length("about in RunFault", reported.about)
        if reported.origin not in pb.RunFaultOrigin.values():
            raise MalformedMessage(f"RunFault of origin {reported.origin}: it is not one of the RunFaultOrigins")
        kept = pb.RunFault()
        kept.CopyFrom(reported)
        return Fault(kept, run, clock.monotonic() - min(reported.age_ms, 2**53) / 1000)

    def status(self) -> pb.RunFault:
        """Returns it as of now."""
        status = pb.RunFault()
        status.CopyFrom(self.told)
        status.age_ms = max(0, int((clock.monotonic() - self.began_at) * 1000))
        return status


def after_report(earlier: Fault | None, reported: Fault | None, committed: int) -> Fault | None:
    """Returns the fault of a pipeline after a report of its driver, whose commit log ends with batch `committed`, or -1.

    A micro-batch that has failed is run again, and may fail again: the first failure of a run counts, until the batch is
    committed, since others may follow from it. A later run that fails for another reason tells why the batch fails now.
    """
    if earlier is None or earlier.told.kind != pb.RUN_FAULT_KIND_BATCH_FAILED:
        return reported
    if earlier.told.HasField("batch") and earlier.told.batch <= committed:
        return reported
    if reported is None:
        return earlier if earlier.told.HasField("batch") else None
    is_other = reported.run != earlier.run and (reported.told.kind, reported.told.message) != (
        earlier.told.kind,
        earlier.told.message,
    )
    return reported if is_other else earlier
