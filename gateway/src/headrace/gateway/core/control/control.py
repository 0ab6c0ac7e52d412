"""Changes that operators request. Each is logged with who requested it, whether it is made or refused."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.contract.limits import MAX_NAME_BYTES
from headrace.contract.names import nearest
from headrace.gateway.core.base.errors import ChangeRefused, MalformedMessage, ProtocolError, UnknownPart
from headrace.gateway.core.batches import forget
from headrace.gateway.core.intake import apply_pauses, forget_gone
from headrace.gateway.core.state import Gateway
from headrace.gateway.core.streams import CONFIGURATION, PartKind, Pause

MAX_DRAIN_MS = 24 * 3_600_000
"""How long a drain may take, in milliseconds."""
MAX_NAMED = 20
"""How many names an error lists at most."""

log = logging.getLogger("headrace.gateway.control")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who requests a change."""

    name: str
    """The name of the token; `anybody` if the gateway has no tokens."""
    peer: str
    """The address that the request comes from."""
    sees_names: bool
    """Whether it may read the status, and so learn of parts that it has not named itself."""

    def named(self, names: Sequence[str]) -> str:
        """Returns names for a text, 20 at most; only their number if the caller may not see them."""
        if not self.sees_names:
            return f"{len(names)} that only the right admin shows" if names else "none"
        return listed(names)


def pause(gateway: Gateway, caller: Caller, kind: PartKind, name: str) -> tuple[Pause, bool]:
    """Pauses a part; returns the pause, and whether it is new.

    Raises:
        UnknownPart: the gateway does not know it.
        ChangeRefused: it is the connector of a sink.
        LimitExceeded: too much is paused.
    """
    with audited(caller, "pause", f"{kind} {name}"):
        _check_known(gateway, caller, kind, checked(name))
        before = gateway.pauses.of(kind, name)
        if before is not None:
            return before, False
        begun = gateway.pauses.begin(kind, name, caller.name)
        apply_pauses(gateway)
        return begun, True


def resume(gateway: Gateway, caller: Caller, kind: PartKind, name: str) -> bool:
    """Ends the pause of a part; returns whether there was one.

    Raises:
        UnknownPart: the gateway does not know it.
        ChangeRefused: the configuration pauses it, or it is a stream whose connector is paused.
    """
    with audited(caller, "resume", f"{kind} {name}"):
        ended = gateway.pauses.end(kind, checked(name))
        if not ended:
            _check_known(gateway, caller, kind, name)
        apply_pauses(gateway)
        if gateway.pauses.of(kind, name) is not None:
            raise ChangeRefused(f"{kind} {name} is paused by {CONFIGURATION}; remove it from [paused] there, and reload")
        stream = gateway.streams.get(name) if kind is PartKind.STREAM else None
        if stream is not None and stream.pause is not None:
            raise ChangeRefused(f"stream {name} is still paused, because {caller.named([stream.pause.part])} is; resume that")
        return ended


def _check_known(gateway: Gateway, caller: Caller, kind: PartKind, name: str) -> None:
    """Checks that the gateway knows a part: one that is misspelt would never be paused.

    Raises:
        UnknownPart: it does not.
        ChangeRefused: it is the connector of a sink.
    """
    known: Iterable[str]
    if kind is PartKind.CONNECTOR:
        streams = {stream.last_instance for stream in gateway.streams.values() if stream.last_instance}
        known = streams | {session.instance for session in gateway.sessions.values()}
        serves = [session.hello.sink for session in gateway.sink_sessions.values() if session.instance == name]
        if serves and name not in known:
            raise ChangeRefused(f"connector {name} serves sink {caller.named(serves[:1])}; pause the sink")
    else:
        of_kind: dict[PartKind, Iterable[str]] = {
            PartKind.STREAM: gateway.streams,
            PartKind.PIPELINE: gateway.pipelines,
            PartKind.SINK: gateway.sinks,
        }
        known = of_kind[kind]
    if name not in known:
        raise unknown(kind, name, known, caller)


def forget_stream(gateway: Gateway, caller: Caller, name: str) -> bool:
    """Treats a stream as if its source had ended it permanently; returns whether it is forgotten already.

    Its pipelines read what the gateway has of it, and drop it from their checkpoints.

    Raises:
        UnknownPart: there is none of that name.
        ChangeRefused: a connector serves it, or a pipeline needs messages that the gateway no longer has.
    """
    with audited(caller, "forget", f"stream {name}"):
        stream = gateway.streams.get(checked(name))
        if stream is None:
            raise unknown("stream", name, gateway.streams, caller)
        if stream.attachment is not None and not stream.attachment.closed:
            sender = caller.named([stream.attachment.session.instance])
            text = f"stream {name} is sent by connector {sender}; stop it, or let it end the stream"
            raise ChangeRefused(text)
        for pipeline in stream.readers:
            planned = pipeline.planned.get(name)
            if stream.must_be_rewound_for(pipeline) or (planned is not None and planned > stream.received):
                reader = caller.named([pipeline.name])
                text = f"pipeline {reader} needs messages of stream {name} that only its source has; start its connector"
                raise ChangeRefused(text)
        if not stream.readers:
            gateway.gone.pop(name, None)
            stream.drop_frames(len(stream.frames))
            gateway.forget_stream(stream)
            gateway.credit.rebalance()
            return True
        stream.ended = stream.gone = True
        gateway.gone[name] = None
        stream.tell_readers()
        forget_gone(gateway)
        return name not in gateway.streams


def forget_pipeline(gateway: Gateway, caller: Caller, name: str, *, force: bool = False) -> None:
    """Forgets a pipeline, so that it no longer holds acknowledgements.

    Raises:
        UnknownPart: there is none of that name.
        ChangeRefused: the configuration declares it, or it is attached and `force` is not set.
    """
    with audited(caller, "forget", f"pipeline {name}", force=force):
        pipeline = gateway.pipelines.get(checked(name))
        if pipeline is None:
            raise unknown("pipeline", name, gateway.pipelines, caller)
        if pipeline.attached and not force:
            text = f"pipeline {name!r} is attached; stop its query first, or use force if its machine is gone"
            raise ChangeRefused(text)
        if pipeline.declared:
            text = f"pipeline {name!r} is declared for {caller.named(pipeline.declared)}; remove it from the configuration"
            raise ChangeRefused(text)
        forget(gateway, pipeline)
        gateway.pauses.end(PartKind.PIPELINE, name)


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """The rest of a drain."""

    sessions: int
    sink_sessions: int
    unacknowledged_messages: int
    """Messages that were received and not acknowledged."""
    done: bool
    """Whether the drain has ended: nothing is left, or the time is over."""


def drain(gateway: Gateway, caller: Caller, timeout_ms: int | None = None) -> "asyncio.Task[None]":
    """Begins to drain, or joins the drain in progress; returns its task.

    Raises:
        MalformedMessage: the time is not valid.
    """
    with audited(caller, "drain", "gateway", timeout_ms=timeout_ms):
        if timeout_ms is not None and not 0 <= timeout_ms <= MAX_DRAIN_MS:
            raise MalformedMessage(f"timeout_ms is {timeout_ms}; a drain takes 0 to {MAX_DRAIN_MS} ms")
        return gateway.begin_to_drain(timeout_ms)


def drain_progress(gateway: Gateway) -> DrainProgress:
    """Returns what is left of a drain."""
    left = sum(stream.unacknowledged_messages for stream in gateway.streams.values())
    done = gateway.drain_task is not None and gateway.drain_task.done()
    return DrainProgress(len(gateway.sessions), len(gateway.sink_sessions), left, done)


def reload(gateway: Gateway, caller: Caller) -> list[str]:
    """Reads the configuration again, and applies all that has changed, or nothing; returns the changes.

    Raises:
        ChangeRefused: it is invalid, or a change needs a restart, or there is no file.
    """
    with audited(caller, "reload", "gateway"):
        return gateway.reload()


@contextmanager
def audited(caller: Caller, action: str, part: str, **more: object) -> Iterator[None]:
    """Logs a change when it is made, or why it was refused."""
    facts = {"action": action, "part": part[: 2 * MAX_NAME_BYTES], "by": caller.name, "peer": caller.peer, **more}
    try:
        yield
    except ProtocolError as error:
        log.warning("change refused", extra={**facts, "error": str(error)})
        raise
    log.info("change made", extra=facts)


def checked(name: str) -> str:
    """Returns a name of a request.

    Raises:
        MalformedMessage: it is empty, or longer than any name.
    """
    if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
        raise MalformedMessage(f"a name has 1 to {MAX_NAME_BYTES} bytes, not {len(name.encode())}")
    return name


def unknown(kind: str, name: str, names: Iterable[str], caller: Caller | None = None, *, of: str = "") -> UnknownPart:
    """Returns the error that lists the parts of that kind, as far as the caller may see them, and the one that is perhaps meant.

    Args:
        kind: The kind of part, such as `stream`.
        name: Its name.
        names: The names of this kind.
        caller: Who names it; None if it may see all of `names`.
        of: Which of that kind are meant, after its name, such as ` of deployment deploy.toml`.
    """
    known = sorted(names)
    near = nearest(name, known) if caller is None or caller.sees_names else ""
    return UnknownPart(f"no {kind} {name!r}{of}; known: {listed(known) if caller is None else caller.named(known)}{near}")


def listed(names: Sequence[str]) -> str:
    """Returns names for a text, 20 at most."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{', '.join(names[:MAX_NAMED]) or 'none'}{more}"
