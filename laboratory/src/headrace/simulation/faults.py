"""Lets the faults of a schedule strike: at a time, before a callback, or at a point."""

import functools
import random
import sys
from collections.abc import Callable, Iterator, Mapping

from headrace.gateway.core import Gateway, ProtocolError
from headrace.gateway.core.control import Caller, forget_pipeline, pause, reload, resume
from headrace.gateway.core.streams import PartKind
from headrace.simulation.configuration import Configuration
from headrace.simulation.loop import START_S, Loop, Process
from headrace.simulation.network import Call, Network
from headrace.simulation.record import Record
from headrace.simulation.roles import Role
from headrace.simulation.schedule import Fault, Schedule
from headrace.simulation.systems import Log

OPERATOR = Caller("the simulation", "simulated", sees_names=True)
STREAMING = ("Ingest", "Attach", "Deliver")
MAX_IN_BURST = 30


class Faults:
    """The faults of one schedule."""

    def __init__(
        self,
        schedule: Schedule,
        record: Record,
        network: Network,
        roles: Mapping[str, Role],
        logs: Mapping[str, Log],
        configuration: Configuration,
        gateways: Mapping[str, Gateway],
        source: random.Random,
    ) -> None:
        self._schedule = schedule
        self._record = record
        self._network = network
        self._roles = roles
        self._logs = logs
        self._configuration = configuration
        self._gateways = gateways
        self._random = source
        self._actions: Mapping[str, Callable[[Fault], None]] = {
            "crash": self._crash,
            "crash-two": self._crash_two,
            "crash-all": self._crash_all,
            "freeze": self._freeze,
            "cut": self._cut,
            "unreachable": self._cut_off,
            "half-close": self._half_close,
            "move": self._move,
            "share": self._share,
            "stop": self._stop,
            "second": self._start_second,
            "pause": self._pause,
            "reload": self._reload,
            "revoke": self._revoke,
            "forget": self._forget,
            "clock": self._set_clock,
            "add": self._add_partition,
            "end": self._end_partition,
            "remove": self._end_partition,
            "close": self._close_partition,
            "fail": self._fail,
            "burst": self._burst,
        }

    @property
    def _loop(self) -> Loop:
        return self._network.loop

    def arm(self) -> None:
        """Lets each fault wait for its time, callback or point."""
        loop, waiting = self._loop, list[Fault]()
        for fault in self._schedule.faults:
            if fault.at.what == "time":
                loop.call_at(START_S + fault.at.number, self._strike, fault, context=loop.world.context)
            elif fault.at.what == "callback":
                waiting.append(fault)
            else:
                key = fault.at.point, int(fault.at.number)
                self._record.at_point.setdefault(key, []).append(functools.partial(self._strike, fault))
        waiting.sort(key=lambda fault: fault.at.number, reverse=True)

        def strike_waiting() -> None:
            while waiting and loop.callbacks >= waiting[-1].at.number:
                self._strike(waiting.pop())
            loop.next_trigger = int(waiting[-1].at.number) if waiting else sys.maxsize

        loop.trigger = strike_waiting
        loop.next_trigger = int(waiting[-1].at.number) if waiting else sys.maxsize

    def heal(self) -> None:
        """Ends all faults: everything runs and reaches everything."""
        self._record.log("faults stop")
        self._record.heals = True
        self._network.unreachable.clear()
        self._end_sharing()
        for role in self._roles.values():
            for process in role.processes:
                process.thaw()
            if not role.is_played:
                role.start_after(0.1)

    def _strike(self, fault: Fault) -> None:
        if not self._record.heals:
            self._record.counts["faults"] += 1
            more = (fault.second, fault.what, f"for {fault.for_s} s" if fault.for_s else "")
            self._record.log(" ".join(filter(None, ("FAULT", fault.kind, fault.who, *more))))
            self._actions[fault.kind](fault)

    def _process(self, fault: Fault) -> Process | None:
        """Returns the process that plays the role of a fault; None if there is none."""
        role = self._roles[fault.who]
        return role.process if role.is_played else None

    def _later(self, seconds: float, function: Callable[..., object], *args: object) -> None:
        self._loop.call_later(seconds, function, *args, context=self._loop.world.context)

    # Processes.

    def _crash(self, fault: Fault) -> None:
        self._roles[fault.who].kill(fault.for_s)

    def _crash_two(self, fault: Fault) -> None:
        self._roles[fault.who].kill(fault.for_s)
        self._roles[fault.second].kill(fault.for_s)

    def _crash_all(self, fault: Fault) -> None:
        for role in self._roles.values():
            role.kill(self._random.random() * fault.for_s)

    def _freeze(self, fault: Fault) -> None:
        process = self._process(fault)
        if process is not None:
            process.freeze()
            self._later(fault.for_s, process.thaw)

    def _stop(self, fault: Fault) -> None:
        role, process = self._roles[fault.who], self._process(fault)
        if process is not None and role.stop is not None:
            process.call(role.stop.set)

    def _start_second(self, fault: Fault) -> None:
        """Starts a second process while the first one runs, or hangs. Two of a sink must not use one storage."""
        process = self._process(fault)
        if process is None or fault.who in self._schedule.gateway_names() or fault.who in self._schedule.instances():
            return
        if fault.for_s:
            process.freeze()
            self._later(fault.for_s, process.thaw)
        self._roles[fault.who].start()

    def _set_clock(self, fault: Fault) -> None:
        role, process = self._roles[fault.who], self._process(fault)
        role.clock_offset_s += fault.by_s
        if process is not None:
            process.clock_offset_s = role.clock_offset_s

    # The network.

    def _calls_of(self, who: str) -> Iterator[Call]:
        for call in list(self._network.calls):
            ends = [call.client] if call.server is None else [call.client, call.server.process]
            if any(process.name.startswith(f"{who}#") for process in ends):
                yield call

    def _cut(self, fault: Fault) -> None:
        for call in self._calls_of(fault.who):
            if self._random.random() < fault.share:
                call.break_off(fault.client_s, fault.server_s)

    def _cut_off(self, fault: Fault) -> None:
        """Breaks all connections, and lets no new ones begin for a while."""
        gateways = self._schedule.gateway_names()
        roles = [name for name in self._roles if name not in gateways] if fault.who in gateways else [fault.who]
        for name in roles:
            self._network.unreachable[name] = self._loop.now + fault.for_s
            for call in self._calls_of(name):
                call.break_off(self._random.random() * 3.0, self._random.random() * 12.0)

    def _half_close(self, fault: Fault) -> None:
        for call in list(self._network.calls):
            if call.method.rpartition("/")[2] in STREAMING and self._random.random() < 0.5:
                call.half_close()

    # Several gateways.

    def _move(self, fault: Fault) -> None:
        """Moves the address to another gateway: for everybody, or for one role only, as of a name that is looked up late.

        Connections break at once, or stay where they are until something else ends them.
        """
        network, names = self._network, self._schedule.gateway_names()
        others = [name for name in names if name != network.address] or names
        to = self._random.choice(others)
        if fault.who in names:
            network.address = to
            calls = list(network.calls)
        else:
            network.routes[fault.who] = to
            self._later(fault.for_s, network.routes.pop, fault.who, None)
            calls = list(self._calls_of(fault.who))
        for call in calls:
            if self._random.random() < fault.share:
                call.break_off(fault.client_s, fault.server_s)

    def _share(self, fault: Fault) -> None:
        """Lets all gateways have the address for a while."""
        self._network.is_shared = True
        self._later(fault.for_s, self._end_sharing)

    def _end_sharing(self) -> None:
        """Ends the connections to gateways that no longer have the address."""
        network = self._network
        network.is_shared = False
        if self._record.heals:
            network.routes.clear()
        for call in list(network.calls):
            if call.server is not None and not call.server.process.name.startswith(f"{network.address}#"):
                call.break_off(self._random.random() * 3.0, self._random.random() * 3.0)

    # Systems and operators.

    def _pause(self, fault: Fault) -> None:
        found = self._serving(self._network.address)
        if found is None:
            return
        process, gateway = found
        kind = PartKind(fault.what)
        log = self._random.choice(list(self._logs.values()))
        name = {
            PartKind.STREAM: f"{log.name}/{self._random.choice(list(log.messages))}",
            PartKind.CONNECTOR: f"{log.name}-0",
            PartKind.PIPELINE: f"pipeline-{self._random.choice(self._schedule.queries).name}",
            PartKind.SINK: self._random.choice(self._schedule.sinks).name,
        }[kind]

        process.call(self._act, pause, gateway, OPERATOR, kind, name)
        self._later(fault.for_s, process.call, self._act, resume, gateway, OPERATOR, kind, name)

    def _act(self, function: Callable[..., object], *args: object) -> None:
        """Does what an operator requests, if the gateway does not refuse it."""
        try:
            function(*args)
        except ProtocolError as error:
            self._record.log(f"the operator is refused: {error}")

    def _serving(self, name: str) -> tuple[Process, Gateway] | None:
        """Returns the process that plays a gateway, and the gateway; None if it does not run."""
        process = self._roles[name].process
        if process is None or not process.alive or name not in self._gateways:
            return None
        return process, self._gateways[name]

    def _apply_configuration(self) -> None:
        for name in self._schedule.gateway_names():
            if (found := self._serving(name)) is not None:
                process, gateway = found
                process.call(self._act, reload, gateway, OPERATOR)

    def _reload(self, fault: Fault) -> None:
        """Pauses the streams of a log by the configuration for a while."""
        log = self._random.choice(list(self._logs.values()))
        self._configuration.pause(f"{log.name}/*")
        self._apply_configuration()
        self._later(fault.for_s, self._configuration.pause)
        self._later(fault.for_s, self._apply_configuration)

    def _revoke(self, fault: Fault) -> None:
        """Replaces the token: the processes that have the old one are refused, and start again with the new one."""
        if self._configuration.token is not None:
            self._configuration.replace_token()
            for role in self._roles.values():
                role.token = self._configuration.token
            self._apply_configuration()

    def _forget(self, fault: Fault) -> None:
        """Forgets a query that is the only one: it attaches again, and nothing was acknowledged without it."""
        found = self._serving(self._network.address)
        if found is not None and len(self._schedule.queries) == 1:
            process, gateway = found
            name = f"pipeline-{self._schedule.queries[0].name}"
            process.call(self._act, functools.partial(forget_pipeline, force=True), gateway, OPERATOR, name)

    def _add_partition(self, fault: Fault) -> None:
        log = self._random.choice(list(self._logs.values()))
        partition = str(len(log.messages))
        log.add(partition)
        for _ in range(self._random.randint(0, 10)):
            log.append(partition, self._random, self._schedule.conditions.message_bytes)

    def _end_partition(self, fault: Fault) -> None:
        log = self._random.choice(list(self._logs.values()))
        left = [partition for partition in log.messages if partition not in log.ended]
        if left:
            partition = self._random.choice(left)
            log.ended.add(partition)
            if fault.kind == "remove":
                log.gone.add(partition)

    def _close_partition(self, fault: Fault) -> None:
        log = self._random.choice(list(self._logs.values()))
        log.closing.add(self._random.choice(list(log.messages)))

    def _fail(self, fault: Fault) -> None:
        self._record.failing[fault.what] += 1

    def _burst(self, fault: Fault) -> None:
        for log in self._logs.values():
            for partition in log.messages:
                for _ in range(self._random.randint(1, MAX_IN_BURST)):
                    log.append(partition, self._random, self._schedule.conditions.message_bytes)
