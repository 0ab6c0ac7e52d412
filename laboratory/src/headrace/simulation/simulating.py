"""Runs one schedule from its beginning to its end, and throws its world away."""

import asyncio
import contextlib
import logging
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace.contract import backoff, clock
from headrace.engine.collector import paused_collector
from headrace.logs.repeats import fields_of
from headrace.simulation.loop import START_S, VirtualClock
from headrace.simulation.record import Record, Violation
from headrace.simulation.schedule import Schedule
from headrace.simulation.world import LIVENESS_S, World

MAX_CALLBACKS = 400_000
"""A schedule that needs more callbacks does not end."""


@dataclass(frozen=True)
class Result:
    """The result of a schedule.

    Attributes:
        schedule: The schedule.
        violations: What must not have happened.
        lines: The trace; empty unless it was wanted.
        story: Who did what when: the trace without the log of the gateway and the SDK.
        digest: Depends on which processes have run, and when.
        callbacks: How many callbacks have run.
        virtual_s: How long it was, in virtual seconds.
        cpu_s: How long it took, in processor seconds.
        counts: How many commits, rows and faults there were.
        points: How often each point was passed.
        notes: What broke a rule of the protocol, though with no effect in the end.
    """

    schedule: Schedule
    violations: tuple[Violation, ...]
    lines: tuple[str, ...]
    story: tuple[str, ...]
    digest: int
    callbacks: int
    virtual_s: float
    cpu_s: float
    counts: Counter[str]
    points: Counter[str]
    notes: Counter[str]

    @property
    def kinds(self) -> set[str]:
        """The kinds of the violations."""
        return {violation.kind for violation in self.violations}


def simulate(schedule: Schedule, *, traced: bool = False, liveness_s: float = LIVENESS_S) -> Result:
    """Runs a schedule.

    Args:
        schedule: The schedule.
        traced: Whether to keep the trace, with the log of the gateway and the SDK.
        liveness_s: Once faults have stopped, there must be progress within this time, in virtual seconds.
    """
    began = time.process_time()
    world = World(schedule, traced=traced, liveness_s=liveness_s)
    product = backoff.draw_from(random.Random(f"{schedule.seed}/product"))
    # When garbage is collected would depend on more than the seed.
    with paused_collector(), _logs(world.record), clock.use(VirtualClock(world.loop)), product:
        main = world.loop.create_task(world.run(), context=world.loop.world.context.copy())
        try:
            _run(world, main)
        finally:
            world.record.is_open = False
            _throw_away(world)
    record = world.record
    return Result(
        schedule=schedule,
        violations=tuple(record.violations),
        lines=tuple(record.lines),
        story=tuple(record.story),
        digest=world.loop.digest,
        callbacks=world.loop.callbacks,
        virtual_s=world.loop.now - START_S,
        cpu_s=time.process_time() - began,
        counts=record.counts,
        points=record.points,
        notes=record.notes,
    )


def _run(world: World, main: "asyncio.Task[Any]") -> None:
    """Runs the world to its end, and records what went wrong in tasks that nobody waits for."""
    if not world.loop.run(main, MAX_CALLBACKS):
        kind = "endless" if world.loop.callbacks >= MAX_CALLBACKS else "deadlock"
        world.record.violation(kind, f"after {world.loop.callbacks} callbacks: " + "; ".join(world.oracle.missing())[:1000])
    elif (error := main.exception()) is not None:
        world.record.failed("the simulation", error)
    for process, task in world.loop.tasks:
        if task.done() and not task.cancelled() and getattr(task, "_log_traceback", False):
            error = task.exception()
            if error is not None and task is not main and process.alive and not _belongs_to_driver(task):
                world.record.violation("task-error", f"{process.name}, {task.get_name()}: {type(error).__name__}: {error}")


def _belongs_to_driver(task: "asyncio.Task[Any]") -> bool:
    """Returns whether a task is one of the driver's model, which gives up some attempts and their errors."""
    frame = getattr(task.get_coro(), "cr_code", None)
    return frame is not None and "/simulation/" in frame.co_filename


def _throw_away(world: World) -> None:
    """Throws everything away: what suspended coroutines do then in their `finally` blocks has no effect."""
    loop, hook = world.loop, sys.unraisablehook
    sys.unraisablehook = lambda unraisable: None
    try:
        for process in (loop.world, *(process for role in world.roles.values() for process in role.processes)):
            process.alive = False
            process.queue.clear()
        for _, task in loop.tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with contextlib.suppress(BaseException), warnings.catch_warnings(action="ignore"):
                    task.get_coro().close()
        loop.tasks.clear()
        world.network.calls.clear()
    finally:
        sys.unraisablehook = hook


@contextlib.contextmanager
def _logs(record: Record) -> Iterator[None]:
    """Takes the log of the gateway and the SDK into the trace, or lets them log nothing."""
    disabled = logging.root.manager.disable
    logger = logging.getLogger("headrace")
    handlers, level, propagate = logger.handlers, logger.level, logger.propagate
    if record.traced:
        logger.handlers, logger.propagate = [_Handler(record)], False
        logger.setLevel(logging.DEBUG)
    else:
        logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(disabled)
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


class _Handler(logging.Handler):
    """Takes log lines into the trace."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self._record = record

    def emit(self, record: logging.LogRecord) -> None:
        """Takes a line."""
        fields = "".join(f" {name}={value}" for name, value in fields_of(record).items())
        self._record.detail(f"  {record.name}: {record.getMessage()}{fields}")
