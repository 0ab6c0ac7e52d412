"""The roles of a schedule: each is played by a process, and by another one once that is gone."""

import asyncio
from collections.abc import Callable

from headrace.simulation.loop import Process
from headrace.simulation.record import Record

RESTART_S = 0.5
"""After how long a process that has exited is started again, in seconds."""


class Role:
    """A role."""

    def __init__(self, record: Record, world: Process, name: str, play: "Callable[[Role, Process], None]") -> None:
        """Creates a role, which nobody plays yet.

        Args:
            record: The record.
            world: The process of the simulation itself, which starts the others.
            name: The name of the role.
            play: Starts to play it in a process.
        """
        self._record = record
        self._world = world
        self._play = play
        self.name = name
        self.count = 0
        """How many processes have played it."""
        self.process: Process | None = None
        self.processes: list[Process] = []
        self.stop: asyncio.Event | None = None
        """Stops the process in an orderly way."""
        self.clock_offset_s = 0.0
        self.token: str | None = None
        """The token of the next process."""

    @property
    def is_played(self) -> bool:
        """Whether a process plays it."""
        return self.process is not None and self.process.alive

    def start(self) -> None:
        """Starts a process that plays it."""
        self.count += 1
        process = self.process = Process(self._world.loop, f"{self.name}#{self.count}")
        process.clock_offset_s, process.token = self.clock_offset_s, self.token
        self.processes.append(process)
        self._record.started(self.name)
        self._record.log(f"{process.name} starts")
        self._play(self, process)

    def start_after(self, seconds: float) -> None:
        """Starts it later, unless something else has started it by then."""
        count = self.count

        def start() -> None:
            if self.count == count and self._record.is_open:
                self.start()

        self._world.loop.call_later(seconds, start, context=self._world.context)

    def kill(self, restart_s: float) -> None:
        """Kills the process that plays it, if there is one, and starts another one later."""
        if self.process is not None and self.process.alive:
            self._record.log(f"{self.process.name} is killed")
            self.process.end()
        self.start_after(restart_s)

    def exited(self, process: Process, restart_s: float = RESTART_S) -> None:
        """A process has exited by itself."""
        self._record.log(f"{process.name} exits")
        process.end()
        if process is self.process:
            self.start_after(restart_s)
