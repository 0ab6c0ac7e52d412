"""The message of a stream about which somebody asks who names none."""

from headrace.contract.limits import MAX_SEQUENCE
from headrace.protocol.v1.admin_pb2 import GetStatusResponse


def oldest_unacknowledged(status: GetStatusResponse, stream: str) -> tuple[int, int | None]:
    """Returns the sequence and the epoch of the oldest message of a stream that is not acknowledged.

    They are those after the last acknowledged position. No message may have them, if sequences have gaps; what is said of them is
    then true of the next message. Of a stream that the gateway does not know, any sequence will do: the gateway refuses it.
    """
    found = next((one for one in status.streams if one.stream == stream), None)
    if found is None or not found.HasField("received"):
        return 0, None
    if not found.HasField("acknowledged") or found.acknowledged.epoch < found.received.epoch:
        return 0, found.received.epoch
    return min(found.acknowledged.sequence + 1, MAX_SEQUENCE), found.acknowledged.epoch
