"""An event loop in virtual time, with processes that can be killed or frozen between any two callbacks.

Nothing waits: if no callback is due, the clock jumps to the next timer. The callbacks of a process run in the order in which it
has scheduled them, as in asyncio; a seeded source of randomness decides which process runs next. A process that is killed runs
nothing more, not even a `finally`, as after kill -9.
"""

import asyncio
import contextvars
import heapq
import random
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

START_S = 1_000.0
"""What the monotonic clock shows at the beginning of a schedule, in seconds."""
STEP_S = 20e-6
"""How long a callback takes, in virtual seconds."""
EPOCH_S = 1_790_000_000
"""The time of day at which the monotonic clock shows 0, in seconds since 1970."""

_process: contextvars.ContextVar["Process"] = contextvars.ContextVar("headrace_simulated_process")


class Process:
    """What is killed or frozen as a whole: a queue of callbacks."""

    def __init__(self, loop: "Loop", name: str) -> None:
        loop.process_count += 1
        self.loop = loop
        self.name = name
        self.number = loop.process_count
        self.alive = True
        self.frozen = False
        self.clock_offset_s = 0.0
        """By how much its time of day is wrong, in seconds."""
        self.token: str | None = None
        """The token that it identifies itself with, as in its environment."""
        self.at_death: list[Callable[[], None]] = []
        """Called when it is killed or has exited."""
        self.queue = deque[Callback]()
        self.context = contextvars.Context()
        self.context.run(_process.set, self)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str = "") -> "asyncio.Task[Any]":
        """Runs a coroutine in this process."""
        return self.loop.create_task(work, name=name or self.name, context=self.context.copy())

    def call(self, function: Callable[..., object], *args: object) -> None:
        """Calls a function in this process, soon."""
        self.loop.call_soon(function, *args, context=self.context.copy())

    def end(self) -> None:
        """Ends it: nothing of it runs afterwards."""
        if self.alive:
            self.alive = False
            self.queue.clear()
            self.loop.block(self)
            for function in self.at_death:
                function()

    def freeze(self) -> None:
        """Stops it, as SIGSTOP does."""
        if not self.frozen:
            self.frozen = True
            self.loop.block(self)

    def thaw(self) -> None:
        """Lets it continue, as SIGCONT does."""
        if self.frozen:
            self.frozen = False
            if self.queue and self.alive:
                self.loop.runnable.append(self)


class Callback:
    """A function that is to be called, in a process."""

    __slots__ = ("args", "context", "due", "function", "is_cancelled", "process")

    def __init__(
        self, function: Callable[..., object], args: tuple[object, ...], context: contextvars.Context, process: Process
    ) -> None:
        self.function = function
        self.args = args
        self.context = context
        self.process = process
        self.is_cancelled = False
        self.due = 0.0

    def cancel(self) -> None:
        """Prevents the call."""
        self.is_cancelled = True

    def cancelled(self) -> bool:
        """Returns whether the call was prevented."""
        return self.is_cancelled

    def when(self) -> float:
        """Returns when it is due, on the loop's clock."""
        return self.due


class Task(asyncio.Task[Any]):
    """A task whose hash is its number, so that a set of tasks has the same order in each run."""

    def __init__(self, work: Coroutine[Any, Any, Any], number: int, **more: Any) -> None:
        self._number = number
        super().__init__(work, **more)

    def __hash__(self) -> int:
        return self._number


class Future(asyncio.Future[Any]):
    """A future whose hash is its number."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class Loop(asyncio.AbstractEventLoop):
    """The event loop of one schedule."""

    def __init__(self, source: random.Random, sticky: float = 0.0) -> None:
        """Creates a loop.

        Args:
            source: Decides which process runs next.
            sticky: The probability that the process which has just run runs again.
        """
        self._source = source
        self._sticky = sticky
        self._timers: list[tuple[float, int, Callback]] = []
        """When each is due, and a number that no other has, so that callbacks themselves are never compared."""
        self._last: Process | None = None
        self._numbers = 0
        self.now = START_S
        self.process_count = 0
        self.runnable: list[Process] = []
        """The processes that have a callback to run."""
        self.callbacks = 0
        """How many callbacks have run."""
        self.next_trigger = sys.maxsize
        """Before the callback of this number, `trigger` is called."""
        self.trigger: Callable[[], None] = lambda: None
        self.digest = 0
        """Depends on which processes have run, and when."""
        self.tasks: list[tuple[Process, asyncio.Task[Any]]] = []
        """All tasks. They are kept: a task that is dropped would run its `finally` blocks, also one of a killed process."""
        self.unhandled: Callable[[dict[str, Any]], None] = lambda context: None
        """Called with each error that nobody has handled."""
        self.world = Process(self, "world")
        """The process of the simulation itself."""

    def run(self, main: "asyncio.Future[Any]", most: int) -> bool:
        """Runs until a future is done; returns False if it cannot be, or not within this number of callbacks."""
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self._end_generator)
        asyncio.events._set_running_loop(self)
        try:
            while not main.done():
                if self.callbacks >= most or not self._run_next():
                    return False
            return True
        finally:
            asyncio.events._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def _run_next(self) -> bool:
        """Runs one callback; returns False if there will never be one."""
        timers, runnable = self._timers, self.runnable
        if runnable:
            self.now += STEP_S
        else:
            while timers and timers[0][2].is_cancelled:
                heapq.heappop(timers)
            if not timers:
                return False
            self.now = max(self.now, timers[0][0])
        now = self.now
        while timers and timers[0][0] <= now:
            due = heapq.heappop(timers)[2]
            if not due.is_cancelled:
                self._enqueue(due)
        if not runnable:
            return True
        self.callbacks += 1
        if self.callbacks >= self.next_trigger:
            self.trigger()
            if not runnable:
                return True
        index = self._choose() if len(runnable) > 1 else 0
        process = self._last = runnable[index]
        callback = process.queue.popleft()
        if not process.queue:
            runnable[index] = runnable[-1]
            runnable.pop()
        if not callback.is_cancelled:
            self.digest = hash((self.digest, process.number, now))
            try:
                callback.context.run(callback.function, *callback.args)
            except Exception as error:
                self.call_exception_handler({"message": f"callback {callback.function}", "exception": error})
        return True

    def _choose(self) -> int:
        runnable = self.runnable
        if self._sticky and self._last in runnable and self._source.random() < self._sticky:
            return runnable.index(self._last)
        return int(self._source.random() * len(runnable))

    def _enqueue(self, callback: Callback) -> None:
        process = callback.process
        if process.alive:
            process.queue.append(callback)
            if len(process.queue) == 1 and not process.frozen:
                self.runnable.append(process)

    def block(self, process: Process) -> None:
        """Removes a process from the ones that can run."""
        if process in self.runnable:
            self.runnable.remove(process)

    def current(self) -> Process:
        """Returns the process whose callback runs."""
        return _process.get(self.world)

    # What asyncio needs of a loop.

    def time(self) -> float:
        """Returns the virtual time."""
        return self.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: object, context: contextvars.Context | None = None
    ) -> Callback:
        """Calls a function after what is already scheduled in its process."""
        if context is None:
            context = contextvars.copy_context()
        process = context.get(_process, self.world)
        found = Callback(callback, args, context, process)
        if process.alive:
            queue = process.queue
            queue.append(found)
            if len(queue) == 1 and not process.frozen:
                self.runnable.append(process)
        return found

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: object, context: contextvars.Context | None = None
    ) -> Callback:
        """As `call_soon`: there are no threads."""
        return self.call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: object, context: contextvars.Context | None = None
    ) -> Callback:
        """Calls a function at a time."""
        if context is None:
            context = contextvars.copy_context()
        found = Callback(callback, args, context, context.get(_process, self.world))
        self._numbers += 1
        found.due = when
        heapq.heappush(self._timers, (when, self._numbers, found))
        return found

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: object, context: contextvars.Context | None = None
    ) -> Callback:
        """Calls a function after a time."""
        return self.call_at(self.now + delay, callback, *args, context=context)

    def create_future(self) -> "asyncio.Future[Any]":
        """Returns a future of this loop."""
        self._numbers += 1
        found = Future(loop=self)
        found.number = self._numbers
        return found

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: contextvars.Context | None = None
    ) -> "asyncio.Task[Any]":
        """Runs a coroutine in the current process, or in the process of the context."""
        if context is None:
            context = contextvars.copy_context()
        self._numbers += 1
        task = Task(coro, self._numbers, loop=self, name=name, context=context)
        self.tasks.append((context.get(_process, self.world), task))
        return task

    def get_debug(self) -> bool:
        """Returns False: nothing is traced."""
        return False

    def is_closed(self) -> bool:
        """Returns False: a loop is thrown away and not closed."""
        return False

    def is_running(self) -> bool:
        """Returns True: only what it runs can ask."""
        return True

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Takes an error that nobody has handled."""
        self.unhandled(context)

    def _end_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Ends a generator that was dropped while it was suspended, as asyncio does."""
        process = self.current()
        if process.alive:
            process.spawn(generator.aclose(), name="the end of a generator")


class VirtualClock:
    """The clock of a loop, for `headrace.contract.clock`."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        """Returns the time of the loop."""
        return self._loop.now

    def now_ns(self) -> int:
        """Returns the time of day, as the current process takes it to be."""
        return int((EPOCH_S + self._loop.now + self._loop.current().clock_offset_s) * 1e9)
