"""Samples of a stream's messages, for people, at a bounded rate.

A listener looks at what the stream holds when there is news of it. So a stream without listeners does nothing for them, nothing
is kept for one that reads slowly, and acknowledgements and credit wait for none. What passes while a listener does not look, or
has seen what it may see in a second, is counted.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from headrace.contract.limits import MAX_NAME_BYTES, MAX_PEEK
from headrace.contract.position import Position
from headrace.gateway.core.base.errors import (
    ChangeRefused,
    LimitExceeded,
    MalformedMessage,
    NotPermitted,
    ProtocolError,
    UnknownPart,
)
from headrace.gateway.core.connections import OpenCall
from headrace.gateway.core.control import Caller, checked, unknown
from headrace.gateway.core.state import Gateway
from headrace.gateway.core.streams import Stream, count_up_to, previews
from headrace.gateway.identity import Identity
from headrace.protocol.v1.admin_pb2 import MessagePreview, PeekResponse
from headrace.protocol.v1.frame_pb2 import Frame

WINDOW_S = 1.0
"""The time for which the limits of a listener hold, in seconds; at least as often, it learns how much it was not shown."""

log = logging.getLogger("headrace.gateway.control")


@dataclass(slots=True)
class _Allowance:
    """The number of messages that a listener may still see."""

    messages: int
    bytes: int

    @property
    def is_spent(self) -> bool:
        return self.messages <= 0 or self.bytes <= 0

    def spend(self, preview: MessagePreview) -> None:
        self.messages -= 1
        self.bytes -= preview.ByteSize()


def begin_peek(gateway: Gateway, caller: Caller, identity: Identity, name: str, limit: int = 0) -> Stream:
    """Checks a request to peek at a stream, logs who makes it, and returns the stream.

    Raises:
        MalformedMessage: the name is empty or too long, or the limit is too large.
        NotPermitted: the caller may not see messages of the stream.
        ChangeRefused: the configuration does not enable peeks.
        UnknownPart: there is no stream of that name.
        LimitExceeded: too many listen already.
    """
    facts = {"part": f"stream {name}"[: 2 * MAX_NAME_BYTES], "by": caller.name, "peer": caller.peer}
    try:
        stream = _checked(gateway, identity, name, limit)
    except ProtocolError as error:
        log.warning("peek refused", extra={**facts, "error": str(error)})
        raise
    log.info("peek begun", extra=facts)
    return stream


def _checked(gateway: Gateway, identity: Identity, name: str, limit: int) -> Stream:
    if not identity.may_peek(checked(name)):
        text = f"the token of {identity.name!r} does not allow seeing messages of stream {name!r}; add it to the token's peek"
        raise NotPermitted(text)
    if limit > MAX_PEEK:
        raise MalformedMessage(f"limit {limit}: a peek shows at most {MAX_PEEK} messages; without a limit, it does not end")
    check_enabled(gateway)
    if name not in gateway.streams:
        raise unknown("stream", name, filter(identity.may_peek, gateway.streams))
    _check_room(gateway)
    return gateway.streams[name]


def check_enabled(gateway: Gateway) -> None:
    """Checks that the configuration allows that messages are shown.

    Raises:
        ChangeRefused: it does not.
    """
    if not gateway.peek.enabled:
        raise ChangeRefused("this gateway shows no messages: set enabled = true in [peek] of its configuration, and reload")


def _check_room(gateway: Gateway) -> None:
    most = gateway.peek.max_listeners
    if gateway.listeners >= most:
        text = f"peek.max_listeners is {most} and all are taken; raise it, or end a peek"
        raise LimitExceeded(text, limit="peek.max_listeners", maximum=most)


async def peek(gateway: Gateway, identity: Identity, stream: Stream, limit: int = 0) -> AsyncGenerator[PeekResponse]:
    """Yields samples of a stream: what it holds, and then what arrives, at least one in each second.

    Args:
        gateway: The gateway.
        identity: Who listens.
        stream: The stream that `begin_peek` has returned.
        limit: After how many messages it ends; 0 for never.

    Raises:
        LimitExceeded: too many listen already.
        ChangeRefused: the configuration no longer enables peeks.
        UnknownPart: the stream was forgotten.
        Draining: the gateway is stopping.
        TokenRevoked: the listener's token is no longer valid.
    """
    _check_room(gateway)
    gateway.listeners += 1
    try:
        with gateway.open_calls.woken(identity, lambda _: stream.news.notify()) as call:
            async for sample in _samples(gateway, call, stream, limit):
                yield sample
    finally:
        gateway.listeners -= 1


async def _samples(gateway: Gateway, call: OpenCall, stream: Stream, limit: int) -> AsyncGenerator[PeekResponse]:
    loop, at, shown = asyncio.get_running_loop(), stream.start, 0
    before = stream.received_messages - stream.held_messages
    while True:
        ends_at, settings = loop.time() + WINDOW_S, gateway.peek
        left = _Allowance(settings.messages_per_second, settings.bytes_per_second)
        while True:
            _check_going_on(gateway, call, stream)
            at = min(at, stream.received)
            found = _look(stream, at, left, settings.preview_bytes, limit - shown if limit else left.messages)
            at, shown = stream.received, shown + len(found)
            if found:
                yield PeekResponse(messages=found, not_shown=_not_shown(stream, before, shown))
            if limit and shown >= limit:
                return
            wait_s = max(0.0, ends_at - loop.time())
            if left.is_spent:
                await asyncio.sleep(wait_s)
            if left.is_spent or not wait_s:
                break
            if at >= stream.received:
                await stream.news.wait(wait_s)
        yield PeekResponse(not_shown=_not_shown(stream, before, shown))


def _check_going_on(gateway: Gateway, call: OpenCall, stream: Stream) -> None:
    if call.failure is not None:
        raise call.failure
    check_enabled(gateway)
    if gateway.streams.get(stream.name) is not stream:
        raise UnknownPart(f"stream {stream.name} was forgotten; peek again once a connector sends it")


def _look(stream: Stream, at: Position, left: _Allowance, max_bytes: int, limit: int) -> list[MessagePreview]:
    """Returns the first messages after a position, as many as are allowed. No other message is looked at."""
    found: list[MessagePreview] = []
    for held in stream.after(at):
        frame = Frame.FromString(bytes(held.serialized))
        first = count_up_to(frame, at.sequence) if at.epoch == stream.live_epoch else 0
        for preview in previews(frame, stream.live_epoch, max_bytes, first, min(left.messages, limit - len(found))):
            left.spend(preview)
            found.append(preview)
            if left.is_spent:
                break
        if left.is_spent or len(found) >= limit:
            break
    return found


def _not_shown(stream: Stream, before: int, samples: int) -> int:
    return max(0, stream.received_messages - before - samples)
