"""A run: senders keep sending, processes are killed on schedule, and the result is compared with what was sent."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from headrace.laboratory.chaos.evidence import JournalReader
from headrace.laboratory.chaos.schedule import How, Role, Strike, schedule
from headrace.laboratory.chaos.shown import eventually_shown
from headrace.laboratory.chaos.validator import Finding
from headrace.laboratory.chaos.workload import STREAMS
from headrace.laboratory.chaos.world import World

START_WITHIN_S = 300.0
RECOVERS_WITHIN_S = 300.0
RESTS_WITHIN_S = 300.0
SINK_INSTANCES = 2
"""The number of processes that serve each sink; they are killed in turn."""
_OFFER_EVERY_S = 0.1
_AT_A_TIME = 2
_MAX_BEHIND = 40
"""A sender waits when the sinks are this many messages behind, so that killed processes catch up within seconds."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Killed:
    """A SIGKILL that was sent.

    Attributes:
        roles: The roles that were killed.
        pids: Their process ids.
        at_s: When, in seconds since everything was running.
        in_recovery: Whether the victims before had not recovered yet.
        recovered_s: Seconds until messages that every sender sent after the kill were visible in both sinks.
        how: What happened to them.
    """

    roles: tuple[Role, ...]
    pids: tuple[int, ...]
    at_s: float
    in_recovery: bool
    recovered_s: float
    how: How = How.KILL


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    kills: tuple[Killed, ...]
    messages: int
    """The number of messages sent, by all senders together."""
    failed_queries: int
    """How often a query failed and was restarted."""
    findings: tuple[Finding, ...]
    elapsed_s: float
    """Seconds from when everything was running to the verdict."""


@dataclass(frozen=True)
class _Blow:
    """Simultaneous kills, until their victims have recovered."""

    roles: tuple[Role, ...]
    pids: tuple[int, ...]
    at_s: float
    in_recovery: bool
    offered: int
    how: How = How.KILL


@dataclass
class Run:
    """A run in a folder. All of its processes have ended once `to_the_end` returns or raises."""

    folder: Path
    seed: int
    seconds: float
    """For how long processes are killed."""
    master: str
    say: Say
    kills: list[Killed] = field(default_factory=list)

    def to_the_end(self) -> Outcome:
        """Runs everything, and returns the outcome.

        Raises:
            ChaosError: A process did not recover in time.
        """
        world = World(self.folder, master=self.master, instances=SINK_INSTANCES)
        try:
            self.say(f"Spark is starting ({self.master})")
            world.start(START_WITHIN_S)
            self._began = time.monotonic()
            with _offering(world):
                strikes = takewhile(lambda _: self._now() < self.seconds, schedule(self.seed))
                for strike in strikes:
                    self._carry_out(world, strike)
            self.say(f"{self._now():6.1f} s  {len(self.kills)} kills; waiting for the last messages")
            world.rest(RESTS_WITHIN_S)
            gateway_ran_on = not any(Role.GATEWAY in killed.roles for killed in self.kills)
            shown = eventually_shown(world.gateway, world.http, world.layout, world.offered, counts_all=gateway_ran_on)
            findings = [*world.verdict(), *shown]
            failures = len(list(JournalReader(world.layout.failures).new()))
            return Outcome(tuple(self.kills), world.offered * len(STREAMS), failures, tuple(findings), self._now())
        finally:
            world.dispose()

    def _carry_out(self, world: World, strike: Strike) -> None:
        """Waits, kills the victims, and waits until all have recovered."""
        self._pass_time(world, strike.pause_s)
        if strike.how is not How.KILL:
            self._replace_driver(world, strike.how)
            return
        blows = [self._kill(world, strike.first, in_recovery=False)]
        if strike.second is not None:
            self._pass_time(world, strike.second_after_s)
            in_recovery = not self._has_recovered(world, blows[0])
            if not in_recovery:
                self._note(blows.pop())
            blows.append(self._kill(world, (strike.second,), in_recovery))
        for blow in blows:
            who = " and ".join(blow.roles)
            world.wait_for(f"{who} recovers", lambda blow=blow: self._has_recovered(world, blow), RECOVERS_WITHIN_S)  # type: ignore[misc]
            self._note(blow)

    def _kill(self, world: World, roles: Sequence[Role], in_recovery: bool) -> _Blow:
        offered, at_s = world.offered, self._now()
        pids = tuple(pid for pid in [world.kill(role) for role in roles] if pid is not None)
        for role in roles:
            world.restart(role)
        while_ = ", while others recover" if in_recovery else ""
        self.say(f"{at_s:6.1f} s  kill -9 {' and '.join(roles)} ({', '.join(map(str, pids)) or 'none runs'}){while_}")
        return _Blow(tuple(roles), pids, at_s, in_recovery, offered)

    def _replace_driver(self, world: World, how: How) -> None:
        """Starts another driver next to the present one, and waits until that has ended and the new one has recovered."""
        offered, at_s = world.offered, self._now()
        pid = world.replace_driver(pausing=how is How.STALE)
        does = "is paused" if how is How.STALE else "continues"
        self.say(f"{at_s:6.1f} s  another driver starts, and the one before {does} ({pid or 'none runs'})")
        blow = _Blow((Role.DRIVER,), (pid,) if pid else (), at_s, in_recovery=False, offered=offered, how=how)
        world.wait_for("the new driver recovers", lambda: self._has_recovered(world, blow), RECOVERS_WITHIN_S)
        self._note(blow)
        world.wake()
        world.wait_for("the driver before ends by itself", world.is_alone, RECOVERS_WITHIN_S)
        self.say(f"{self._now():6.1f} s  the driver before has ended")

    def _has_recovered(self, world: World, blow: _Blow) -> bool:
        return world.offered - world.lag() > blow.offered

    def _note(self, blow: _Blow) -> None:
        recovered_s = self._now() - blow.at_s
        self.kills.append(Killed(blow.roles, blow.pids, blow.at_s, blow.in_recovery, recovered_s, blow.how))
        self.say(f"{self._now():6.1f} s  {' and '.join(blow.roles)}: recovered {recovered_s:.1f} s after the kill")

    def _pass_time(self, world: World, seconds: float) -> None:
        until = time.monotonic() + seconds
        world.wait_for("time passes", lambda: time.monotonic() >= until)

    def _now(self) -> float:
        return time.monotonic() - self._began


@contextmanager
def _offering(world: World) -> Iterator[None]:
    """Makes the senders send until the block ends, except while the sinks are far behind."""
    over = threading.Event()

    def offer() -> None:
        while not over.wait(_OFFER_EVERY_S):
            if world.lag() < _MAX_BEHIND:
                world.offer(_AT_A_TIME)

    thread = threading.Thread(target=offer, name="headrace-offering", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
