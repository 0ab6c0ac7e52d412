"""The step that awaits an async function for many values at once, on an event loop of the process."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from types import NoneType
from typing import Any
from uuid import uuid4

from msgspec import Struct

from headrace.pipelines._errors import Unavailable, reason_of
from headrace.pipelines.elements.elements import Elements
from headrace.pipelines.steps.copies import copied
from headrace.pipelines.steps.event_loop import event_loop
from headrace.pipelines.steps.keys import normal_keys
from headrace.pipelines.steps.returned import is_lazy, present
from headrace.pipelines.steps.step import Cell, OnError, Step, StepPass, each
from headrace.pipelines.steps.watch import Watch

FIRST_PAUSE_S, MAX_PAUSE_S = 0.1, 5.0
"""The pauses before a call is repeated, in seconds; each is twice as long as the one before."""


# Not a class with an `__init__` in Python: creating an instance would cost a tenth of what a call costs.
class Call(Struct, eq=False):
    """A call of the function of `map_async`.

    Attributes:
        attempt: The number of the attempt, from 1.
        client: What `setup` has returned in this process; None without it.
    """

    _identities: "_Identities"
    _index: int
    attempt: int
    client: Any

    @property
    def id(self) -> str:
        """Identifies the value: the same whenever its message is processed again, and in each attempt.

        A service that knows ids of requests can so recognise a repeated one.
        """
        return blake2b(repr(self._identities.of(self._index)).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class _Identities:
    """What identifies each element of a step, independently of the division into micro-batches."""

    step: str
    elements: Elements

    def of(self, index: int) -> tuple[Any, ...]:
        """What identifies one of them."""
        elements = self.elements
        place, keys, times, lineages = elements.place(index), elements.keys, elements.times, elements.lineages
        assert lineages is not None, "the graph has a step that needs them: this one"
        key, time = None if keys is None else keys[index], None if times is None else int(times[index])
        return self.step, elements.origin.stream, int(elements.origin.sequences[place]), key, time, lineages[index]


@dataclass(frozen=True)
class _Failure:
    error: BaseException


_SKIPPED: Any = object()
"""The outcome of a value whose call was not made, or cancelled, since the query fails."""


class _Stop(Exception):
    """A call has failed, and with it the query."""


@dataclass(frozen=True)
class Caching:
    """Which results a step keeps.

    Attributes:
        by: Returns the key of a value: a result is the result of all values with its key.
        ttl_s: How long a result is kept, in seconds.
        size: How many are kept in a process at most.
    """

    by: Callable[[Any], Any]
    ttl_s: float
    size: int


@dataclass(frozen=True, eq=False)
class AsyncMap(Step):
    """Applies an async function to each value, to several at a time. Results that are None are dropped.

    Attributes:
        function: Called with a value and a `Call`.
        setup: Returns the client of each process; None if there is none.
        teardown: Called with the client before its process ends in order; None if that needs nothing.
        caching: Which results are kept; None for none.
        concurrency: How many calls run at a time, at most.
        timeout_s: How long an attempt may take, in seconds.
        retries: How often a call that fails is repeated.
        token: Identifies the step in each process that it is sent to.
    """

    function: Callable[[Any, Call], Awaitable[Any]]
    setup: Callable[[], Any] | None
    teardown: Callable[[Any], Any] | None
    caching: Caching | None
    concurrency: int
    timeout_s: float
    retries: int
    token: str = field(default_factory=lambda: uuid4().hex)

    @property
    def tells_apart(self) -> bool:
        """True: each call has an id of its own."""
        return True

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "map_async"

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The results, in the order of the elements, once all calls have ended."""
        if not elements:
            return elements
        loop, (cell, notes) = event_loop(), step_pass.notes(self, elements)
        try:
            client = None if self.setup is None else loop.client(self.token, self.setup, self.teardown)
        except Exception as error:
            step_pass.failed(self, elements, 0, Unavailable(f"setup raised {type(error).__name__}: {reason_of(error)}"))
            raise
        cached: Callable[[int, Callable[[], Awaitable[Any]]], Awaitable[Any]] | None = None
        if (kept := self.caching) is not None:
            found, elements = each(self, kept.by, elements, step_pass)
            keys, elements = normal_keys(self, found, elements, step_pass)
            cache = loop.cache(self.token, kept.ttl_s, kept.size)
            cached = lambda index, call: cache.result(keys[index], call, _has_failed)  # noqa: E731
            cell, notes = step_pass.notes(self, elements)
        identities = _Identities(self.name, elements)
        outcomes = loop.run(self._outcomes(elements.values, identities, client, cached, cell, notes))
        if cached is None and not any(map(_is_special, set(map(type, outcomes)))):
            return elements.changed(outcomes)
        results, indices = list[Any](), list[int]()
        for index, outcome in enumerate(outcomes):
            if outcome is _SKIPPED or outcome is None:
                continue
            try:
                if type(outcome) is _Failure:
                    raise outcome.error
                result = present(outcome)
                # Others have the same result, and may change theirs.
                results.append(result if cached is None else copied(result))
                indices.append(index)
            except BaseException as error:
                step_pass.failed(self, elements, index, error)
        return elements.changed(results, indices)

    async def _outcomes(
        self,
        values: Sequence[Any],
        identities: _Identities,
        client: Any,
        cached: Callable[[int, Callable[[], Awaitable[Any]]], Awaitable[Any]] | None,
        cell: Cell,
        notes: Sequence[int],
    ) -> list[Any]:
        """The result or the failure of each value's call."""
        outcomes, waiting, watch = [_SKIPPED] * len(values), iter(range(len(values))), Watch(self.timeout_s)
        function, retries, stops = self.function, self.retries, self.on_error is OnError.FAIL

        async def outcome(index: int, task: asyncio.Task[Any], first: int = 1) -> Any:
            found: Any = _SKIPPED
            for attempt in range(first, retries + 2):
                if attempt > 1:
                    await asyncio.sleep(min(FIRST_PAUSE_S * 2 ** (attempt - 2), MAX_PAUSE_S))
                watch.begin(task)
                try:
                    return await function(values[index], Call(identities, index, attempt, client))
                except BaseException as error:
                    found = _Failure(watch.reason(task, error))
                finally:
                    watch.end(task)
            return found

        async def take() -> None:
            task = asyncio.current_task()
            assert task is not None, "the group runs it in one"
            for index in waiting:
                cell[0] = notes[index]
                if cached is not None:
                    found = await cached(index, partial(outcome, index, task))
                else:
                    # The first attempt here: nearly all succeed, and another coroutine costs as much as all else does.
                    watch.begin(task)
                    try:
                        found = await function(values[index], Call(identities, index, 1, client))
                    except BaseException as error:
                        found = _Failure(watch.reason(task, error))
                    finally:
                        watch.end(task)
                    if retries and type(found) is _Failure:
                        found = await outcome(index, task, 2)
                outcomes[index] = found
                if stops and type(found) is _Failure:
                    raise _Stop

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.concurrency, len(values))):
                    group.create_task(take())
        except* _Stop:
            pass
        finally:
            watch.close()
        return outcomes


def _has_failed(outcome: Any) -> bool:
    return type(outcome) is _Failure or is_lazy(type(outcome))


def _is_special(kind: type) -> bool:
    """Whether an outcome of a class is no result, or perhaps none."""
    return kind in (_Failure, NoneType, object) or is_lazy(kind)
