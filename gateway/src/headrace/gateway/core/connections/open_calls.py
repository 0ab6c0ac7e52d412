"""The calls in progress, over gRPC and HTTP, so that each ends when its token is revoked, whatever it waits for."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from headrace.gateway.core.base.errors import ProtocolError
from headrace.gateway.identity import Identity

Wake = Callable[[ProtocolError], object]


class OpenCall:
    """A call that is in progress."""

    def __init__(self, identity: Identity, task: "asyncio.Task[Any] | None") -> None:
        """Creates it.

        Args:
            identity: Who calls.
            task: The task that serves the call; None if only `wake` can end it.
        """
        self.identity = identity
        self.failure: ProtocolError | None = None
        """Why the call must end; None while it may continue."""
        self.wake: Wake | None = None
        """Has the call look at its failure. None while its task is cancelled instead."""
        self.peer = ""
        """Where it comes from, once that is known."""
        self.is_served = False
        """Whether what serves it has begun. Before, it only finds the failure when it does."""
        self._task = task
        self._cancels = 0 if task is None else task.cancelling()

    def end(self, failure: ProtocolError) -> None:
        """Ends the call with an error."""
        if self.failure is not None:
            return
        self.failure = failure
        if self.wake is not None:
            self.wake(failure)
        elif self._task is not None and self.is_served:
            self._task.cancel()

    def was_cancelled_by_end(self) -> bool:
        """Returns whether only `end` has cancelled the task, which then continues; not also the server or the client."""
        return self.failure is not None and self._task is not None and self._task.uncancel() <= self._cancels

    @property
    def is_own(self) -> bool:
        """Whether the task that runs now serves the call."""
        return self._task is not None and self._task is asyncio.current_task()


_current: ContextVar[OpenCall | None] = ContextVar("headrace_open_call", default=None)


class OpenCalls:
    """All calls in progress whose callers are known."""

    def __init__(self) -> None:
        self._calls: dict[OpenCall, None] = {}
        self.peer_observers: list[Callable[[str], None]] = []
        """Called with where each call comes from."""

    def __iter__(self) -> Iterator[OpenCall]:
        return iter(list(self._calls))

    def __contains__(self, call: object) -> bool:
        return call in self._calls

    def __len__(self) -> int:
        return len(self._calls)

    def begin(self, identity: Identity) -> OpenCall:
        """Adds the call that the current task serves."""
        call = OpenCall(identity, asyncio.current_task())
        self._calls[call] = None
        _current.set(call)
        return call

    def serve(self, call: OpenCall, peer: str) -> None:
        """Notes that what serves a call has begun, and where the call comes from."""
        call.is_served, call.peer = True, peer
        for observe in self.peer_observers:
            observe(peer)

    def finish(self, call: OpenCall) -> None:
        """Removes a call; without effect if it was removed."""
        self._calls.pop(call, None)

    @contextmanager
    def woken(self, identity: Identity, wake: Wake) -> Iterator[OpenCall]:
        """Has the call that is served here end by itself for the block, with the failure that it finds when it is woken.

        Args:
            identity: Who calls.
            wake: Wakes it; its argument is the failure.
        """
        call = _current.get()
        if call is None or call not in self._calls:
            # What serves it does not add its calls.
            call = OpenCall(identity, None)
            call.is_served = True
            self._calls[call] = None
            added = True
        else:
            added = False
        before, call.wake = call.wake, wake
        try:
            yield call
        finally:
            call.wake = before
            if added:
                self.finish(call)
