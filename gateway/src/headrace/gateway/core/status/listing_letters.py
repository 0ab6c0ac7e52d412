"""Lists dead letters for those who may see them."""

from collections.abc import Iterator

import structlog

from headrace.contract.limits import MAX_DEAD_LETTERS, MAX_NAME_BYTES
from headrace.gateway.core.base.errors import MalformedMessage, NotPermitted, ProtocolError
from headrace.gateway.core.base.slices import in_slices
from headrace.gateway.core.control import Caller, checked, listed, unknown
from headrace.gateway.core.state import Gateway
from headrace.gateway.identity import Identity
from headrace.protocol.v1.admin_pb2 import ListDeadLettersResponse, SinkDeadLetters

log = structlog.get_logger("headrace.gateway.control")


async def list_dead_letters(
    gateway: Gateway, caller: Caller, identity: Identity, sink: str, limit: int
) -> ListDeadLettersResponse:
    """Returns the last dead letters of a sink, or of all sinks of which the caller may see them. Logs who asks.

    Args:
        gateway: The gateway.
        caller: Who asks, for the log.
        identity: Who asks.
        sink: The sink that takes them; empty for all.
        limit: How many of each sink, at most; 0 for all that are kept.

    Raises:
        MalformedMessage: the name is too long, or the limit is too large.
        NotPermitted: the caller may not see messages of the sink.
        UnknownPart: there is no sink of that name.
    """
    facts = {"part": f"sink {sink}"[: 2 * MAX_NAME_BYTES] if sink else "all sinks", "by": caller.name, "peer": caller.peer}
    try:
        names = _names(gateway, identity, sink, limit)
    except ProtocolError as error:
        log.warning("dead letters refused", **facts, reason=str(error))
        raise
    log.info("dead letters shown", **facts)
    most = limit or MAX_DEAD_LETTERS
    kept = gateway.dead_letters
    response = ListDeadLettersResponse(kept=gateway.peek.enabled)

    def steps() -> Iterator[int]:
        for name in names:
            letters = kept.last(name, most)
            response.sinks.append(SinkDeadLetters(sink=name, count=kept.count(name), letters=letters))
            yield 1 + len(letters)

    await in_slices(steps())
    return response


def _names(gateway: Gateway, identity: Identity, sink: str, limit: int) -> list[str]:
    if limit > MAX_DEAD_LETTERS:
        raise MalformedMessage(f"limit {limit}: the gateway keeps {MAX_DEAD_LETTERS} dead letters of each sink")
    if not sink:
        return [name for name in gateway.dead_letters.sinks() if identity.may_peek(name)]
    if not identity.may_peek(checked(sink)):
        text = f"the token of {identity.name!r} does not allow seeing dead letters of sink {sink!r}; add it to the token's peek"
        raise NotPermitted(text)
    if sink not in gateway.sinks and not gateway.dead_letters.count(sink):
        raise unknown("sink", sink, listed(sorted(filter(identity.may_peek, gateway.sinks))))
    return [sink]
