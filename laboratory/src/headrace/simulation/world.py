"""The world of one schedule: its systems, its processes and what happens to them, until everything is at rest."""

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import grpc

from headrace.contract.errors import HeadraceError
from headrace.gateway.core import Gateway, run_housekeeping
from headrace.gateway.core.status import snapshot
from headrace.gateway.identity import AuthInterceptor, TokenRegistry
from headrace.gateway.observer import Observer
from headrace.gateway.reload import Reloading
from headrace.gateway.services import add_services
from headrace.sdk import FrameTarget, SessionTakenOver, Settings, SourceFailed, serve
from headrace.simulation import metrics, rest
from headrace.simulation.calls import transport
from headrace.simulation.checkpoint import Checkpoint
from headrace.simulation.configuration import Configuration
from headrace.simulation.connectors import PLANNED, AtLeastOnce, FeedSource, Idempotent, LogSource, QueueSource, TwoPhase
from headrace.simulation.driver import Driver
from headrace.simulation.engine import Engine
from headrace.simulation.faults import Faults
from headrace.simulation.loop import START_S, Loop, Process
from headrace.simulation.network import Details, Found, Network, Server
from headrace.simulation.oracle import Oracle
from headrace.simulation.record import Record, Violation
from headrace.simulation.roles import RESTART_S, Role
from headrace.simulation.schedule import AT_LEAST_ONCE, IDEMPOTENT, TWO_PHASE, Schedule, SinkPlan
from headrace.simulation.systems import Feed, Log, Queue, Storage

LIVENESS_S = 90.0
"""Once faults have stopped, something must progress within this time, in virtual seconds, until everything is as it must be."""
MAX_S = 1_200.0
"""Then it must be, after this time in seconds, however small the limits are."""
REST_S = 16.0
"""After how many more seconds everything is at rest: late notices of lost connections, housekeeping, reports."""
SECOND_LOOK_S = 15.0
"""After how many more seconds what was not at rest is looked at again: a message may have been under way, or an ended source
have started again too lately for its session to stand."""
LATE_CALL_S = 60.0
"""How long a gateway names a second driver after a call of a replaced run, in seconds."""
TABLES_S = 2.0
"""After how long, in seconds, the connector of a table starts at the latest: often after everything that waits for it."""
MAX_ROWS = 5
"""How many messages a partition of a table has at most before anything runs."""
PRODUCTIONS = 10

SINKS = {TWO_PHASE: TwoPhase, IDEMPOTENT: Idempotent, AT_LEAST_ONCE: AtLeastOnce}


class _Handlers:
    """Collects the handlers of the gateway's services, as a gRPC server does."""

    def __init__(self, registry: TokenRegistry) -> None:
        self._found: list[grpc.GenericRpcHandler] = []
        self._interceptor = AuthInterceptor(registry)

    def add_generic_rpc_handlers(self, handlers: tuple[grpc.GenericRpcHandler, ...]) -> None:
        self._found += handlers

    async def find(self, details: Details) -> Found:
        served = list[Any]()

        async def proceed(details: Any) -> Any:
            served.extend(found for handler in self._found if (found := handler.service(details)) is not None)
            return next(iter(served), None)

        handler = await self._interceptor.intercept_service(proceed, details)  # type: ignore[arg-type]
        return Found(handler, bool(served))


class World:
    """The world of one schedule."""

    def __init__(self, schedule: Schedule, *, traced: bool, liveness_s: float) -> None:
        self.schedule = schedule
        self._liveness_s = liveness_s
        self._conditions = conditions = schedule.conditions
        self.loop = Loop(self._source("order"), conditions.sticky)  # type: ignore[abstract]
        self.record = Record(self.loop, self._source("hiccups"), conditions.hiccups, traced=traced)
        self.loop.unhandled = self._unhandled
        self.network = Network(self.loop, self._source("network"), self.record.failed, self.record.passed, self.record.said)
        self.logs = {plan.name: Log(plan.name, plan.prunes) for plan in schedule.sources if plan.is_log}
        self.queues = {plan.name: Queue(plan.name) for plan in schedule.sources if plan.redelivers}
        self.feeds = {plan.name: Feed(plan.name) for plan in schedule.sources if plan.resumes}
        self._systems: dict[str, Log | Queue | Feed] = {**self.logs, **self.queues, **self.feeds}
        for plan in schedule.sources:
            for number in range(plan.partitions):
                self._systems[plan.name].add(str(number))
        self._tables = {table for query in schedule.queries for table in query.tables}
        self._fill_tables()
        self.checkpoints = {query.name: Checkpoint(query.name, f"pipeline-{query.name}") for query in schedule.queries}
        self.storages = [Storage(plan.name, f"{plan.name}-{n}") for plan in schedule.sinks for n in range(plan.instances)]
        self.oracle = Oracle(schedule, self.record, self.logs, self.queues, self.feeds, self.storages, self.checkpoints)
        self.gateways: dict[str, Gateway] = {}
        self.observers: dict[Gateway, Observer] = {}
        self.configuration = Configuration(schedule)
        self.roles = dict(self._roles())
        for role in self.roles.values():
            role.token = self.configuration.token
        for name, ahead_s in zip(schedule.gateway_names(), conditions.clocks_s, strict=False):
            self.roles[name].clock_offset_s = ahead_s
        self.healed_at: float | None = None
        self.faults = Faults(
            schedule,
            self.record,
            self.network,
            self.roles,
            self.logs,
            self.configuration,
            self.gateways,
            self._source("faults"),
        )

    def _source(self, what: str) -> random.Random:
        """Returns a source of randomness of its own, so that more of one kind changes nothing of another."""
        return random.Random(f"{self.schedule.seed}/{what}")

    def _unhandled(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        process = self.loop.current()
        if error is not None and process.alive:
            self.record.failed(f"{process.name}, {context.get('message')}", error)

    # The roles.

    def _roles(self) -> Iterator[tuple[str, Role]]:
        def role(name: str, play: Any) -> tuple[str, Role]:
            return name, Role(self.record, self.loop.world, name, play)

        for name in self.schedule.gateway_names():
            yield role(name, self._play_gateway)
        for plan in self.schedule.sources:
            play = self._play_queue if plan.redelivers else self._play_feed if plan.resumes else self._play_log
            yield role(plan.name, play)
        for storage in self.storages:
            yield role(storage.instance, self._play_sink)
        for query in self.schedule.queries:
            yield role(query.name, self._play_driver)

    def _play_gateway(self, role: Role, process: Process) -> None:
        async def play() -> None:
            # Not before: the configuration may have changed since the process was started.
            config = self.configuration.config
            gateway = self.gateways[role.name] = Gateway(config.limits, config.streams, config.paused)
            registry = TokenRegistry(config.tokens)
            handlers = _Handlers(registry)
            gateway.reload = Reloading(self.configuration.source(), config, registry, gateway).reload
            observer = self.observers[gateway] = Observer(gateway, config.http)
            add_services(gateway, handlers, observer)  # type: ignore[arg-type]
            self.network.servers[role.name] = Server(process, handlers.find)
            role.stop = asyncio.Event()
            housekeeping = asyncio.create_task(run_housekeeping(gateway))
            await role.stop.wait()
            await gateway.drain()
            gateway.close()
            await asyncio.sleep(1.0)
            housekeeping.cancel()

        self._spawn(role, process, play())

    def _play_log(self, role: Role, process: Process) -> None:
        moved_cursors = self._conditions.moved_cursors
        source = LogSource(self.record, self.oracle, self.logs[role.name], self._source(process.name), moved_cursors)
        self._serve(role, process, source, f"{role.name}-0")

    def _play_queue(self, role: Role, process: Process) -> None:
        source = QueueSource(self.record, self.oracle, self.queues[role.name], self._source(process.name), process)
        self._serve(role, process, source, f"{role.name}-0")

    def _play_feed(self, role: Role, process: Process) -> None:
        source = FeedSource(self.record, self.oracle, self.feeds[role.name], self._source(process.name))
        self._serve(role, process, source, f"{role.name}-0")

    def _play_sink(self, role: Role, process: Process) -> None:
        storage = next(storage for storage in self.storages if storage.instance == role.name)
        plan: SinkPlan = next(plan for plan in self.schedule.sinks if plan.name == storage.sink)
        sink = SINKS[plan.mode](self.record, self.oracle, storage, self._source(process.name))
        self._serve(role, process, sink, storage.instance)

    def _serve(self, role: Role, process: Process, connector: Any, instance: str) -> None:
        settings = Settings(
            frame=FrameTarget(messages=self._conditions.frame_messages),
            drain_seconds=self._conditions.drain_s,
            partition_poll_seconds=1.0,
            welcome_seconds=3.0,
            stuck_seconds=1.0,
        )

        async def play() -> None:
            role.stop = stop = asyncio.Event()
            reach = transport(self.network)
            try:
                await serve(
                    connector,
                    gateway="127.0.0.1:1",
                    instance=instance,
                    token=process.token,
                    settings=settings,
                    stop=stop,
                    transport=reach,
                )
            except HeadraceError as error:
                self.record.log(f"{process.name} fails: {error}")
                planned = isinstance(error, SourceFailed) and PLANNED in str(error)
                revoked = process.token != self.configuration.token
                if not planned and not revoked and not isinstance(error, SessionTakenOver):
                    self.record.violation("refused", f"{process.name}: {type(error).__name__}: {error}")

        self._spawn(role, process, play())

    def _play_driver(self, role: Role, process: Process) -> None:
        query = next(query for query in self.schedule.queries if query.name == role.name)
        engine = Engine(
            query=query,
            bootstraps=self.schedule.bootstraps(query),
            checkpoint=self.checkpoints[role.name],
            conditions=self._conditions,
            network=self.network,
            record=self.record,
            oracle=self.oracle,
            process=process,
            random=self._source(process.name),
        )

        # Now: a second process may have started when this one begins to play.
        run_id = f"run{role.count}-{role.name}"

        async def play() -> None:
            driver = Driver(engine, run_id)
            role.stop = driver.stopping
            await driver.run()

        self._spawn(role, process, play())

    def _spawn(self, role: Role, process: Process, play: Any) -> None:
        async def guarded() -> None:
            try:
                await play
            except Exception as error:
                self.record.failed(process.name, error)
            # A source that has ended would end again at once, over and over.
            role.exited(process, REST_S if self.oracle.is_done else RESTART_S)

        process.spawn(guarded())

    # What happens.

    async def run(self) -> None:
        """Lets everything happen, and checks that all of it ends well."""
        begin = self._source("begin")
        for role in self.roles.values():
            role.start_after(begin.random() * (TABLES_S if role.name in self._tables else 0.3))
        self.faults.arm()
        await self._produce()
        await asyncio.sleep(max(0.0, START_S + self._conditions.fault_s - self.loop.now))
        self.faults.heal()
        self.healed_at = self.loop.now
        progress, since = self.record.counts["progress"], self.loop.now
        while missing := self.oracle.missing():
            if progress != self.record.counts["progress"]:
                progress, since = self.record.counts["progress"], self.loop.now
            if self.loop.now >= min(since + self._liveness_s, self.healed_at + MAX_S):
                self.record.violation("stuck", "; ".join(missing)[:1500])
                return
            await asyncio.sleep(0.5)
        self.oracle.is_done = True
        self.record.log("everything is committed, shown and acknowledged")
        await asyncio.sleep(self._conditions.look_s)
        if missing := self.oracle.missing():
            self.record.violation("unstable", "; ".join(missing)[:1500])
        if await self._restless():
            await asyncio.sleep(REST_S - self._conditions.look_s + SECOND_LOOK_S)
            if any(gateway.drivers.rival(name) is not None for gateway in self.gateways.values() for name in gateway.pipelines):
                # The last call of a run that was killed may have come after its successor had attached. Nothing tells it from
                # the only one that a second driver makes.
                await asyncio.sleep(LATE_CALL_S)
        for each in await self._restless():
            self.record.violation(each.kind, each.text)

    async def _restless(self) -> list[Violation]:
        """Returns what is not at rest."""
        has_jumped = any(fault.kind == "clock" for fault in self.schedule.faults)
        gateway = self.gateways[self.network.address]
        status = await snapshot(gateway)
        ends: dict[str, Log | Feed] = {**self.logs, **self.feeds}
        told = rest.status_violations(status, list(self.checkpoints.values()), ends, self.record, has_jumped=has_jumped)
        observed = await self.observers[gateway].current()
        found = metrics.violations(
            metrics.Metrics(observed),
            gateway,
            self.network.servers[self.network.address],
            self.schedule,
            self.logs,
            self.queues,
            list(self.checkpoints.values()),
            storages=self.storages,
            record=self.record,
            is_first=self.schedule.gateways == 1 and self.roles[self.network.address].count == 1,
        )
        passive = [other for other in self.gateways.values() if other is not gateway]
        left = rest.violations(gateway, self.storages, repeats=self._conditions.repeats > 0)
        return [*left, *told, *found, *rest.passive_violations(passive)]

    def _fill_tables(self) -> None:
        """Lets tables have messages before anything runs: these must be read first."""
        source = self._source("tables")
        for name in sorted(self._tables):
            for partition in self.logs[name].messages:
                for _ in range(source.randint(0, MAX_ROWS)):
                    self.logs[name].append(partition, source, self._conditions.message_bytes)

    async def _produce(self) -> None:
        """Produces the messages, in a few portions."""
        source, conditions = self._source("produce"), self._conditions
        systems = list(self._systems.values())
        left = conditions.messages
        for portion in range(PRODUCTIONS, 0, -1):
            for _ in range(left // portion):
                system = source.choice(systems)
                system.append(source.choice(list(system.messages)), source, conditions.message_bytes)
            left -= left // portion
            await asyncio.sleep(conditions.produce_s / PRODUCTIONS)
        if conditions.ends:
            for log in self.logs.values():
                log.ended |= {partition for partition in list(log.messages) if source.random() < 0.5}
            for feed in self.feeds.values():
                feed.ended |= {partition for partition in feed.changes if source.random() < 0.5}
