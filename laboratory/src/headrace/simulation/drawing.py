"""Draws a schedule by a seed."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from headrace.simulation.scale import LARGE, Scale
from headrace.simulation.schedule import (
    AT_LEAST_ONCE,
    IDEMPOTENT,
    TWO_PHASE,
    At,
    Conditions,
    Fault,
    QueryPlan,
    Schedule,
    SinkPlan,
    SourcePlan,
)

PROFILES = ("all", "cuts", "queue", "pipelines", "pauses", "sinks", "gateways", "tables", "feeds")
"""What schedules concentrate on."""
ON_REQUEST = ("drivers",)
"""Profiles that must be named: a second driver on the checkpoint of the first."""
POINTS = (
    *("run begun", "query started", "before offsets", "offsets written", "fetched", "delivered", "voted", "commit written"),
    *("source acknowledged", "staged", "preparing", "prepared", "committing", "sink committed"),
    *("Ingest", "Attach", "Plan", "Fetch", "Deliver", "Vote", "ReportCommits", "Detach"),
)
"""The points at which faults strike. Those in capitals are calls that the gateway begins to serve."""
_KINDS = (
    *["crash"] * 8,
    *("crash-all", "crash-two", "freeze", "freeze", "cut", "cut", "cut", "unreachable", "half-close", "stop", "stop"),
    *("second", "second", "pause", "pause", "reload", "revoke", "revoke", "forget", "clock"),
    *("add", "end", "close", "end", "fail", "fail", "burst"),
)
PARTS = ("stream", "connector", "pipeline", "sink")
_Choice = TypeVar("_Choice")


def draw(seed: str, profile: str = "all", scale: Scale = LARGE) -> Schedule:
    """Returns the schedule of a seed."""
    source = random.Random(f"{seed}/{profile}" if scale is LARGE else f"{seed}/{profile}/{scale.name}")
    sources = _sources(source, profile, scale)
    sinks = _sinks(source, profile, scale)
    queries = _queries(source, profile, scale, sources, sinks)
    conditions = _conditions(source, scale, len(sources) + sum(plan.instances for plan in sinks))
    schedule = Schedule(
        seed=seed,
        profile=profile,
        scale=scale.name,
        sources=tuple(sources),
        sinks=tuple(sinks),
        queries=tuple(queries),
        conditions=conditions,
        gateways=_gateways(source, profile, scale),
    )
    roles = schedule.roles()
    faults = [_fault(source, scale, conditions, roles) for _ in range(source.choice(scale.faults))]
    if profile in ("cuts", "queue", "sinks", "feeds"):
        faults += [fault for _ in range(source.choice(scale.some(1, 2, 3))) for fault in _cut_and_crash(source, roles)]
    if profile == "sinks":
        faults += [
            _failing(source, conditions, ("stage", "prepare", "commit")) for _ in range(source.choice(scale.some(1, 2, 4)))
        ]
    if profile == "queue" and source.random() < 0.5:
        faults += _set_back(source)
    if profile == "feeds":
        faults += [_restart(source, roles) for _ in range(source.choice(scale.some(1, 2, 4)))]
        if source.random() < 0.3:
            faults.append(_second_driver(source))
    if profile == "drivers":
        faults += [_second_driver(source) for _ in range(source.choice([1, 2]))]
    if profile == "gateways" or (profile == "feeds" and schedule.gateways > 1):
        faults += [_address(source, scale, conditions, roles) for _ in range(source.choice(scale.some(1, 2, 4, 6)))]
        faults += _cut_and_crash(source, roles)
        if source.random() < 0.2:
            faults.append(_second_driver(source))
        removed = 0 if profile == "feeds" else source.choice([0, 0, 1, 2])
        faults += [Fault(kind="remove", at=_at(source, scale, conditions.fault_s)) for _ in range(removed)]
        # Two connectors of one queue at two gateways are a limit that docs/start/guarantees.md describes.
        faults = [fault for fault in faults if fault.kind != "second" or not fault.who.startswith(("queue", "feed"))]
        conditions = replace(
            conditions, clocks_s=_clocks(seed, schedule.gateways), repeats=_repeats(seed), moved_cursors=_moved_cursors(seed)
        )
    if profile == "pauses":
        faults += [_paused(source, scale, conditions) for _ in range(source.choice(scale.some(2, 4, 6)))]
    # A second process has a session of its own, beside the session of the first.
    seconds = sum(fault.kind == "second" for fault in faults)
    conditions = replace(conditions, max_sessions=conditions.max_sessions + seconds)
    return replace(schedule, conditions=conditions, faults=tuple(faults))


def _gateways(source: random.Random, profile: str, scale: Scale) -> int:
    if profile == "feeds":
        return source.choice([1, 1, 1, *scale.gateways[:1]])
    return source.choice(scale.gateways) if profile == "gateways" else 1


def _sources(source: random.Random, profile: str, scale: Scale) -> list[SourcePlan]:
    logs = 1 if profile == "queue" else source.choice(scale.logs) + (profile == "tables")
    queues = {"queue": 1, "cuts": source.choice([0, 0, 1])}.get(
        profile, source.choice([0, 1] if profile == "gateways" else [0, 0, 0, 1])
    )
    found = [SourcePlan(f"log{i}", False, source.choice(scale.partitions), source.random() < 0.5) for i in range(logs)]
    if profile == "feeds":
        return [*found, SourcePlan("feed0", False, source.choice(scale.queue_partitions), resumes=True)]
    return found + [SourcePlan(f"queue{i}", True, source.choice(scale.queue_partitions)) for i in range(queues)]


def _sinks(source: random.Random, profile: str, scale: Scale) -> list[SinkPlan]:
    found = [SinkPlan("store", TWO_PHASE, source.choice(scale.instances))]
    more = 0.6 if profile == "sinks" else 0.15
    if source.random() < more:
        found.append(SinkPlan("table", IDEMPOTENT))
    if source.random() < more:
        found.append(SinkPlan("feed", AT_LEAST_ONCE))
    return found


def _queries(
    source: random.Random, profile: str, scale: Scale, sources: Sequence[SourcePlan], sinks: Sequence[SinkPlan]
) -> list[QueryPlan]:
    several = {"pipelines": scale.pipelines, "gateways": scale.queries[2:], "feeds": (1, *scale.pipelines)}
    count = source.choice(several.get(profile, scale.queries))
    everything = tuple(plan.name for plan in sources)
    logs = tuple(plan.name for plan in sources if plan.is_log)
    found = [QueryPlan("query0", everything, tuple(plan.name for plan in sinks))]
    others = everything if profile in ("gateways", "feeds") else logs
    found += [QueryPlan(f"query{i}", others, ("store",)) for i in range(1, count)]
    if profile != "tables":
        return found
    first, *rest = found
    return [
        replace(first, tables=logs[:1]),
        *(replace(query, tables=logs[: source.choice([0, 1, len(logs) - 1])]) for query in rest),
    ]


def _conditions(source: random.Random, scale: Scale, connectors: int) -> Conditions:
    pick = source.choice
    return Conditions(
        messages=pick(scale.messages),
        message_bytes=pick([40, 40, 2_000, 30_000]),
        produce_s=pick(scale.produce_s),
        fault_s=source.uniform(*scale.fault_s),
        look_s=scale.look_s,
        ends=source.random() < 0.5,
        session_messages=pick([3, 20, 200, 10_000]),
        max_frame_messages=pick([1, 3, 10, 100]),
        buffer_bytes=pick([2**20, 2**20, 16 * 2**20]),
        max_sessions=pick([connectors, connectors + 1, 500]),
        tokens=source.random() < 0.3,
        lease_ms=pick([2_000, 5_000, 60_000]),
        write_timeout_ms=pick([2_000, 30_000]),
        drain_timeout_ms=pick([500, 3_000]),
        frame_messages=pick([1, 5, 50]),
        drain_s=pick([0.5, 3.0]),
        tasks=pick(scale.tasks),
        tell_ends=source.random() < 0.4,
        max_messages=pick([None, None, 3, 20]),
        poll_s=pick(scale.poll_s),
        task_s=pick([0.001, 0.05, 0.5]),
        slow_tasks_s=pick([0.0, 0.0, 0.02]),
        doubled=pick([0.0, 0.0, 0.3]),
        inline=pick([0.0, 0.5]),
        progress_s=pick([0.01, 0.2, 1.0]),
        gateway_timeout_s=pick([20.0, 30.0, 60.0]),
        sink_timeout_s=pick([3.0, 20.0, 60.0]),
        sticky=pick([0.0, 0.5, 0.9]),
        hiccups=pick([0.0, 0.0, 0.1]),
    )


def _at(source: random.Random, scale: Scale, fault_s: float) -> At:
    form = source.random()
    if form < 0.35:
        return At("time", round(source.uniform(0, fault_s), 3))
    if form < 0.6:
        return At("callback", source.randrange(1, scale.callbacks[source.random() >= 0.7]))
    return _at_point(source, source.choice(scale.passes))


def _at_point(source: random.Random, most: int = 8) -> At:
    return At("point", source.randint(1, most), source.choice(POINTS))


def _fault(source: random.Random, scale: Scale, conditions: Conditions, roles: Sequence[str]) -> Fault:
    kind, pick = source.choice(_KINDS), source.choice
    fault = Fault(
        kind=kind,
        at=_at(source, scale, conditions.fault_s),
        who=pick(roles),
        for_s=round(pick(scale.away_s) * source.uniform(0.5, 1.5), 3),
    )
    if kind == "crash-two":
        return replace(fault, second=pick(roles))
    if kind in ("freeze", "unreachable"):
        return replace(fault, for_s=round(pick(scale.hangs_s) * source.uniform(0.5, 1.5), 3))
    if kind == "cut":
        client_s, server_s = pick(scale.client_s), pick(scale.server_s)
        return replace(fault, client_s=_some(source, client_s), server_s=_some(source, server_s), share=pick([1.0, 0.5]))
    if kind == "second":
        return replace(fault, who=pick([role for role in roles if role.startswith(("log", "queue", "feed"))]))
    if kind == "reload":
        return replace(fault, for_s=round(source.uniform(0.1, 4.0), 3))
    if kind == "pause":
        return replace(fault, what=pick(PARTS), for_s=round(source.uniform(0.1, 4.0), 3))
    if kind == "clock":
        return replace(fault, by_s=pick([-86_400.0, -5.0, 5.0, 86_400.0]))
    if kind == "fail":
        return replace(fault, what=pick(["stage", "prepare", "commit", "source"]))
    return fault


def _some(source: random.Random, most: float) -> float:
    return round(source.random() * most, 3)


def _cut_and_crash(source: random.Random, roles: Sequence[str]) -> list[Fault]:
    """Returns a cut at a point, and a crash at another one."""
    server_s = _some(source, source.choice([0.01, 5.0]))
    cut = Fault(kind="cut", at=_at_point(source), who=source.choice(roles), client_s=_some(source, 0.01), server_s=server_s)
    crash = Fault(kind="crash", at=_at_point(source), who=source.choice(roles), for_s=source.choice([0.01, 1.0]))
    return [cut, crash]


def _restart(source: random.Random, roles: Sequence[str]) -> Fault:
    """Returns a crash of the gateway, a feed or a query, while a batch is under way."""
    at = At("point", source.randint(1, 8), source.choice(["offsets written", "fetched", "voted", "commit written", "Fetch"]))
    who = source.choice([role for role in roles if role.startswith(("gateway", "feed", "query"))])
    return Fault(kind=source.choice(["crash", "crash", "stop"]), at=at, who=who, for_s=source.choice([0.01, 1.0]))


def _failing(source: random.Random, conditions: Conditions, calls: Sequence[str]) -> Fault:
    at = At("time", round(source.uniform(0, conditions.fault_s), 3))
    return Fault(kind="fail", at=at, what=source.choice(calls))


def _set_back(source: random.Random) -> list[Fault]:
    """Returns a clock of the gateway that is set back, and a crash of a queue's connector after it."""
    pass_ = source.randint(2, 4)
    return [
        Fault(kind="clock", at=At("point", pass_, "source acknowledged"), who="gateway", by_s=-86_400.0),
        Fault(kind="crash", at=At("point", pass_ + 1, "source acknowledged"), who="queue0"),
    ]


def _second_driver(source: random.Random) -> Fault:
    """Returns a second driver of the first query, which starts in the middle of a batch, while the first one may hang."""
    at = At("point", source.randint(1, 8), source.choice(["offsets written", "fetched", "staged", "prepared", "voted"]))
    return Fault(kind="second", at=at, who="query0", for_s=source.choice([0.0, 0.3, 1.5]))


def _address(source: random.Random, scale: Scale, conditions: Conditions, roles: Sequence[str]) -> Fault:
    """Returns a move of the address to another gateway, for all or for one, or a time during which several gateways own it."""
    at, pick = _at(source, scale, conditions.fault_s), source.choice
    if source.random() < 0.25:
        return Fault(kind="share", at=at, for_s=round(pick([0.1, 1.0, 5.0]) * source.uniform(0.5, 1.5), 3))
    return Fault(
        kind="move",
        at=at,
        who="gateway" if source.random() < 0.6 else pick(roles),
        for_s=round(pick([0.3, 2.0, 6.0]) * source.uniform(0.5, 1.5), 3),
        client_s=_some(source, pick([0.01, 3.0])),
        server_s=_some(source, pick([0.01, 5.0, 12.0])),
        share=pick([1.0, 1.0, 0.5, 0.0]),
    )


def _clocks(seed: str, gateways: int) -> tuple[float, ...]:
    """Returns by how much the clock of each gateway is ahead, from a source of its own: it changes nothing else of a schedule."""
    source = random.Random(f"{seed}/clocks")
    return tuple(source.choice([0.0, 0.0, -5.0, 5.0, -86_400.0, 86_400.0]) for _ in range(gateways))


def _repeats(seed: str) -> float:
    """Returns how often calls of planners arrive once more, from a source of its own."""
    return random.Random(f"{seed}/repeats").choice([0.0, 0.0, 0.3])


def _moved_cursors(seed: str) -> float:
    """Returns how often idle logs move their cursors, from a source of its own."""
    return random.Random(f"{seed}/cursors").choice([0.0, 0.0, 0.1])


def _paused(source: random.Random, scale: Scale, conditions: Conditions) -> Fault:
    at = _at(source, scale, conditions.fault_s) if source.random() < 0.5 else _at_point(source)
    return Fault(kind="pause", at=at, who="gateway", what=source.choice(PARTS), for_s=_some(source, 3.0))
