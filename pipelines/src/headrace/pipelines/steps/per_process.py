"""Things that each process makes once, such as models and clients, and results of calls that it keeps."""

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any, Generic, TypeVar
from uuid import uuid4

from headrace.machine.ends import before_end
from headrace.pipelines import arguments as check
from headrace.pipelines._errors import Unavailable, reason_of

T = TypeVar("T")

_things: dict[tuple[int, str], Any] = {}
_LOCK = threading.RLock()


class NotMade(Unavailable):
    """A `setup` has raised."""


class PerProcess(Generic[T]):
    """Something that each process makes when a function first needs it, such as a model or a connection. Call it to get it.

    ```python
    model = PerProcess(load_model, teardown=Model.close)
    app.source("texts/*", bytes.decode).map(lambda text: model().score(text), name="score").sink("scores")
    ```

    Args:
        setup: Returns it. If it raises, the query fails, whatever `on_error` says.
        teardown: Called with it, on another thread, before the process ends in order, so not after a kill.

    Raises:
        GraphError: A parameter is not a function that can be called so.
    """

    def __init__(self, setup: Callable[[], T], *, teardown: Callable[[T], object] | None = None) -> None:
        where = "PerProcess(...)"
        check.function(where, "setup", setup, instead_of_yield="return one object")
        check.takes_nothing(where, "setup", setup)
        if teardown is not None:
            check.function(where, "teardown", teardown, "made", instead_of_yield="return nothing")
        self._setup, self._teardown, self._token = setup, teardown, uuid4().hex

    def __call__(self) -> T:
        """The thing of this process.

        Raises:
            PipelineError: `setup` raises.
        """
        name = os.getpid(), self._token
        if name not in _things:
            with _LOCK:
                if name not in _things:
                    _things[name] = self._new()
        found: T = _things[name]
        return found

    def _new(self) -> T:
        try:
            made = self._setup()
        except Exception as error:
            raise NotMade(f"setup raised {type(error).__name__}: {reason_of(error)}") from error
        if self._teardown is not None:
            before_end(partial(self._teardown, made))
        return made


class ResultCache:
    """The results of calls by key, for some time. One call of a key runs at a time, and others wait for its result or failure.

    Args:
        ttl_s: How long a result is kept, in seconds.
        size: How many are kept at most. The ones that were used least recently are removed.
        clock: Returns the time, in seconds.
    """

    def __init__(self, ttl_s: float, size: int, clock: Callable[[], float]) -> None:
        self._ttl_s, self._size, self._clock = ttl_s, size, clock
        self._results: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        self._running: dict[Hashable, asyncio.Future[Any]] = {}

    async def result(self, key: Hashable, call: Callable[[], Awaitable[Any]], has_failed: Callable[[Any], bool]) -> Any:
        """The result of a key, of an earlier call or of this one. Failures are not kept."""
        while True:
            kept = self._results.get(key)
            if kept is not None and kept[0] > self._clock():
                self._results.move_to_end(key)
                return kept[1]
            if (running := self._running.get(key)) is None:
                break
            await asyncio.wait([running])
            if not running.cancelled():
                # Also a failure: calls that fail one after the other would take as long as all their timeouts.
                return running.result()
        ended = self._running[key] = asyncio.get_running_loop().create_future()
        try:
            found = await call()
            if not has_failed(found):
                self._results[key] = self._clock() + self._ttl_s, found
                self._results.move_to_end(key)
                if len(self._results) > self._size:
                    self._results.popitem(last=False)
            ended.set_result(found)
            return found
        finally:
            del self._running[key]
            ended.cancel()


def _renew_lock() -> None:
    global _LOCK
    _LOCK = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)
