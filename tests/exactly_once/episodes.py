"""A world in which processes die at named points, one episode after another."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.exactly_once.points import Point
from tests.faults.processes import write_whole

from headrace.laboratory.chaos import Role, World
from headrace.processes import lives

HOOKS = Path(__file__).parent / "hooks"
OFFERED = 30
"""Messages that each of the eleven senders sends for a fault: a batch has at most 400, so that several are on their way."""
MAX_OFFERED = 2500
"""So many each, and a new world is made: the validator compares everything that was ever sent."""


class Faults:
    """The folder by which points are armed, and which tells what has been reached."""

    def __init__(self, folder: Path, driver: Path | None = None) -> None:
        """Makes the folder; `driver` is the file that has the driver's process id, which points of the driver need."""
        self._folder, self._driver = folder, driver
        for name in ("armed", "reached"):
            (folder / name).mkdir(parents=True)

    @property
    def environ(self) -> dict[str, str]:
        """What every process needs in its environment to die at armed points."""
        path = os.pathsep.join(filter(None, (str(HOOKS), os.environ.get("PYTHONPATH"))))
        return {"PYTHONPATH": path, "HEADRACE_FAULTS": str(self._folder), "HEADRACE_FAULTS_DRIVER": str(self._driver or "")}

    def arm(self, point: Point, victim: int | None = None) -> None:
        """Has the next process that reaches a point die there, or kill a process group instead: its leader is the victim."""
        (self._folder / "reached" / point.name).unlink(missing_ok=True)
        write_whole(self._folder / "armed" / point.name, "" if victim is None else str(victim))

    def victim(self, point: Point) -> int | None:
        """The process that has died at a point since it was armed, or is about to; None where none has."""
        file = self._folder / "reached" / point.name
        text = file.read_text() if file.exists() else ""
        return int(text) if text.endswith("\n") else None


@dataclass(frozen=True)
class Death:
    """The processes of a role are killed when one of them, or another process, reaches a point."""

    role: str
    point: Point

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.role} at {self.point.name}"


class Mortal(Protocol):
    """A world whose roles die."""

    def arm(self, death: Death) -> None:
        """Has the processes of a role die when the point is reached."""

    def offer(self) -> None:
        """Has the source send more, so that there is something to do in which the point is reached."""

    def wait_for_death(self, death: Death) -> None:
        """Waits until they have died there."""

    def restart(self, role: str) -> None:
        """Starts what has died."""


def play(world: Mortal, deaths: Sequence[Death]) -> None:
    """Has a role die at each point, each one during the recovery from the death before. All live again in the end."""
    fallen: str | None = None
    for death in deaths:
        if fallen == death.role:
            world.restart(fallen)
            fallen = None
        world.arm(death)
        world.offer()
        if fallen is not None:
            world.restart(fallen)
        world.wait_for_death(death)
        fallen = death.role
    if fallen is not None:
        world.restart(fallen)


class Stage:
    """A world that continues from episode to episode."""

    def __init__(self, folder: Path) -> None:
        """Makes it, and starts nothing."""
        self._faults = Faults(folder / "faults", folder / "world" / "driver.pid")
        self.world = World(folder / "world", environ=self._faults.environ)

    def play(self, points: Sequence[Point]) -> None:
        """Has a process die at each point, each one during the recovery from the one before, and waits until all is well.

        Messages are offered as each point is armed, and the process that died before is started again only then. So there is
        something to catch up with, in which the point is met.
        """
        fallen: list[Role] = []
        for point in points:
            self._faults.arm(point)
            self.world.offer(OFFERED)
            self._restart(fallen)
            fallen.append(self._wait_for_death_at(point))
        self._restart(fallen)
        self.finish()

    def finish(self) -> None:
        """Waits until everything is visible and acknowledged, and compares it with what was sent."""
        self.world.rest()
        assert [str(finding) for finding in self.world.verdict()] == []

    def pass_time(self, seconds: float) -> None:
        """Goes on for a while, in which nobody may end by himself."""
        until = time.monotonic() + seconds
        self.world.wait_for("time passes", lambda: time.monotonic() >= until)

    def _restart(self, fallen: list[Role]) -> None:
        while fallen:
            self.world.restart(fallen.pop())

    def _wait_for_death_at(self, point: Point) -> Role:
        role = Role(point.role)
        self.world.wait_for(f"{point.name} is reached", lambda: self._is_reached(point))
        victim = self._faults.victim(point)
        assert victim is not None
        self.world.wait_for(f"{role} has died", lambda: self._is_dead(role, victim))
        return role

    def _is_reached(self, point: Point) -> bool:
        """Offers more where all is done without anybody at the point: what is left when it is armed may not lead to it."""
        if self._faults.victim(point) is None and self.world.is_at_rest():
            self.world.offer(OFFERED)
        return self._faults.victim(point) is not None

    def _is_dead(self, role: Role, victim: int) -> bool:
        if role not in (Role.DRIVER, Role.EXECUTOR):
            assert victim == self.world.pid(role) or self.world.ended(role), f"{victim} has died as {role}, and is another one"
        if role != Role.EXECUTOR and not self.world.ended(role):
            return False
        return not lives(victim)


class Stages:
    """The stage that continues from episode to episode. One on which something went wrong is not used again."""

    def __init__(self, new_folder: Callable[[], Path]) -> None:
        """Makes the first one when it is needed."""
        self._new_folder = new_folder
        self._stage: Stage | None = None

    @contextmanager
    def current(self) -> Iterator[Stage]:
        """A stage on which all is well."""
        if self._stage is not None and self._stage.world.offered >= MAX_OFFERED:
            self.dispose()
        if self._stage is None:
            self._stage = Stage(self._new_folder())
        try:
            if not self._stage.world.offered:
                self._stage.world.start()
            yield self._stage
        except BaseException:
            self.dispose()
            raise

    def dispose(self) -> None:
        """Ends what runs."""
        if self._stage is not None:
            self._stage.world.dispose()
            self._stage = None
